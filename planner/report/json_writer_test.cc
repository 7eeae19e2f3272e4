// SPDX-License-Identifier: Apache-2.0
#include "planner/report/json_writer.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace remesh::planner {
namespace {

TEST(JsonWriterTest, CommasStandBetweenValues) {
  JsonWriter json;
  json.BeginObject().Key("a").BeginArray().Int(1).Double(0.1).Bool(true).EndArray();
  json.Key("b").BeginObject().EndObject().Key("c").String("x").EndObject();
  EXPECT_EQ(json.text(), R"({"a":[1,0.1,true],"b":{},"c":"x"})");
}

TEST(JsonWriterTest, NothingEndsAScriptElement) {
  JsonWriter json;
  json.String("</script><!-- & \"\\\n\x7f");
  EXPECT_EQ(json.text(), R"("\u003c/script\u003e\u003c!-- \u0026 \"\\\u000a\u007f")");
  EXPECT_EQ(nlohmann::json::parse(json.text()).get<std::string>(), "</script><!-- & \"\\\n\x7f");
}

TEST(JsonWriterTest, BytesThatAreNotUtf8AreReplaced) {
  for (const char* bad : {"\xff", "\xc0\xaf", "\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    JsonWriter json;
    json.String(std::string(bad) + "x");
    const std::string text = nlohmann::json::parse(json.text()).get<std::string>();
    EXPECT_EQ(text.substr(0, 3), "\xef\xbf\xbd");
    EXPECT_EQ(text.back(), 'x');
  }
  JsonWriter json;
  json.String("\xe2\x82\xac\xf0\x9f\x99\x82");
  EXPECT_EQ(json.text(), "\"\xe2\x82\xac\xf0\x9f\x99\x82\"");
}

TEST(JsonWriterTest, NumbersReadBackEqual) {
  for (const double value : {1.0 / 3, 1e300, 5e-324, -0.0}) {
    JsonWriter json;
    json.Double(value);
    EXPECT_EQ(nlohmann::json::parse(json.text()).get<double>(), value);
  }
  JsonWriter json;
  json.BeginArray().Double(std::numeric_limits<double>::infinity()).Double(std::nan(""));
  EXPECT_EQ(json.EndArray().text(), "[null,null]");
}

TEST(JsonWriterTest, ShortNumbersKeepFourDigits) {
  JsonWriter json;
  json.BeginArray().Short(0).Short(12).Short(1234567).Short(-0.5).Short(0.99996).Short(1.2e-7);
  EXPECT_EQ(json.EndArray().text(), "[0,12,1235e3,-5e-1,1,12e-8]");
}

}  // namespace
}  // namespace remesh::planner
