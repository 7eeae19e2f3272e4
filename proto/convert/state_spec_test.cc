// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "proto/convert/plan_spec.h"
#include "proto/text/text.h"

namespace remesh::proto {
namespace {

v1::StateSpec State() {
  v1::StateSpec spec;
  EXPECT_TRUE(ParseText(R"(
topology:
  hosts:
  - {name: a, device_ids: [0, 1], nic_bytes_per_second: 1e9, fabric_bytes_per_second: 1e11}
  - {name: b, device_ids: [2, 3], nic_bytes_per_second: 1e9, fabric_bytes_per_second: 1e11}
shardings:
  rows: {hlo_text: "{devices=[4]<=[4]}", devices: {range: {count: 4}}}
arrays:
- {name: v, shape: [8], element_type: f32, sharding: {ref: rows}}
- {name: w, shape: [5], element_type: s4, sharding: {ref: rows}}
)",
                        spec)
                  .ok());
  return spec;
}

v1::Targets Targets(const std::string& yaml) {
  v1::Targets targets;
  const absl::Status status = ParseText(yaml, targets);
  EXPECT_TRUE(status.ok()) << status;
  return targets;
}

constexpr char kOneDevice[] = R"(
shardings: {one: {op_sharding: "", devices: {ids: [3]}}}
arrays:
- {name: w, sharding: {ref: one}}
- {name: v, sharding: {ref: one}}
)";

std::string FieldOf(const absl::Status& status) { return GetErrorInfo(status).metadata["field"]; }

TEST(StateSpecTest, IsReadAndChecked) {
  const auto layout = ToStateLayout(State(), nullptr);
  ASSERT_TRUE(layout.ok()) << layout.status();
  ASSERT_EQ(layout->arrays.size(), 2u);
  EXPECT_EQ(layout->arrays[1].element_type, planner::ElementType::kS4);
  EXPECT_EQ(layout->arrays[0].placement.devices, layout->arrays[1].placement.devices);

  v1::StateSpec bad = State();
  bad.mutable_arrays(1)->set_name("v");
  EXPECT_EQ(FieldOf(ToStateLayout(bad, nullptr).status()), "arrays[1].name");
  bad = State();
  bad.clear_arrays();
  EXPECT_EQ(FieldOf(ToStateLayout(bad, nullptr).status()), "arrays");
  bad = State();
  (*bad.mutable_shardings())["rows"].mutable_devices()->mutable_range()->set_start(2);
  EXPECT_EQ(FieldOf(ToStateLayout(bad, nullptr).status()), "arrays[0].sharding.devices");
  bad = State();
  (*bad.mutable_shardings())["rows"].set_hlo_text("{maximal device=9}");
  EXPECT_EQ(FieldOf(ToStateLayout(bad, nullptr).status()), "shardings[rows].devices");
  bad = State();
  v1::DeviceBoxes& boxes =
      *bad.mutable_arrays(0)->mutable_sharding()->mutable_boxes()->add_devices();
  boxes.add_boxes()->add_lo(1);
  boxes.mutable_boxes(0)->add_hi(8);
  EXPECT_EQ(FieldOf(ToStateLayout(bad, nullptr).status()), "arrays[0].sharding.boxes");
}

TEST(StateSpecTest, TargetsKeepTheOrderOfArrays) {
  const auto applied = ApplyTargets(State(), Targets(kOneDevice));
  ASSERT_TRUE(applied.ok()) << applied.status();
  EXPECT_EQ(applied->arrays(0).name(), "v");
  EXPECT_EQ(applied->arrays(0).sharding().ref(), "one");
  EXPECT_EQ(applied->topology().hosts_size(), 2);
  const auto source = ToStateLayout(State(), nullptr), target = ToStateLayout(*applied, nullptr);
  ASSERT_TRUE(target.ok()) << target.status();
  const auto request = ToReshardRequest(*source, *target, v1::PlanOptions());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->arrays[1].name, "w");
  EXPECT_EQ(*request->arrays[1].target.devices, planner::DeviceList{3});
}

TEST(StateSpecTest, TargetsNameNoArrayTwiceAndNoOther) {
  v1::Targets targets = Targets(kOneDevice);
  targets.mutable_arrays(1)->set_name("x");
  EXPECT_EQ(FieldOf(ApplyTargets(State(), targets).status()), "arrays[1].name");
  *targets.mutable_arrays(1) = targets.arrays(0);
  EXPECT_EQ(FieldOf(ApplyTargets(State(), targets).status()), "arrays[1].name");
}

// Where an array's shards lie.
std::pair<std::vector<planner::Box>, planner::DeviceList> LiesAt(const v1::StateSpec& spec,
                                                                 int array) {
  const auto layout = ToStateLayout(spec, nullptr);
  EXPECT_TRUE(layout.ok()) << layout.status();
  const planner::Placement& placement = layout->arrays[array].placement;
  std::vector<planner::Box> boxes;
  for (int32_t p = 0; p < static_cast<int32_t>(placement.devices->size()); ++p) {
    for (const planner::Box& box : planner::BoxesOf(*placement.layout, p)) boxes.push_back(box);
  }
  return {boxes, *placement.devices};
}

