// SPDX-License-Identifier: Apache-2.0
#include "planner/sharding/sdy_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace remesh::planner {
namespace {

std::string Printed(std::string_view text) {
  const auto sharding = ParseSdySharding(text);
  return sharding.ok() ? PrintSdySharding(*sharding) : std::string(sharding.status().message());
}

TEST(SdyTextTest, MeshesInlineBeforeAndBehind) {
  constexpr char kInline[] =
      R"(#sdy.sharding<mesh<["a"=2, "b"=4]>, [{"a", "b":(1)2, ?}, {}], replicated={"b":(2)2}>)";
  EXPECT_EQ(Printed(kInline), kInline);
  EXPECT_EQ(Printed(R"(sdy.mesh @m = <["a"=2,"b"=4]>
      #sdy.sharding<@m, [{"a","b":(1)2,?}p1, {}p0], replicated={"b":(2)2}>)"),
            kInline);
  EXPECT_EQ(Printed(R"(#sdy.sharding<@"m", [{"a","b":(1)2,?}, {}], replicated={"b":(2)2}> // here
      sdy.mesh @other = <[]> sdy.mesh @m = <["a"=2,"b"=4]>)"),
            kInline);
}

TEST(SdyTextTest, DeviceOrdersReductionsAndMaximalMeshes) {
  for (const char* text : {R"(#sdy.sharding<mesh<["a"=4], device_ids=[3, 2, 1, 0]>, [{"a"}]>)",
                           R"(#sdy.sharding<mesh<["a"=4]>, [{}], unreduced=max{"a"}>)",
                           R"(#sdy.sharding<mesh<[], device_ids=[3]>, []>)"}) {
    EXPECT_EQ(Printed(text), text);
  }
}

TEST(SdyTextTest, ErrorsTellColumnAndExpectation) {
  constexpr const char* kErrors[][2] = {
      {"", "column 1: expected 'sdy.mesh' or '#sdy.sharding<'"},
      {"#sdy.sharding<@m, [{}]>", "column 15: mesh @m is not defined in this text"},
      {R"(sdy.mesh @m = <["a"=2]> sdy.mesh @m = <["a"=2]> #sdy.sharding<@m, []>)",
       "mesh @m is defined twice"},
      {R"(#sdy.sharding<mesh<["a"=2]>, [{"b"}]>)", "the mesh has no axis \"b\""},
      {R"(#sdy.sharding<mesh<["a"=2]>, [{"a"}q]>)", "expected a priority"},
      {R"(#sdy.sharding<mesh<["a"=0]>, [{"a"}]>)", "must be >= 1"},
      {R"(#sdy.sharding<mesh<["a"=2]>, [{"a"}, {"a"}]>)", "used twice"},
      {R"(#sdy.sharding<mesh<["a"=2]>, [{?, "a"}]>)", "expected '}'"},
      {R"(#sdy.sharding<mesh<["a"=2]>, [{"a"}]> x)", "Extra content after sharding"},
      {R"(#sdy.sharding<mesh<["a"=2]>, [{"a"}])", "expected '>', found the end"},
  };
  for (const auto& [text, error] : kErrors) {
    const auto sharding = ParseSdySharding(text);
    ASSERT_FALSE(sharding.ok()) << text;
    const ErrorInfo info = GetErrorInfo(sharding.status());
    EXPECT_EQ(info.metadata.at("field"), "sdy_text");
    EXPECT_THAT(info.metadata.at("expectation"), ::testing::HasSubstr(error)) << text;
  }
}

}  // namespace
}  // namespace remesh::planner
