// SPDX-License-Identifier: Apache-2.0
// What hosts lay out for their programs fits into the peak of the plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/plan/host_program.h"
#include "planner/schedule/timeline.h"
#include "planner/schedule/transit.h"
#include "planner/values/packing.h"
#include "tests/planner/planned_programs.h"

namespace remesh::planner {
namespace {

// What one device's host lays out for it of a plan, from the stretches of its program alone.
class LaidOut {
 public:
  void Exchange(const Stretch& s) {
    messages_[{s.window, s.from_device, s.to_device}] += TravellingBytes(s.hi - s.lo);
  }
  void Stage(const Stretch& s) {
    const int64_t end = s.staged_at + StoredBytes(s.hi - s.lo);
    staged_[{s.tape, s.lo}] = {s.window, s.window, s.staged_at, end};
  }
  void PassOn(const Stretch& s) {
    Stay& stay = staged_.at({s.tape, s.lo});
    stay.last = std::max(stay.last, s.window);
  }

  // A host starts window w when its part of w - 2 is done: until then all must stay.
  void ExpectNoneOverwritten() const {
    for (auto a = staged_.begin(); a != staged_.end(); ++a) {
      for (auto b = std::next(a); b != staged_.end(); ++b) {
        const Stay &one = a->second, &other = b->second;
        const bool meet = one.first < other.last + 2 && other.first < one.last + 2;
        EXPECT_FALSE(meet && one.begin < other.end && other.begin < one.end)
            << one.begin << " and " << other.begin << " in window " << other.first;
      }
    }
  }

  int64_t bytes() const {
    std::map<int32_t, int64_t> of_window;
    for (const auto& [message, travelling] : messages_)
      of_window[std::get<0>(message)] += MessageBytes(travelling);
    TransitArea transit;
    for (const auto& [window, bytes] : of_window) transit.Fit(window, bytes);
    int64_t area = 0;
    for (const auto& [place, stay] : staged_) area = std::max(area, stay.end);
    return transit.bytes() + area;
  }
  int64_t staged() const { return std::ssize(staged_); }

 private:
  struct Stay {
    int32_t first = 0;
    int32_t last = 0;
    int64_t begin = 0;
    int64_t end = 0;
  };
  std::map<std::tuple<int32_t, int32_t, int32_t>, int64_t> messages_;  // window, from, to
  std::map<std::pair<int32_t, int64_t>, Stay> staged_;                 // tape, begin
};

std::map<int32_t, LaidOut> LaidOutOn(const Plan& plan, int32_t host,
                                     const std::vector<int32_t>& host_of) {
  std::map<int32_t, LaidOut> devices;
  ForEachStretch(ProgramOfHost(plan, host), [&](const Stretch& s) {
    const bool from = host_of[s.from_device] == host, to = host_of[s.to_device] == host;
    if (from && !to) devices[s.from_device].Exchange(s);
    if (to && !from) devices[s.to_device].Exchange(s);
    if (to && s.to_space == Space::kStaging) devices[s.to_device].Stage(s);
    if (from && s.from_space == Space::kStaging) devices[s.from_device].PassOn(s);
    return true;
  });
  return devices;
}

// Bytes of all shards, before and after, of each device.
std::vector<int64_t> ShardBytes(const ReshardRequest& request, size_t devices) {
  std::vector<int64_t> bytes(devices, 0);
  for (const ArraySpec& array : request.arrays) {
    for (const Placement* placement : {&array.source, &array.target}) {
      for (size_t t = 0; t < placement->layout->tiles.size(); ++t) {
        for (const Box& box : placement->layout->tiles[t].boxes) {
          const int64_t bits = box.element_count() * BitWidth(array.element_type);
          for (const int32_t p : placement->layout->PositionsOf(t))
            bytes[(*placement->devices)[p]] += StoredBytes(bits);
        }
      }
    }
  }
  return bytes;
}

TEST(ProgramMemoryLawTest, WhatHostsLayOutFitsIntoThePeak) {
  int64_t staged = 0, exact = 0, devices = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto planned = PlanOf(seed, {.lost_devices = false});
    if (!planned) continue;
    const ReshardRequest& request = planned->request.canonical.request;
    std::vector<int32_t> host_of;
    for (size_t h = 0; h < request.topology.hosts.size(); ++h) {
      host_of.insert(host_of.end(), request.topology.hosts[h].device_ids.size(),
                     static_cast<int32_t>(h));
    }
    const std::vector<int64_t> shards = ShardBytes(request, host_of.size());
    for (int32_t h = 0; h < std::ssize(request.topology.hosts); ++h) {
      for (const auto& [device, laid_out] : LaidOutOn(planned->plan, h, host_of)) {
        laid_out.ExpectNoneOverwritten();
        const int64_t taken = shards[device] + laid_out.bytes();
        const int64_t peak = planned->plan.peak_bytes()[device];
        EXPECT_LE(taken, peak) << "device " << device;
        staged += laid_out.staged();
        exact += taken * 10 >= peak * 9 ? 1 : 0;
        ++devices;
      }
    }
  }
  EXPECT_GT(staged, 1000);
  EXPECT_GT(exact, devices / 3) << "of " << devices;
}

}  // namespace
}  // namespace remesh::planner
