// SPDX-License-Identifier: Apache-2.0
#include "planner/values/request.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "planner/canonical/canonical.h"
#include "planner/make_plan.h"
#include "planner/plan/plan.h"
#include "planner/values/coverage.h"

namespace remesh::planner {
namespace {

LayoutPtr Rows(int64_t rows, int64_t parts, std::string subgroup_kind = "") {
  std::vector<int64_t> numbers;
  std::vector<int64_t> subgroups;
  for (int64_t p = 0; p < parts; ++p) numbers.push_back(p);
  if (!subgroup_kind.empty()) subgroups.assign(parts, 0);
  return std::make_shared<const Layout>(
      MakeSeparableLayout({rows}, {TilePartition(rows, parts)}, numbers, subgroups, subgroup_kind));
}

DeviceListPtr Devices(DeviceList ids) { return std::make_shared<const DeviceList>(std::move(ids)); }

// Two hosts of two devices in a rack, and one array over all four whose order of devices is
// reversed.
ReshardRequest Good() {
  ReshardRequest request;
  request.topology.domains = {
      {.name = "rack", .egress_bytes_per_second = 1e9, .ingress_bytes_per_second = 1e9}};
  for (int64_t h : {0, 1}) {
    request.topology.hosts.push_back({.name = "host" + std::to_string(h),
                                      .device_ids = {2 * h, 2 * h + 1},
                                      .nic_bytes_per_second = 1e9,
                                      .nics = 2,
                                      .fabric_bytes_per_second = 1e11,
                                      .parent = "rack"});
  }
  request.arrays = {{.name = "w",
                     .shape = {8},
                     .element_type = ElementType::kF32,
                     .source = {Rows(8, 4), Devices({0, 1, 2, 3})},
                     .target = {Rows(8, 4), Devices({3, 2, 1, 0})}}};
  return request;
}

struct BadRequest {
  const char* field;
  const char* value;
  std::function<void(ReshardRequest&)> spoil;
};

const std::vector<BadRequest>& BadRequests() {
  static const double kNan = std::numeric_limits<double>::quiet_NaN();
  static const auto& bad = *new std::vector<BadRequest>{
      {"topology.hosts", "", [](auto& r) { r.topology.hosts.clear(); }},
      {"topology.hosts[1].name", "", [](auto& r) { r.topology.hosts[1].name = ""; }},
      {"topology.hosts[1].name", "host0", [](auto& r) { r.topology.hosts[1].name = "host0"; }},
      {"topology.hosts[0].device_ids", "", [](auto& r) { r.topology.hosts[0].device_ids.clear(); }},
      {"topology.hosts[0].device_ids[1]", "-1",
       [](auto& r) { r.topology.hosts[0].device_ids[1] = -1; }},
      {"topology.hosts[1].device_ids[0]", "1",
       [](auto& r) { r.topology.hosts[1].device_ids[0] = 1; }},
      {"topology.hosts[0].nics", "0", [](auto& r) { r.topology.hosts[0].nics = 0; }},
      {"topology.hosts[0].nic_bytes_per_second", "nan",
       [](auto& r) { r.topology.hosts[0].nic_bytes_per_second = kNan; }},
      {"topology.hosts[0].fabric_bytes_per_second", "0",
       [](auto& r) { r.topology.hosts[0].fabric_bytes_per_second = 0; }},
      {"topology.hosts[0].parent", "row", [](auto& r) { r.topology.hosts[0].parent = "row"; }},
      {"topology.domains[0].egress_bytes_per_second", "inf",
       [](auto& r) {
         r.topology.domains[0].egress_bytes_per_second = std::numeric_limits<double>::infinity();
       }},
      {"topology.domains[0].parent", "rack",
       [](auto& r) { r.topology.domains[0].parent = "rack"; }},
      {"options.window_bytes", "0", [](auto& r) { r.options.window_bytes = 0; }},
      {"options.window_bytes", "255", [](auto& r) { r.options.window_bytes = 255; }},
      {"options.memory_limit_bytes", "-1", [](auto& r) { r.options.memory_limit_bytes = -1; }},
      {"options.lost_device_ids[0]", "9", [](auto& r) { r.options.lost_device_ids = {9}; }},
      {"options.lost_device_ids[1]", "1",
       [](auto& r) {
         r.options.lost_device_ids = {1, 1};
       }},
      {"fallbacks[0].location", "", [](auto& r) { r.fallbacks.push_back({}); }},
      {"arrays", "", [](auto& r) { r.arrays.clear(); }},
      {"arrays[0].name", "", [](auto& r) { r.arrays[0].name = ""; }},
      {"arrays[1].name", "w", [](auto& r) { r.arrays.push_back(r.arrays[0]); }},
      {"arrays[0].shape[0]", "-8", [](auto& r) { r.arrays[0].shape = {-8}; }},
      {"arrays[0].source.layout", "[9]", [](auto& r) { r.arrays[0].source.layout = Rows(9, 4); }},
      {"arrays[0].target.devices", "3 devices",
       [](auto& r) {
         r.arrays[0].target.devices = Devices({0, 1, 2});
       }},
      {"arrays[0].target.devices[3]", "7",
       [](auto& r) {
         r.arrays[0].target.devices = Devices({0, 1, 2, 7});
       }},
      {"arrays[0].target.devices[2]", "1",
       [](auto& r) {
         r.arrays[0].target.devices = Devices({0, 1, 1, 2});
       }},
      {"arrays[0].target.devices[0]", "3", [](auto& r) { r.options.lost_device_ids = {3}; }},
      {"arrays[0].source.boxes", "[4:8]",
       [](auto& r) {
         const std::vector<std::vector<Box>> boxes = {{Box{{{0, 4}}}}, {}, {}, {}};
         r.arrays[0].source.layout = std::make_shared<const Layout>(*MakeBoxLayout({8}, boxes));
       }},
      {"arrays[0].target", "manual(2)",
       [](auto& r) { r.arrays[0].target.layout = Rows(8, 4, "manual(2)"); }},
  };
  return bad;
}

TEST(RequestTest, AGoodRequestPasses) {
  EXPECT_TRUE(ValidateRequest(Good()).ok()) << ValidateRequest(Good());
}

TEST(RequestTest, EveryFaultNamesItsFieldAndValue) {
  for (const BadRequest& bad : BadRequests()) {
    SCOPED_TRACE(bad.field);
    ReshardRequest request = Good();
    bad.spoil(request);
    const absl::Status status = Canonicalize(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(GetErrorInfo(status).metadata["field"], bad.field) << status;
    EXPECT_EQ(GetErrorInfo(status).metadata["value"], bad.value) << status;
  }
}

TEST(RequestTest, DataThatOnlyLostDevicesHoldNeedsAFallback) {
  ReshardRequest request = Good();
  request.arrays[0].target = {Rows(8, 2), Devices({2, 3})};
  request.options.lost_device_ids = {1};
  const auto refused = MakePlan(Canonicalize(request)->canonical);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kDataLoss) << refused.status();
  EXPECT_EQ(GetErrorInfo(refused.status()).metadata["box"], "[2:4]");
  request.fallbacks.push_back({.kind = Fallback::Kind::kCheckpoint, .location = "/ckpt"});
  const auto plan = MakePlan(Canonicalize(request)->canonical);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->missing().size(), 1u);
  EXPECT_EQ(plan->missing()[0].box.DebugString(), "[2:4]");
  EXPECT_EQ(plan->missing()[0].lost_devices.size(), 1u);
}

TEST(RequestTest, APeakAboveTheLimitIsRefusedWithTheNumber) {
  ReshardRequest request = Good();
  request.options.memory_limit_bytes = 671;
  const auto refused = MakePlan(Canonicalize(request)->canonical);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorInfo(refused.status()).reason, "MEMORY_LIMIT");
  EXPECT_EQ(GetErrorInfo(refused.status()).metadata["needed_bytes"], "672");
  request.options.memory_limit_bytes = 672;
  EXPECT_TRUE(MakePlan(Canonicalize(request)->canonical).ok());
}

