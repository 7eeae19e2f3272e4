// SPDX-License-Identifier: Apache-2.0
// Lost devices: nothing is asked of them, and exactly what they alone held is missing.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "planner/make_plan.h"
#include "planner/plan/plan.h"
#include "planner/validate.h"
#include "tests/testing/random_request.h"
#include "tests/testing/transfer_check.h"

namespace remesh::planner {
namespace {

using testing::Random;
using testing::RandomRequest;
using testing::Uniform;

// An element of an array in one subgroup.
using Element = std::tuple<size_t, int64_t, int64_t>;

void ForEachIndex(const Shape& shape, const Box& box, const std::function<void(int64_t)>& visit) {
  if (box.empty()) return;
  std::vector<int64_t> at;
  for (const Interval& dim : box.dims) at.push_back(dim.lo);
  while (true) {
    int64_t index = 0;
    for (size_t d = 0; d < at.size(); ++d) index = index * shape[d] + at[d];
    visit(index);
    size_t d = at.size();
    while (d > 0 && ++at[d - 1] == box.dims[d - 1].hi) {
      at[d - 1] = box.dims[d - 1].lo;
      --d;
    }
    if (d == 0) return;
  }
}

std::map<Element, std::set<int64_t>> HoldersOf(const ReshardRequest& request,
                                               Placement ArraySpec::*side) {
  std::map<Element, std::set<int64_t>> holders;
  for (size_t a = 0; a < request.arrays.size(); ++a) {
    const Placement& placement = request.arrays[a].*side;
    for (size_t t = 0; t < placement.layout->tiles.size(); ++t) {
      const Tile& tile = placement.layout->tiles[t];
      for (const Box& box : tile.boxes) {
        ForEachIndex(request.arrays[a].shape, box, [&](int64_t index) {
          for (int32_t p : placement.layout->PositionsOf(t))
            holders[{a, tile.subgroup, index}].insert((*placement.devices)[p]);
        });
      }
    }
  }
  return holders;
}

// What targets need and lost devices alone held, with these devices: element by element.
std::map<Element, std::set<int64_t>> MissingElements(const ReshardRequest& request) {
  const auto& ids = request.options.lost_device_ids;
  const std::set<int64_t> lost(ids.begin(), ids.end());
  const auto held = HoldersOf(request, &ArraySpec::source);
  std::map<Element, std::set<int64_t>> missing;
  for (const auto& [element, needers] : HoldersOf(request, &ArraySpec::target)) {
    const std::set<int64_t>& holders = held.at(element);
    if (std::includes(lost.begin(), lost.end(), holders.begin(), holders.end())) {
      missing[element] = holders;
    }
  }
  return missing;
}

// About half of the devices that are no targets are lost.
ReshardRequest RequestWithLosses(uint64_t seed) {
  ReshardRequest request = RandomRequest(seed, {.elements_max = 200, .lost_devices = false});
  Random random(seed);
  std::set<int64_t> targets;
  for (const ArraySpec& array : request.arrays) {
    targets.insert(array.target.devices->begin(), array.target.devices->end());
  }
  for (const Host& host : request.topology.hosts) {
    for (int64_t id : host.device_ids) {
      if (!targets.contains(id) && Uniform(random, 0, 1) == 1) {
        request.options.lost_device_ids.push_back(id);
      }
    }
  }
  return request;
}

void CheckMissing(const CanonicalRequest& request, const Plan& plan,
                  std::map<Element, std::set<int64_t>> expected) {
  for (const MissingBox& missing : plan.missing()) {
    const std::set<int64_t> lost(missing.lost_devices.begin(), missing.lost_devices.end());
    const size_t array = static_cast<size_t>(missing.array);
    ForEachIndex(request.request.arrays[array].shape, missing.box, [&](int64_t index) {
      const auto found = expected.find({array, missing.subgroup, index});
      ASSERT_NE(found, expected.end()) << "not missing, or named twice: " << index;
      EXPECT_EQ(found->second, lost);
      expected.erase(found);
    });
  }
  EXPECT_TRUE(expected.empty()) << expected.size() << " missing elements are not named";
}

TEST(LostDevicesLawTest, ExactlyWhatTheLostAloneHeldIsMissing) {
  int losses = 0, refusals = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ReshardRequest request = RequestWithLosses(seed);
    if (request.options.lost_device_ids.empty()) continue;
    ++losses;
    const auto refused = Canonicalize(request);
    ASSERT_TRUE(refused.ok()) << refused.status();
    const auto expected = MissingElements(refused->canonical.request);
    const auto bare = MakePlan(refused->canonical);
    EXPECT_EQ(bare.ok(), expected.empty()) << bare.status();
    if (!bare.ok()) {
      ++refusals;
      EXPECT_TRUE(absl::IsDataLoss(bare.status())) << bare.status();
      EXPECT_EQ(GetErrorInfo(bare.status()).reason, "DATA_LOSS");
    }
    request.fallbacks.push_back(
        {.kind = Fallback::Kind::kCheckpoint, .location = "/checkpoints", .step = 7});
    const auto canonical = Canonicalize(request);
    const auto plan = MakePlan(canonical->canonical);
    ASSERT_TRUE(plan.ok()) << plan.status();
    CheckMissing(canonical->canonical, *plan, expected);
    if (HasFatalFailure()) return;
    std::vector<Transfer> transfers;
    const auto& lost = canonical->canonical.request.options.lost_device_ids;
    plan->ForEachTransfer([&](const Transfer& transfer) {
      transfers.push_back(transfer);
      for (int64_t device : {transfer.from_device, transfer.to_device}) {
        EXPECT_FALSE(std::binary_search(lost.begin(), lost.end(), device));
      }
    });
    const absl::Status replay =
        testing::CheckTransfers(canonical->canonical.request, transfers, plan->missing());
    EXPECT_TRUE(replay.ok()) << replay;
    const absl::Status valid = ValidatePlan(*plan, canonical->canonical);
    EXPECT_TRUE(valid.ok()) << valid;
  }
  EXPECT_GT(losses, 500);
  EXPECT_GT(refusals, 100);
}

// What no device sends takes memory of the target all the same.
TEST(LostDevicesLawTest, DonatedPeaksCountWhatComesFromAFallback) {
  int with_missing = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ReshardRequest request = RequestWithLosses(seed);
    request.options.donate = true;
    request.fallbacks.push_back(
        {.kind = Fallback::Kind::kCheckpoint, .location = "/checkpoints", .step = 7});
    const auto canonical = Canonicalize(request);
    ASSERT_TRUE(canonical.ok()) << canonical.status();
    const auto plan = MakePlan(canonical->canonical);
    ASSERT_TRUE(plan.ok()) << plan.status();
    with_missing += plan->missing().empty() ? 0 : 1;
    const absl::Status valid = ValidatePlan(*plan, canonical->canonical);
    EXPECT_TRUE(valid.ok()) << valid;
  }
  EXPECT_GT(with_missing, 20);
}

}  // namespace
}  // namespace remesh::planner
