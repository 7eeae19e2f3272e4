// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/pathways.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "proto/convert/plan_spec.h"

namespace remesh::proto {

using planner::Topology;

namespace {

using ::testing::HasSubstr;

// {devices=[2,1]<=[2]} and {devices=[1,2]<=[2]} as jax 0.11 serializes them.
constexpr char kRows[] = R"("xla_hlo_sharding":"CAMaAgIBSgECUgEA")";
constexpr char kColumns[] = R"("xla_hlo_sharding":"CAMaAgECSgECUgEA")";

std::string Sharding(const std::string& ids, const char* form, const std::string& more = "") {
  return R"({"devices":{"device_ids":[)" + ids + "]}," + form + more + "}";
}

std::string Request(const std::string& in, const std::string& out,
                    const std::string& donate = "true") {
  return R"({"reshardRequest":{"donateInput":)" + donate + R"(,"inSharding":[)" + in +
         R"(],"outSharding":[)" + out + "]}}";
}

constexpr char kArrays[] = R"([{"name":"w","shape":[4,4],"element_type":"bf16"},
                               {"name":"v","shape":["4",2],"elementType":"f32"}])";
std::string GoodRequest() {
  return Request(Sharding("0,1", kRows) + "," + Sharding("0,1", kRows),
                 Sharding("2,3", kColumns) + "," +
                     Sharding("2,3", kColumns, R"(,"memory_kind":"pinned_host")"));
}

Topology TwoHosts() {
  planner::Host host{.name = "a",
                     .device_ids = {0, 1},
                     .nic_bytes_per_second = 1e9,
                     .nics = 1,
                     .fabric_bytes_per_second = 1e11};
  planner::Host other = host;
  other.name = "b";
  other.device_ids = {2, 3};
  return {.hosts = {host, other}};
}

TEST(PathwaysTest, ARequestWithItsArraysIsASpec) {
  const auto spec = ParsePathways(GoodRequest(), kArrays);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->options().donate());
  EXPECT_EQ(spec->device_lists_size(), 2);
  EXPECT_EQ(spec->shardings_size(), 3);
  EXPECT_EQ(spec->arrays(0).source().ref(), spec->arrays(1).source().ref());

  const Topology topology = TwoHosts();
  const auto request = ToReshardRequest(*spec, &topology);
  ASSERT_TRUE(request.ok()) << request.status();
  ASSERT_EQ(request->arrays.size(), 2u);
  EXPECT_EQ(request->arrays[0].name, "w");
  EXPECT_EQ(request->arrays[0].element_type, planner::ElementType::kBf16);
  EXPECT_EQ(*request->arrays[0].target.devices, (planner::DeviceList{2, 3}));
  EXPECT_EQ(planner::BoxesOf(*request->arrays[0].source.layout, 1)[0].DebugString(), "[2:4,0:4]");
  EXPECT_EQ(planner::BoxesOf(*request->arrays[0].target.layout, 1)[0].DebugString(), "[0:4,2:4]");
  EXPECT_EQ(request->arrays[1].target.memory_kind, planner::MemoryKind::kPinnedHost);
}

TEST(PathwaysTest, ArraysMayBeYaml) {
  const auto json = ParsePathways(GoodRequest(), kArrays);
  const auto yaml = ParsePathways(GoodRequest(), R"(# shapes
- {name: w, shape: [4, 4], element_type: bf16}
- {name: v, shape: [4, 2], element_type: f32})");
  ASSERT_TRUE(yaml.ok()) << yaml.status();
  EXPECT_EQ(yaml->DebugString(), json->DebugString());
}

TEST(PathwaysTest, DonationMayBeLeftOut) {
  const std::string request = R"({"reshardRequest":{"inSharding":[],"outSharding":[]}})";
  const auto spec = ParsePathways(request, "[]");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_FALSE(spec->options().donate());
}

struct Bad {
  std::string request;
  std::string arrays;
  std::string field;
  std::string words;
};

