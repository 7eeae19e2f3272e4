// SPDX-License-Identifier: Apache-2.0
#include "server/questions/place_state.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "proto/program/shard_columns.h"
#include "server/controller/values/records.h"

namespace remesh::server {
namespace {

// Four such hosts use up the sum that all NICs may have.
planner::Topology Endless(int hosts) {
  planner::Topology topology;
  for (int64_t h = 0; h < hosts; ++h) {
    planner::Host& host =
        topology.hosts.emplace_back(planner::Host{.name = absl::StrCat("host-", h),
                                                  .device_ids = {},
                                                  .nic_bytes_per_second = 1e300,
                                                  .nics = 4096,
                                                  .fabric_bytes_per_second = 1e9});
    for (int64_t d = 0; d < 4096; ++d) host.device_ids.push_back(h * 4096 + d);
  }
  return topology;
}

// An array f32[8] on device 0, on the workers' own topology.
v1::StateSpec SpecOfWorkers() {
  v1::StateSpec spec;
  v1::StateArray& array = *spec.add_arrays();
  array.set_name("w");
  array.add_shape(8);
  array.set_element_type("f32");
  array.mutable_sharding()->set_hlo_text("{replicated}");
  array.mutable_sharding()->mutable_devices()->add_ids(0);
  return spec;
}

// Regression: an unchecked topology of the registry was written to the journal, which no later life
// of the server could open.
TEST(RecordsTest, WhateverCreateStateTakesIsReadBack) {
  for (const int hosts : {1, 4, 5}) {
    const planner::Topology workers = Endless(hosts);
    const auto placed = PlaceState(SpecOfWorkers(), &workers);
    EXPECT_EQ(placed.ok(), hosts <= 4) << hosts << " hosts: " << placed.status();
    if (!placed.ok()) continue;
    v1::State state;
    state.set_name("jobs/j/states/s");
    const Record record = StateRecord(state, (*placed)->spec);
    const auto restored = ReadRecords({{record.key, *record.bytes}}, [](const v1::StateSpec& spec) {
      return PlaceState(spec, nullptr);
    });
    EXPECT_TRUE(restored.ok()) << hosts << " hosts: " << restored.status();
  }
}

// Regression: 86 KB of layouts took 4 GB and went on for 13 s after their caller had gone.
TEST(PlaceStateTest, EndsWithItsBudget) {
  const planner::Topology workers = Endless(4);
  v1::StateSpec spec = SpecOfWorkers();
  for (int i = 0; i < 100; ++i) {
    v1::StateArray& array = *spec.add_arrays();
    array = spec.arrays(0);
    array.set_name(absl::StrCat("array ", i));
    array.set_shape(0, 10 + i);
  }
  int looks = 0;
  planner::Budget most([&looks] {
    return ++looks > 50 ? absl::CancelledError("the caller has gone") : absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsCancelled(PlaceState(spec, &workers, most).status()));
  EXPECT_EQ(looks, 51);
  EXPECT_TRUE(PlaceState(spec, &workers).ok());
}

// Regression: a state whose spec left the topology to the server named all workers in its record,
// and each start of a move of four hosts read the topology of 16,384.
TEST(PlaceStateTest, AStateNamesItsOwnHostsAmongAnyNumber) {
  planner::Topology workers;
  for (int64_t h = 0; h < 100; ++h) {
    workers.hosts.push_back({.name = absl::StrCat("host-", h),
                             .device_ids = {2 * h, 2 * h + 1},
                             .nic_bytes_per_second = 1e9,
                             .nics = 1,
                             .fabric_bytes_per_second = 1e9,
                             .parent = absl::StrCat("rack-", h % 10)});
  }
  for (int rack = 0; rack < 10; ++rack) {
    workers.domains.push_back({absl::StrCat("rack-", rack), "hall", 1e9, 1e9});
  }
  workers.domains.push_back({"hall", "", 1e9, 1e9});
  const auto placed = PlaceState(SpecOfWorkers(), &workers);
  ASSERT_TRUE(placed.ok()) << placed.status();
  const v1::Topology& named = (*placed)->spec.topology();
  ASSERT_EQ(named.hosts_size(), 1);
  EXPECT_EQ(named.hosts(0).name(), "host-0");
  EXPECT_EQ(named.domains_size(), 2) << "its rack and the hall";
}

// A worker that reads columns must see the same shards as one that reads them one by one.
TEST(PlaceStateTest, ColumnsSayTheSameAsShards) {
  v1::StateSpec spec = SpecOfWorkers();
  const auto add = [&](const char* sharding, const char* memory_kind) {
    v1::StateArray& array = *spec.add_arrays();
    array = spec.arrays(0);
    array.set_name(absl::StrCat("array ", spec.arrays_size()));
    array.add_shape(6);
    array.mutable_sharding()->set_hlo_text(sharding);
    array.mutable_sharding()->set_memory_kind(memory_kind);
    v1::DeviceList& devices = *array.mutable_sharding()->mutable_devices();
    devices.clear_ids();
    devices.mutable_range()->set_start(4094);
    devices.mutable_range()->set_count(4);
  };
  add("{devices=[2,2]<=[4]}", "");
  add("{devices=[1,4]<=[4]}", "pinned_host");
  add("{replicated}", "unpinned_host");
  add("{replicated}", "");
  spec.mutable_arrays(spec.arrays_size() - 1)->clear_shape();  // a scalar, as a step is
  const planner::Topology workers = Endless(2);
  const auto placed = PlaceState(spec, &workers);
  ASSERT_TRUE(placed.ok()) << placed.status();
  for (const char* host : {"host-0", "host-1"}) {
    v1::Assignment columns = AssignmentInColumns(**placed, host);
    EXPECT_EQ(columns.shards_size(), 0);
    ASSERT_TRUE(proto::ColumnsToShards(columns).ok());
    EXPECT_EQ(columns.DebugString(), AssignmentOf(**placed, host).DebugString());
  }
}

// Regression: 2^63 bytes became negative, and so below every quota.
TEST(PlaceStateTest, SumsOfBytesDoNotWrap) {
  v1::StateSpec spec;
  for (int i = 0; i < 32; ++i) {
    v1::StateArray& array = *spec.add_arrays();
    array = SpecOfWorkers().arrays(0);
    array.set_name(absl::StrCat("w", i));
    array.set_shape(0, int64_t{1} << 56);
  }
  const planner::Topology workers = Endless(1);
  const auto placed = PlaceState(spec, &workers);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ((*placed)->total_bytes, int64_t{1} << 62);
}

}  // namespace
}  // namespace remesh::server
