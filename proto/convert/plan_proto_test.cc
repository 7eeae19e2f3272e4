// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/plan_proto.h"

#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "planner/make_plan.h"
#include "proto/convert/plan_spec.h"
#include "proto/program/program_proto.h"
#include "proto/text/text.h"

namespace remesh::proto {
namespace {

struct Planned {
  planner::CanonicalizedRequest request;
  planner::Plan plan;
};

Planned MakePlanned(const std::string& more = "") {
  v1::PlanSpec spec;
  const absl::Status status = ParseText(R"(
topology:
  hosts:
  - {name: west, device_ids: [70, 71], nic_bytes_per_second: 1e9, fabric_bytes_per_second: 1e11}
  - {name: east, device_ids: [80, 81], nic_bytes_per_second: 1e9, fabric_bytes_per_second: 1e11}
device_lists: {all: {ids: [70, 71, 80, 81]}}
shardings:
  rows: {hlo_text: "{devices=[4,1]<=[4]}", devices: {ref: all}}
  cols: {hlo_text: "{devices=[1,4]<=[4]}", devices: {ref: all}}
arrays:
- {name: w, shape: [8, 8], element_type: bf16, source: {ref: rows}, target: {ref: cols}}
- {name: q, shape: [4, 5], element_type: s4, source: {ref: rows}, target: {ref: cols}}
)" + more,
                                        spec);
  EXPECT_TRUE(status.ok()) << status;
  planner::CanonicalizedRequest request =
      planner::Canonicalize(ToReshardRequest(spec, nullptr).value()).value();
  planner::Plan plan = planner::MakePlan(request.canonical).value();
  return {std::move(request), std::move(plan)};
}

TEST(PlanProtoTest, PlansSpeakInTheCallersNames) {
  const auto [request, plan] = MakePlanned();
  const v1::Plan message = ToProto(plan, request.canonical, request.binding,
                                   PlanName(request.canonical.fingerprint, request.binding));
  EXPECT_EQ(message.name(), PlanName(request.canonical.fingerprint, request.binding));
  EXPECT_EQ(message.name().rfind("plans/" + request.canonical.fingerprint + "-", 0), 0u);
  EXPECT_EQ(message.summary().total_bytes(), plan.summary().total_bytes);
  EXPECT_TRUE(message.summary().certificate().find("host west") != std::string::npos ||
              message.summary().certificate().find("host east") != std::string::npos)
      << message.summary().certificate();
  EXPECT_EQ(message.target_device_lists_size(), 0);

  planner::Binding other = request.binding;
  other.host_names[0] = "north";
  EXPECT_NE(PlanName(request.canonical.fingerprint, other), message.name());
}

TEST(PlanProtoTest, TransfersFillEveryTargetShard) {
  const auto [request, plan] = MakePlanned();
  int64_t w_elements = 0, q_bytes = 0;
  std::set<int64_t> devices;
  ForEachTransferProto(plan, request.canonical, request.binding, [&](const v1::Transfer& transfer) {
    devices.insert({transfer.from_device(), transfer.to_device()});
    int64_t elements = 1;
    for (int d = 0; d < transfer.box().lo_size(); ++d)
      elements *= transfer.box().hi(d) - transfer.box().lo(d);
    if (transfer.array() == "w") {
      EXPECT_EQ(transfer.bytes(), 2 * elements);
      w_elements += transfer.relay() ? 0 : elements;
    } else {
      EXPECT_EQ(transfer.array(), "q");
      EXPECT_EQ(transfer.bytes(), (elements + 1) / 2);
      q_bytes += transfer.bytes();
    }
  });
  EXPECT_EQ(w_elements, 64);
  EXPECT_GE(q_bytes, 10);
  EXPECT_EQ(devices, (std::set<int64_t>{70, 71, 80, 81}));
}

TEST(PlanProtoTest, ProgramsHoldWhatTouchesTheHost) {
  const auto [request, plan] = MakePlanned();
  v1::HostProgram program;
  const absl::Status status =
      ForEachProgramMessage(plan, planner::ProgramIndex(plan), request.canonical, request.binding,
                            "east", [&](const v1::HostProgram& chunk) {
                              program.MergeFrom(chunk);
                              return true;
                            });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(program.fingerprint(), request.canonical.fingerprint);
  EXPECT_EQ(program.schedule().windows(), plan.summary().windows);
  const auto named = ReadProgram(program);
  ASSERT_TRUE(named.ok()) << named.status();
  std::set<std::string> arrays;
  for (const NamedProgram::Array& array : named->arrays) arrays.insert(array.name);
  EXPECT_EQ(arrays, (std::set<std::string>{"q", "w"}));
  int transfers = 0;
  planner::ForEachTransfer(named->program, [&](const planner::Transfer& t) {
    EXPECT_TRUE(named->devices[t.from_device] >= 80 || named->devices[t.to_device] >= 80);
    ++transfers;
    return true;
  });
  int expected = 0;
  ForEachTransferProto(plan, request.canonical, request.binding, [&](const v1::Transfer& t) {
    expected += t.from_device() >= 80 || t.to_device() >= 80;
  });
  EXPECT_EQ(transfers, expected);
  const absl::Status unknown =
      ForEachProgramMessage(plan, planner::ProgramIndex(plan), request.canonical, request.binding,
                            "south", [](const v1::HostProgram&) { return true; });
  EXPECT_EQ(GetErrorInfo(unknown).reason, "HOST_NOT_IN_PLAN");
}

TEST(PlanProtoTest, NoCutsOfEachSegmentAreNoCuts) {
  const auto [request, plan] = MakePlanned();
  v1::HostProgram message;
  WriteProgram(ProgramOfHost(plan, request.canonical, request.binding, 0),
               [&](const v1::HostProgram& chunk) { return message.MergeFrom(chunk), true; });
  ASSERT_EQ(message.segments().cuts_size(), 0);
  const NamedProgram plain = ReadProgram(message).value();
  for (int s = 0; s < message.segments().sizes_size(); ++s) message.mutable_segments()->add_cuts(0);
  ASSERT_GT(message.segments().cuts_size(), 0);
  EXPECT_TRUE(ReadProgram(message).value() == plain);
}

TEST(PlanProtoTest, AFreeOrderIsReturned) {
  const auto [request, plan] = MakePlanned("options: {free_target_order: true}\n");
  const v1::Plan message = ToProto(plan, request.canonical, request.binding,
                                   PlanName(request.canonical.fingerprint, request.binding));
  ASSERT_EQ(message.target_device_lists_size(), 1);
  EXPECT_EQ(message.target_device_lists(0).arrays_size(), 2);
  const auto& ids = message.target_device_lists(0).devices().ids();
  EXPECT_EQ(std::set<int64_t>(ids.begin(), ids.end()), (std::set<int64_t>{70, 71, 80, 81}));
}

TEST(PlanProtoTest, TopologiesAndBoxesRoundTrip) {
  planner::Topology topology{
      .hosts = {{.name = "a",
                 .device_ids = {4, 2},
                 .nic_bytes_per_second = 1,
                 .nics = 2,
                 .fabric_bytes_per_second = 3,
                 .parent = "r"}},
      .domains = {{.name = "r", .egress_bytes_per_second = 5, .ingress_bytes_per_second = 6}}};
  EXPECT_EQ(ToTopology(ToProto(topology), nullptr).value(), topology);
  const planner::Box box{{{1, 2}, {0, 5}}};
  EXPECT_EQ(ToBox(ToProto(box)).value(), box);
  v1::Box bad = ToProto(box);
  bad.add_lo(1);
  EXPECT_EQ(GetErrorInfo(ToBox(bad).status()).metadata["field"], "hi");
}

}  // namespace
}  // namespace remesh::proto