TEST(RequestTest, TheNarrowestWindowIsPlanned) {
  ReshardRequest request = Good();
  request.options.window_bytes = kWindowBytesMin;
  EXPECT_TRUE(MakePlan(Canonicalize(request)->canonical).ok());
}

// `bytes` bytes, in rows over `devices` devices before and after.
ReshardRequest OfBytes(int64_t bytes, int64_t devices) {
  ReshardRequest request = Good();
  DeviceList all(devices);
  std::iota(all.begin(), all.end(), 0);
  request.topology.hosts[0].device_ids = all;
  request.topology.hosts.resize(1);
  request.arrays[0].shape = {bytes};
  request.arrays[0].element_type = ElementType::kU8;
  request.arrays[0].source = {Rows(bytes, devices), Devices(all)};
  request.arrays[0].target = request.arrays[0].source;
  return request;
}

// Every array once counted as a whole on each of its devices, which refused real states.
TEST(RequestTest, RealStatesOnManyDevicesPass) {
  EXPECT_TRUE(ValidateRequest(OfBytes(int64_t{24} << 40, 16384)).ok());
  // 405e9 parameters with a master copy and two moments in f32.
  EXPECT_TRUE(ValidateRequest(OfBytes(int64_t{405'000'000'000} * 14, 131072)).ok());
}

TEST(RequestTest, DevicesHoldBelow2To60BitsBeforeAndAfter) {
  constexpr int64_t kMost = (int64_t{1} << 56) - 1;  // bytes of one side
  ReshardRequest request = OfBytes(kMost, 4);
  EXPECT_TRUE(ValidateRequest(request).ok()) << ValidateRequest(request);
  request.arrays.push_back(request.arrays[0]);
  request.arrays[1].name = "one more";
  request.arrays[1].shape = {1};
  request.arrays[1].source = {Rows(1, 1), Devices({0})};
  request.arrays[1].target = request.arrays[1].source;
  const absl::Status refused = ValidateRequest(request);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetErrorInfo(refused).metadata["field"], "arrays[1].shape") << refused;
  EXPECT_EQ(GetErrorInfo(refused).metadata["value"], "[1]") << refused;
}

// Replicas count on each of their devices. No sum wraps, whatever the links and strategies.
TEST(RequestTest, PlansOfTheMostBitsCanBeMade) {
  constexpr int64_t kBytes = ((int64_t{1} << 57) - 64) / 5;  // once before, by 4 devices after
  ReshardRequest request = Good();
  request.topology.domains[0].egress_bytes_per_second = 1;
  request.topology.hosts[0].nic_bytes_per_second = 1;
  request.topology.hosts[1].nic_bytes_per_second = kCapacityMax;
  request.options.window_bytes = int64_t{1} << 50;
  ArraySpec& array = request.arrays[0];
  array.element_type = ElementType::kU8;
  array.shape = {kBytes};
  const Placement rows = {Rows(kBytes, 4), Devices({0, 1, 2, 3})};
  const std::vector<int64_t> whole(4, 0);
  const Placement copies = {std::make_shared<const Layout>(
                                MakeSeparableLayout({kBytes}, {TilePartition(kBytes, 1)}, whole)),
                            rows.devices};
  for (const Strategy strategy : {Strategy::kOptimal, Strategy::kP2p, Strategy::kGather}) {
    for (const bool gathers : {true, false}) {
      array.source = gathers ? rows : copies;
      array.target = gathers ? copies : rows;
      request.options.strategy = strategy;
      const auto plan = MakePlan(Canonicalize(request)->canonical);
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_EQ(plan->summary().total_bytes, gathers ? 4 * kBytes : kBytes);
      EXPECT_GE(plan->summary().quality, 1 - 1e-9);
    }
  }
}

TEST(RequestTest, TooManyWindowsAreRefused) {
  ReshardRequest request = Good();
  request.options.window_bytes = kWindowBytesMin;
  request.arrays[0].shape = {int64_t{1} << 40};
  request.arrays[0].source.layout = Rows(int64_t{1} << 40, 4);
  request.arrays[0].target.layout = Rows(int64_t{1} << 40, 4);
  const auto refused = MakePlan(Canonicalize(request)->canonical);
  EXPECT_EQ(GetErrorInfo(refused.status()).reason, "TOO_MANY_WINDOWS") << refused.status();
}

// 2^18 NICs of 2^46 bytes per second once added up to a capacity of 2^64, which wrapped to 0, and a
// division by it.
TEST(RequestTest, NicsOfAllHostsTogetherStayCountable) {
  Topology topology;
  for (int64_t h = 0; h < 3; ++h) {
    std::vector<int64_t> devices(8192);
    std::iota(devices.begin(), devices.end(), h * 8192);
    topology.hosts.push_back({.name = std::to_string(h),
                              .device_ids = devices,
                              .nic_bytes_per_second = 1e15,
                              .nics = 1 << 18,
                              .fabric_bytes_per_second = 1e15});
  }
  const absl::Status refused = ValidateTopology(topology);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetErrorInfo(refused).metadata["field"], "hosts[2].nic_bytes_per_second") << refused;
  topology.hosts.pop_back();
  EXPECT_TRUE(ValidateTopology(topology).ok());
}

// Pairs of atom and holder can be as many as the square of the boxes: 16,000 such boxes once took 5
// GB.
TEST(RequestTest, NestedBoxesAreRefusedBeforeTheyTakeAllMemory) {
  constexpr int64_t kDevices = 6000;
  ReshardRequest request = Good();
  DeviceList all(kDevices);
  std::iota(all.begin(), all.end(), 0);
  request.topology.hosts[0].device_ids = all;
  request.topology.hosts.resize(1);
  std::vector<std::vector<Box>> nested;
  for (int64_t d = 0; d < kDevices; ++d) nested.push_back({Box({{d, kDevices}})});
  const absl::StatusOr<Layout> layout = MakeBoxLayout({kDevices}, nested);
  ASSERT_TRUE(layout.ok()) << layout.status();
  request.arrays[0].shape = {kDevices};
  request.arrays[0].source = {std::make_shared<const Layout>(*layout), Devices(all)};
  request.arrays[0].target = {Rows(kDevices, kDevices), request.arrays[0].source.devices};
  const auto refused = MakePlan(Canonicalize(request)->canonical);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorInfo(refused.status()).reason, "TOO_MANY_OVERLAPS") << refused.status();
}

// Combs in all dimensions but one, under two halves that cover everything: regions grow with the
// power of the dimensions, and a request of 3 KB once kept a planning thread busy for 10 s.
TEST(RequestTest, TheSearchForGapsEndsWithItsBudget) {
  constexpr int64_t kTeeth = 6;
  const Shape shape = {2, 2 * kTeeth, 2 * kTeeth, 2 * kTeeth};
  std::vector<std::vector<Box>> boxes;
  for (int64_t half : {0, 1}) {
    boxes.push_back({Box::Whole(shape)});
    boxes.back()[0].dims[0] = {half, half + 1};
  }
  for (size_t d = 1; d < shape.size(); ++d) {
    boxes.emplace_back();
    for (int64_t tooth = 0; tooth < kTeeth; ++tooth) {
      boxes.back().push_back(Box::Whole(shape));
      boxes.back().back().dims[d] = {2 * tooth, 2 * tooth + 1};
    }
  }
  const absl::StatusOr<Layout> layout = MakeBoxLayout(shape, boxes);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_TRUE(CheckCovers(*layout).ok());
  int looks = 0;
  Budget budget(
      [&] { return ++looks < 3 ? absl::OkStatus() : absl::CancelledError("the caller has gone"); });
  EXPECT_EQ(CheckCovers(*layout, {}, budget).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(looks, 3);
}

}  // namespace
}  // namespace remesh::planner
