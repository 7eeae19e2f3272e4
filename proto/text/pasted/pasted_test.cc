// SPDX-License-Identifier: Apache-2.0
//
// What people paste, by tests/data/pasted.yaml: what it becomes, or what is said of it.
#include "proto/text/pasted/pasted.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "google/protobuf/util/message_differencer.h"
#include "proto/text/text.h"
#include "remesh/v1/sharding.pb.h"

namespace remesh::proto {
namespace {

v1::Sharding Parsed(const std::string& yaml) {
  v1::Sharding sharding;
  const absl::Status status = ParseText("---\n" + yaml, sharding);
  EXPECT_TRUE(status.ok()) << yaml << ": " << status;
  return sharding;
}

TEST(PastedTest, EveryTextIsReadOrSaysWhatToWrite) {
  const YAML::Node vectors = YAML::LoadFile("tests/data/pasted.yaml");
  ASSERT_GT(vectors.size(), 30u);
  for (const YAML::Node& vector : vectors) {
    const auto text = vector["text"].as<std::string>();
    SCOPED_TRACE(text);
    const absl::StatusOr<PastedSharding> pasted = ReadPastedSharding(text);
    if (vector["refused"]) {
      EXPECT_EQ(GetErrorInfo(pasted.status()).metadata["expectation"],
                vector["refused"].as<std::string>());
      continue;
    }
    ASSERT_TRUE(pasted.ok()) << pasted.status();
    PastedJson sharding = pasted->members;
    if (!pasted->devices.is_null()) sharding["devices"] = pasted->devices;
    const v1::Sharding want = Parsed(vector["sharding"].as<std::string>());
    const v1::Sharding found = Parsed(sharding.dump());
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(found, want))
        << found.DebugString();
  }
}

TEST(PastedTest, DeviceLists) {
  EXPECT_EQ(ReadPastedDevices("all")->dump(), R"({"ref":"all"})");
  EXPECT_EQ(ReadPastedDevices("4-7")->dump(), R"({"range":{"start":4,"count":4}})");
  EXPECT_EQ(ReadPastedDevices("0..7")->dump(), R"({"range":{"start":0,"count":8}})");
  EXPECT_EQ(ReadPastedDevices("3, 1,0")->dump(), R"({"ids":[3,1,0]})");
  for (const char* text : {"7-4", "0..", "all devices", "1,x"})
    EXPECT_FALSE(ReadPastedDevices(text).ok()) << text;
}

}  // namespace
}  // namespace remesh::proto
