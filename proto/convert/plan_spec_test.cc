// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/plan_spec.h"

#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "proto/text/text.h"

namespace remesh::proto {
namespace {

constexpr char kTopology[] =
    R"("topology":{"hosts":[{"name":"a","device_ids":[0,1],"nics":1,"nic_bytes_per_second":1e9,"fabric_bytes_per_second":1e11},
                            {"name":"b","device_ids":[2,3],"nic_bytes_per_second":1e9,"fabric_bytes_per_second":1e11}]})";

absl::StatusOr<planner::ReshardRequest> Read(const std::string& json,
                                             const planner::Topology* fallback = nullptr) {
  v1::PlanSpec spec;
  const absl::Status status = ParseText(json, spec);
  if (!status.ok()) return status;
  return ToReshardRequest(spec, fallback);
}

// A spec of one array w of bf16[8,8] with the given sides and more fields.
std::string Spec(const std::string& source, const std::string& target,
                 const std::string& more = "") {
  return absl::StrCat("{", kTopology,
                      R"(,"arrays":[{"name":"w","shape":[8,8],"element_type":"bf16","source":)",
                      source, ",\"target\":", target, "}]", more, "}");
}

constexpr char kRows[] = R"({"hlo_text":"{devices=[4,1]<=[4]}","devices":{"ids":[0,1,2,3]}})";

TEST(PlanSpecTest, ReadsEveryForm) {
  const std::string kAll = R"("devices":{"range":{"count":4}})";
  const std::string forms[] = {
      kRows,
      "{\"op_sharding\":\"CAMaAgQBIgQAAQID\"," + kAll + "}",
      R"({"named":{"mesh":{"axes":[{"name":"x","size":4}]},"dim_shardings":[{"axes":[{"mesh_axis_index":0}]},{}]},)" +
          kAll + "}",
      R"({"dtensor":{"mesh_shape":[4],"placements":[{"shard":{"dim":0}}]},)" + kAll + "}",
      R"({"sdy_text":"#sdy.sharding<mesh<[\"x\"=4]>, [{\"x\"}, {}]>",)" + kAll + "}",
      R"({"boxes":{"devices":[{"device":0,"boxes":[{"lo":[0,0],"hi":[2,8]}]},{"device":1,"boxes":[{"lo":[2,0],"hi":[4,8]}]},
                              {"device":2,"boxes":[{"lo":[4,0],"hi":[6,8]}]},{"device":3,"boxes":[{"lo":[6,0],"hi":[8,8]}]}]}})",
  };
  const auto rows = Read(Spec(kRows, kRows));
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(*rows->arrays[0].source.devices, (planner::DeviceList{0, 1, 2, 3}));
  for (const std::string& form : forms) {
    const auto request = Read(Spec(form, kRows));
    ASSERT_TRUE(request.ok()) << form << request.status();
    EXPECT_EQ(*request->arrays[0].source.layout, *rows->arrays[0].source.layout) << form;
    EXPECT_EQ(*request->arrays[0].source.devices, *rows->arrays[0].source.devices) << form;
  }
}

// JAX prints PartitionSpec('x') for an array of two dimensions.
TEST(PlanSpecTest, DimensionsThatANamedShardingLeavesOutAreWhole) {
  const auto read = [](const std::string& spec) {
    return Read(
        Spec(absl::StrCat("\"NamedSharding(mesh=Mesh('x': 4), spec=P(", spec, "))\""), kRows));
  };
  const auto whole = read("'x', None"), cut = read("'x',");
  ASSERT_TRUE(whole.ok() && cut.ok()) << whole.status() << cut.status();
  EXPECT_EQ(*cut->arrays[0].source.layout, *whole->arrays[0].source.layout);
  const absl::Status shardy =
      Read(Spec(R"({"sdy_text":"#sdy.sharding<mesh<[\"x\"=4]>, [{\"x\"}]>",)"
                R"("devices":{"range":{"count":4}}})",
                kRows))
          .status();
  EXPECT_EQ(shardy.message(),
            "arrays[0].source.shape: value \"[8,8]\" has 2 dimensions, but the sharding names 1: "
            "add {} for each that is not cut");
  const absl::Status more = read("'x', None, None").status();
  EXPECT_EQ(more.message(),
            "arrays[0].source.shape: value \"[8,8]\" has 2 dimensions, but the sharding names 3: "
            "change the shape or the sharding");
}

TEST(PlanSpecTest, ZeroBytesOfOpShardingAreReplicated) {
  const auto request = Read(Spec(R"({"op_sharding":"","devices":{"ids":[2,0]}})", kRows));
  ASSERT_TRUE(request.ok()) << request.status();
  const planner::Layout& layout = *request->arrays[0].source.layout;
  ASSERT_EQ(layout.tiles.size(), 1u);
  EXPECT_EQ(planner::BoxesOf(layout, 1)[0], planner::Box::Whole({{8, 8}}));
}

