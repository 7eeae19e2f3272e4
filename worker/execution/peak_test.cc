// SPDX-License-Identifier: Apache-2.0
// No device takes more memory for a move than its plan says. The tests run plans of the planner,
// with all that they move, over simulated GPUs and over TCP, and count the memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>

#include "planner/values/layout.h"
#include "tests/testing/random_request.h"
#include "worker/execution/testing/mover_fixture.h"
#include "worker/execution/testing/planned_case.h"

namespace remesh::worker {
namespace {

using planner::ArraySpec;
using planner::Box;
using planner::Placement;
using planner::ReshardRequest;
using planner::Space;

class PeakTest : public MoverTest {
 protected:
  // Runs the plan; returns the memory of the fullest device, as a share of its planned peak.
  double RunWithinPeak(const PlannedCase& planned) {
    Run(planned.test);
    double most = 0;
    for (int h = 0; h < planned.test.hosts; ++h) {
      const int devices = planned.test.devices_per_host;
      int64_t peak_of_host = 0;
      for (int d = 0; d < devices; ++d) {
        const int64_t peak = planned.peak_bytes[h * devices + d];
        peak_of_host += peak;
        if (!OnGpus(h)) continue;
        const int64_t taken = hosts_[h]->most_bytes(d);
        EXPECT_LE(taken, peak) << "device " << d << " of host " << h;
        if (peak > 0) most = std::max(most, static_cast<double>(taken) / static_cast<double>(peak));
      }
      if (OnGpus(h)) {
        EXPECT_LE(hosts_[h]->slots_bytes(), StreamLimits().staging_bytes);
        continue;
      }
      const int64_t taken = hosts_[h]->host_bytes();
      EXPECT_LE(taken, peak_of_host) << "host " << h;
      most = std::max(most, static_cast<double>(taken) / static_cast<double>(peak_of_host));
    }
    return most;
  }

  int64_t staging_bytes() const {
    int64_t bytes = 0;
    for (const auto& host : hosts_) bytes += host->staging_bytes();
    return bytes;
  }
};

// An array of bytes over devices from 100 on, split by rows or whole on each.
ArraySpec Bytes(const std::string& name, planner::Shape shape, Placement source, Placement target) {
  return {.name = name, .shape = shape, .source = std::move(source), .target = std::move(target)};
}

Placement On(std::vector<int64_t> devices, const planner::Shape& shape) {
  const std::vector<std::vector<Box>> boxes(devices.size(), {Box::Whole(shape)});
  return {.layout = std::make_shared<const planner::Layout>(*planner::MakeBoxLayout(shape, boxes)),
          .devices = std::make_shared<const planner::DeviceList>(devices)};
}

// The first devices of three hosts get the content of the first device of host 0. Each host's
// second device has a NIC, too: half of the bytes come through it, are staged there and go on to
// the next host.
ReshardRequest DeepRelays(int64_t window_bytes) {
  ReshardRequest request = RequestOfHosts(4, 2);
  const planner::Shape large = {1024, 4096}, small = {64};
  request.arrays = {
      Bytes("w", large, On({100}, large), On({102, 104, 106}, large)),
      Bytes("b", small, On({100}, small), On({100, 101, 102, 103, 104, 105, 106, 107}, small))};
  request.options.window_bytes = window_bytes;
  return request;
}

// The bytes that all devices stage, one after the other.
int64_t BytesStaged(const planner::Plan& plan) {
  int64_t bytes = 0;
  plan.ForEachTransfer([&](const planner::Transfer& t) {
    if (t.to_space == Space::kStaging) bytes += t.box.element_count();
  });
  return bytes;
}

TEST_P(PeakTest, ADeepRelayTreeTakesNoMoreThanThePlanSays) {
  for (const int64_t window_bytes : {256 << 20, 1 << 20, 128 << 10}) {
    SCOPED_TRACE(absl::StrCat("windows of ", window_bytes, " bytes"));
    const PlannedCase planned = Planned(DeepRelays(window_bytes));
    const double most = RunWithinPeak(planned);
    const int64_t staged = BytesStaged(planned.plan);
    RecordProperty(absl::StrCat("share_", window_bytes), absl::StrCat(most));
    std::printf("%s, windows of %ld bytes: %d windows, %ld bytes staged in %ld, most / peak %.4f\n",
                GetParam().c_str(), static_cast<long>(window_bytes), planned.plan.summary().windows,
                static_cast<long>(staged), static_cast<long>(staging_bytes()), most);
    EXPECT_GE(staged, 1024 * 4096 / 2);
    EXPECT_LE(staging_bytes(), staged + staged / 16);
    if (window_bytes < 1 << 20) {
      EXPECT_LE(staging_bytes(), staged / 2) << "memory is used again";
    }
    if (GetParam() == "nccl") {
      EXPECT_GE(most, 0.99);
    }
    StopAll();
  }
}

ArraySpec RandomArray(testing::Random& random, int index, int devices) {
  planner::Shape shape;
  for (int64_t rank = testing::Uniform(random, 1, 3); rank > 0; --rank)
    shape.push_back(testing::Uniform(random, 1, 24));
  const auto somewhere = [&] {
    std::vector<int64_t> ids(devices);
    std::iota(ids.begin(), ids.end(), 100);
    std::shuffle(ids.begin(), ids.end(), random);
    ids.resize(testing::Uniform(random, 1, devices));
    return Placement{
        .layout = testing::RandomLayout(random, shape, static_cast<int32_t>(ids.size())),
        .devices = std::make_shared<const planner::DeviceList>(ids)};
  };
  constexpr planner::ElementType kTypes[] = {planner::ElementType::kU8, planner::ElementType::kF32,
                                             planner::ElementType::kS4};
  return {.name = absl::StrCat("a", index),
          .shape = shape,
          .element_type = kTypes[testing::Uniform(random, 0, 2)],
          .source = somewhere(),
          .target = somewhere()};
}

TEST_P(PeakTest, RandomPlansTakeNoMoreThanTheySay) {
  int64_t staged = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    testing::Random random(seed);
    const int hosts = static_cast<int>(testing::Uniform(random, 2, 4));
    const int devices = static_cast<int>(testing::Uniform(random, 1, 3));
    ReshardRequest request = RequestOfHosts(hosts, devices);
    for (int a = 0; a < 4; ++a) request.arrays.push_back(RandomArray(random, a, hosts * devices));
    request.options.window_bytes = int64_t{256} << testing::Uniform(random, 0, 6);
    RunWithinPeak(Planned(request));
    staged += staging_bytes();
    StopAll();
  }
  EXPECT_GT(staged, 0);
}

INSTANTIATE_TEST_SUITE_P(Links, PeakTest, ::testing::Values("tcp", "nccl", "mixed"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace remesh::worker