TEST(PathwaysTest, BadInputNamesTheField) {
  const std::string good = GoodRequest();
  const std::string root = "reshardRequest";
  const std::string one = R"([{"name":"w","shape":[4,4],"element_type":"bf16"}])";
  const std::string rows = Sharding("0,1", kRows), in = root + ".inSharding";
  const std::vector<Bad> cases = {
      {"{}", kArrays, root, "is missing"},
      {R"({"reshardRequest":3})", kArrays, root, "JSON object"},
      {R"({"reshardRequest":{},"x":1})", kArrays, "x", "not a known field"},
      {R"({"reshardRequest":{"y":1}})", kArrays, root + ".y", "not a known field"},
      {Request("", "", "1"), "[]", root + ".donateInput", "JSON boolean"},
      {R"({"reshardRequest":{"outSharding":[]}})", "[]", in, "is missing"},
      {good, one, in, "2 shardings"},
      {Request(rows, ""), one, root + ".outSharding", "0 shardings"},
      {Request("3", rows), one, in + "[0]", "JSON object"},
      {Request("{}", rows), one, in + "[0].devices", "is missing"},
      {Request(R"({"devices":{}})", rows), one, in + "[0].devices.device_ids", "is missing"},
      {Request(Sharding("0,-1", kRows), rows), one, in + "[0].devices.device_ids[1]", "\"-1\""},
      {Request(Sharding("0,1.5", kRows), rows), one, in + "[0].devices.device_ids[1]", "1.5"},
      {Request(Sharding("4294967296", kRows), rows), one, in + "[0].devices.device_ids[0]",
       "4294967296"},
      {Request(Sharding("0,99999999999999999999", kRows), rows), one,
       in + "[0].devices.device_ids[1]", "integer"},
      {Request(Sharding("0,1", R"("xla_hlo_sharding":"*")"), rows), one,
       in + "[0].xla_hlo_sharding", "base64"},
      {Request(Sharding("0,1", R"("xla_hlo_sharding":7)"), rows), one, in + "[0].xla_hlo_sharding",
       "JSON string"},
      {Request(Sharding("0,1", kRows, R"(,"memory_kind":null)"), rows), one, in + "[0].memory_kind",
       "JSON string"},
      {Request(Sharding("0,1", kRows, R"(,"z":0)"), rows), one, in + "[0].z", "not a known"},
      {good, R"([{"name":"w","shape":[4,"x"]},{}])", "arrays[0].shape[1]", "x"},
      {good, R"([{"dtype":"f32"},{}])", "arrays[0].dtype", "not a known field"},
      {good, R"([{"source":{"ref":"s"}},{}])", "arrays[0].source", "must not be set"},
  };
  for (const Bad& bad : cases) {
    SCOPED_TRACE(bad.request + " " + bad.arrays);
    const auto spec = ParsePathways(bad.request, bad.arrays);
    ASSERT_FALSE(spec.ok());
    EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(GetErrorInfo(spec.status()).metadata["field"], bad.field);
    EXPECT_THAT(std::string(spec.status().message()), HasSubstr(bad.words));
  }
}

TEST(PathwaysTest, BadJsonNamesLineAndColumn) {
  for (const std::string& text : {std::string("{"), std::string(""), std::string(100, '['),
                                  std::string(R"({"reshardRequest":{},"reshardRequest":{}})")}) {
    for (const bool in_request : {true, false}) {
      const auto spec =
          in_request ? ParsePathways(text, kArrays) : ParsePathways(GoodRequest(), text);
      EXPECT_EQ(GetErrorInfo(spec.status()).reason, "INVALID_TEXT") << text;
    }
  }
}

TEST(PathwaysTest, BadShardingsAreFoundLater) {
  const auto spec = ParsePathways(
      Request(Sharding("0,1", R"("xla_hlo_sharding":"////")"), Sharding("0,1", kRows)),
      R"([{"name":"w","shape":[4,4],"element_type":"bf16"}])");
  ASSERT_TRUE(spec.ok()) << spec.status();
  const Topology topology = TwoHosts();
  const auto request = ToReshardRequest(*spec, &topology);
  EXPECT_EQ(GetErrorInfo(request.status()).metadata["field"],
            "shardings[inSharding[0]].op_sharding");
}

}  // namespace
}  // namespace remesh::proto