TEST(PlanSpecTest, DefaultsAndOptions) {
  const auto request = Read(Spec(
      kRows, R"({"hlo_text":"{replicated}","devices":{"ids":[1]},"memory_kind":"pinned_host"})",
      R"(,"options":{"donate":true,"lost_device_ids":[],"strategy":"P2P"},
                                     "fallbacks":[{"host_snapshot":"a","step":7},{"checkpoint":"/c"}])"));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->topology.hosts[1].nics, 1);
  EXPECT_EQ(request->options.window_bytes, 256 << 20);
  EXPECT_TRUE(request->options.donate);
  EXPECT_EQ(request->options.strategy, planner::Strategy::kP2p);
  EXPECT_EQ(request->arrays[0].target.memory_kind, planner::MemoryKind::kPinnedHost);
  ASSERT_EQ(request->fallbacks.size(), 2u);
  EXPECT_EQ(request->fallbacks[0],
            (planner::Fallback{planner::Fallback::Kind::kHostSnapshot, "a", 7}));
  EXPECT_EQ(request->fallbacks[1].location, "/c");
}

TEST(PlanSpecTest, AnEmptyTopologyIsTheFallback) {
  v1::PlanSpec spec;
  ASSERT_TRUE(ParseText(Spec(kRows, kRows), spec).ok());
  const planner::Topology fallback = ToTopology(spec.topology(), nullptr).value();
  spec.clear_topology();
  EXPECT_EQ(ToReshardRequest(spec, &fallback).value().topology, fallback);
  EXPECT_EQ(GetErrorInfo(ToReshardRequest(spec, nullptr).status()).metadata["field"],
            "topology.hosts");
}

// 1,137 arrays over 16,384 devices: below 256 KiB on the wire, and no layout or list is built
// twice.
TEST(PlanSpecTest, ManyArraysShareLayoutsAndLists) {
  v1::PlanSpec spec;
  for (int h = 0; h < 2048; ++h) {
    v1::Host& host = *spec.mutable_topology()->add_hosts();
    host.set_name(absl::StrCat("h", h));
    for (int d = 0; d < 8; ++d) host.add_device_ids(h * 8 + d);
    host.set_nic_bytes_per_second(1e9);
    host.set_fabric_bytes_per_second(1e11);
  }
  (*spec.mutable_device_lists())["all"].mutable_range()->set_count(16384);
  for (const char* text : {"{devices=[16384,1]<=[16384]}", "{devices=[1,16384]<=[16384]}"}) {
    v1::Sharding& sharding = (*spec.mutable_shardings())[text];
    sharding.set_hlo_text(text);
    sharding.mutable_devices()->set_ref("all");
  }
  for (int i = 0; i < 1137; ++i) {
    v1::ArraySpec& array = *spec.add_arrays();
    array.set_name(absl::StrCat("model.layers.", i, ".weight"));
    array.add_shape(16384);
    array.add_shape(16384 * (1 + i % 3));
    array.set_element_type("bf16");
    array.mutable_source()->set_ref("{devices=[16384,1]<=[16384]}");
    array.mutable_target()->set_ref("{devices=[1,16384]<=[16384]}");
  }
  EXPECT_LT(spec.ByteSizeLong(), size_t{256} << 10);
  const auto request = ToReshardRequest(spec, nullptr);
  ASSERT_TRUE(request.ok()) << request.status();
  std::set<const planner::Layout*> layouts;
  std::set<const planner::DeviceList*> lists;
  for (const planner::ArraySpec& array : request->arrays) {
    for (const planner::Placement* placement : {&array.source, &array.target}) {
      layouts.insert(placement->layout.get());
      lists.insert(placement->devices.get());
    }
  }
  EXPECT_EQ(layouts.size(), 6u);
  EXPECT_EQ(lists.size(), 1u);
}

v1::PlanSpec SmallSpec() {
  v1::PlanSpec spec;
  EXPECT_TRUE(ParseText(Spec(kRows, kRows), spec).ok());
  return spec;
}

// Regression: 63 KB of named lists or shardings kept a thread busy for 9 s after their caller left.
TEST(PlanSpecTest, NamedListsAndShardingsEndWithTheBudget) {
  for (const bool lists : {true, false}) {
    v1::PlanSpec spec = SmallSpec();
    for (int i = 0; i < 1000; ++i) {
      const std::string key = absl::StrCat("key ", i);
      if (lists) {
        (*spec.mutable_device_lists())[key].mutable_range()->set_count(i + 1);
      } else {
        v1::Sharding& sharding = (*spec.mutable_shardings())[key];
        sharding.set_hlo_text("{replicated}");
        sharding.mutable_devices()->mutable_range()->set_count(i + 1);
      }
    }
    int looks = 0;
    planner::Budget most([&looks] {
      return ++looks > 100 ? absl::CancelledError("the caller has gone") : absl::OkStatus();
    });
    EXPECT_TRUE(absl::IsCancelled(ToReshardRequest(spec, nullptr, most).status()));
    EXPECT_EQ(looks, 101);
    EXPECT_TRUE(ToReshardRequest(spec, nullptr).ok());
  }
}

// Regression: 286 bytes took 1.4 GB.
TEST(PlanSpecTest, LayoutsOfManyDimensionsAreLimited) {
  v1::PlanSpec spec = SmallSpec();
  v1::ArraySpec& array = *spec.mutable_arrays(0);
  array.clear_shape();
  for (int d = 0; d < 32; ++d) array.add_shape(2);
  array.mutable_source()->set_hlo_text("{replicated}");
  v1::DeviceList& devices = *array.mutable_source()->mutable_devices();
  devices.clear_ids();
  devices.mutable_range()->set_count(1 << 20);
  const absl::Status status = ToReshardRequest(spec, nullptr).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(GetErrorInfo(status).metadata.at("field"), "arrays[0].source.devices") << status;
}

TEST(PlanSpecTest, EqualInlineShardingsShareToo) {
  v1::PlanSpec spec;
  ASSERT_TRUE(
      ParseText(
          Spec(
              kRows,
              R"({"hlo_text":"{devices=[4,1]<=[4]}","devices":{"range":{"count":4}},"memory_kind":"device"})"),
          spec)
          .ok());
  const planner::ReshardRequest request = ToReshardRequest(spec, nullptr).value();
  EXPECT_EQ(request.arrays[0].source.layout, request.arrays[0].target.layout);
  EXPECT_EQ(request.arrays[0].source.devices, request.arrays[0].target.devices);
}

}  // namespace
}  // namespace remesh::proto