// Was refused: every array had to be named.
TEST(StateSpecTest, AnArrayThatIsNotNamedKeepsItsSharding) {
  v1::Targets targets = Targets(kOneDevice);
  targets.mutable_arrays()->RemoveLast();
  const auto applied = ApplyTargets(State(), targets);
  ASSERT_TRUE(applied.ok()) << applied.status();
  EXPECT_EQ(applied->arrays(0).sharding().ref(), "rows");
  EXPECT_EQ(LiesAt(*applied, 0), LiesAt(State(), 0));
  EXPECT_EQ(LiesAt(*applied, 1).second, planner::DeviceList{3});
  targets.clear_arrays();
  const auto unmoved = ApplyTargets(State(), targets);
  ASSERT_TRUE(unmoved.ok()) << unmoved.status();
  EXPECT_EQ(LiesAt(*unmoved, 1), LiesAt(State(), 1));
}

// The targets call another sharding "rows", and other devices "all".
TEST(StateSpecTest, WhatAKeptShardingRefersToIsNotTheTargetsOfThatName) {
  v1::StateSpec state = State();
  (*state.mutable_device_lists())["all"].mutable_range()->set_count(4);
  (*state.mutable_shardings())["rows"].mutable_devices()->set_ref("all");
  *state.mutable_arrays(1)->mutable_sharding() = (*state.mutable_shardings())["rows"];
  v1::Targets targets = Targets(R"(
shardings: {rows: {hlo_text: "{replicated}", devices: {ref: all}}}
device_lists: {all: {ids: [1, 0]}}
arrays: [{name: v, sharding: {ref: rows}}]
)");
  for (const char* moves : {"v", "w", "v", "w", "v"}) {
    const int stays = *moves == 'v' ? 1 : 0;
    const auto before = LiesAt(state, stays);
    targets.mutable_arrays(0)->set_name(moves);
    const auto applied = ApplyTargets(state, targets);
    ASSERT_TRUE(applied.ok()) << applied.status();
    EXPECT_EQ(LiesAt(*applied, stays), before);
    EXPECT_EQ(LiesAt(*applied, 1 - stays).second, (planner::DeviceList{1, 0}));
    state = *applied;
    // Neither entries nor keys pile up.
    EXPECT_LE(state.shardings_size(), 2);
    EXPECT_LE(state.device_lists_size(), 2);
    for (const auto& [key, list] : state.device_lists()) EXPECT_LE(key.size(), 6u) << key;
  }
}

TEST(StateSpecTest, AMistypedArrayIsNamedWithTheNearest) {
  v1::StateSpec state = State();
  state.mutable_arrays(0)->set_name("layer/0.weight");
  v1::Targets targets = Targets(kOneDevice);
  targets.mutable_arrays(0)->set_name("layer/0.wieght");
  const absl::Status status = ApplyTargets(state, targets).status();
  EXPECT_NE(std::string(status.message()).find("did you mean \"layer/0.weight\"?"),
            std::string::npos)
      << status;
}

TEST(StateSpecTest, AnUnknownDeviceIsNamedWithThoseThatThereAre) {
  v1::StateSpec bad = State();
  (*bad.mutable_shardings())["rows"].mutable_devices()->mutable_range()->set_start(1);
  const absl::Status status = ToStateLayout(bad, nullptr).status();
  EXPECT_NE(std::string(status.message()).find("must be a device of the topology, which has 0..3"),
            std::string::npos)
      << status;
}

TEST(StateSpecTest, ATargetTopologyMovesNoDevice) {
  v1::Targets targets = Targets(kOneDevice);
  *targets.mutable_topology() = State().topology();
  v1::Host& more = *targets.mutable_topology()->add_hosts();
  more.set_name("c");
  more.add_device_ids(4);
  const auto applied = ApplyTargets(State(), targets);
  ASSERT_TRUE(applied.ok()) << applied.status();
  EXPECT_EQ(applied->topology().hosts_size(), 3);
  targets.mutable_topology()->mutable_hosts(1)->set_device_ids(0, 3);
  targets.mutable_topology()->mutable_hosts(1)->set_device_ids(1, 2);
  EXPECT_EQ(FieldOf(ApplyTargets(State(), targets).status()), "topology.hosts[1].device_ids[0]");
  v1::StateSpec numbered_by_workers = State();
  numbered_by_workers.clear_topology();
  EXPECT_EQ(FieldOf(ApplyTargets(numbered_by_workers, targets).status()), "topology.hosts");
}

}  // namespace
}  // namespace remesh::proto
