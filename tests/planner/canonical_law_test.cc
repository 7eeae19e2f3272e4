// SPDX-License-Identifier: Apache-2.0
// Requests that differ in names alone have equal canonical requests; a change of structure never
// goes unseen.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "planner/canonical.h"
#include "planner/plan.h"
#include "tests/testing/random_request.h"

namespace remesh {
namespace {

using testing::Random;
using testing::RandomRequest;
using testing::Renamed;

std::string FingerprintOf(const ReshardRequest& request) {
  auto canonical = Canonicalize(request);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  return canonical.ok() ? canonical->canonical.fingerprint : "";
}

TEST(CanonicalLawTest, RenamingsThatKeepTheStructureAreEqual) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const ReshardRequest request = RandomRequest(seed);
    EXPECT_EQ(FingerprintOf(request), FingerprintOf(Renamed(random, request)));
  }
}

TEST(CanonicalLawTest, AnotherRequestIsAnother) {
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    ReshardRequest request = RandomRequest(seed, {.lost_devices = false});
    request.options.window_bytes = 1000 + static_cast<int64_t>(seed);
    EXPECT_TRUE(seen.insert(FingerprintOf(request)).second) << seed;
    request.topology.hosts[0].fabric_bytes_per_second *= 2;
    const auto canonical = Canonicalize(request);
    ASSERT_TRUE(canonical.ok());
    const auto& names = canonical->binding.host_names;
    if (std::find(names.begin(), names.end(), request.topology.hosts[0].name) == names.end())
      continue;
    EXPECT_TRUE(seen.insert(canonical->canonical.fingerprint).second) << seed;
  }
}

// The request with the target lists as the plan's answer names them, and nothing free any more.
ReshardRequest WithChosenOrder(ReshardRequest request, const CanonicalizedRequest& chosen) {
  request.options.free_target_order = false;
  for (size_t i = 0; i < request.arrays.size(); ++i) {
    DeviceList devices;
    for (int64_t id : *chosen.canonical.request.arrays[i].target.devices) {
      devices.push_back(chosen.binding.device_ids[id]);
    }
    request.arrays[chosen.binding.array_indices[i]].target.devices =
        std::make_shared<const DeviceList>(std::move(devices));
  }
  return request;
}

// Where the caller's array 0.. put their positions, after a free order was chosen.
std::vector<DeviceList> TargetsOf(const ReshardRequest& request) {
  std::vector<DeviceList> lists;
  for (const ArraySpec& array : request.arrays) lists.push_back(*array.target.devices);
  return lists;
}

// The order is chosen by structure: under other names the same plan is found, and bound to them it
// is an order of these devices, the same for all arrays, whose own plan costs the same.
TEST(CanonicalLawTest, AFreeOrderIsBoundToTheCallersDevices) {
  int hits = 0, cases = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    ReshardRequest request = RandomRequest(seed, {.elements_max = 200});
    request.options.free_target_order = true;
    const ReshardRequest renamed = Renamed(random, request);
    const auto one = Canonicalize(request), other = Canonicalize(renamed);
    ASSERT_TRUE(one.ok() && other.ok()) << one.status() << other.status();
    ++cases;
    hits += one->canonical.fingerprint == other->canonical.fingerprint;
    // As a hit is answered: the plan of the first, in the names of the second.
    CanonicalizedRequest bound = *other;
    if (one->canonical.fingerprint == other->canonical.fingerprint) bound.canonical = one->canonical;
    const ReshardRequest fixed = WithChosenOrder(renamed, bound);
    std::map<int64_t, int64_t> taker;
    const std::vector<DeviceList> given = TargetsOf(renamed), chosen = TargetsOf(fixed);
    for (size_t a = 0; a < given.size(); ++a) {
      for (size_t p = 0; p < given[a].size(); ++p) {
        EXPECT_EQ(taker.try_emplace(given[a][p], chosen[a][p]).first->second, chosen[a][p]);
      }
    }
    const auto free_plan = MakePlan(bound.canonical);
    const auto own = Canonicalize(fixed);
    ASSERT_TRUE(free_plan.ok() && own.ok()) << free_plan.status() << own.status();
    const auto own_plan = MakePlan(own->canonical);
    ASSERT_TRUE(own_plan.ok()) << own_plan.status();
    EXPECT_EQ(own_plan->summary().bytes_kept, free_plan->summary().bytes_kept);
    EXPECT_EQ(own_plan->summary().lower_bound_seconds, free_plan->summary().lower_bound_seconds);
  }
  EXPECT_GE(hits, cases * 9 / 10) << "ties may miss, but not many";
}

TEST(CanonicalLawTest, BindingNamesEveryDeviceAndArrayOnce) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const ReshardRequest request = RandomRequest(seed);
    const auto canonical = Canonicalize(request);
    ASSERT_TRUE(canonical.ok()) << canonical.status();
    const Binding& binding = canonical->binding;
    const std::set<int64_t> ids(binding.device_ids.begin(), binding.device_ids.end());
    EXPECT_EQ(ids.size(), binding.device_ids.size());
    ASSERT_EQ(binding.array_indices.size(), request.arrays.size());
    const Topology& topology = canonical->canonical.request.topology;
    ASSERT_EQ(binding.domain_names.size(), topology.domains.size());
    for (size_t d = 0; d < topology.domains.size(); ++d) {
      const auto given =
          std::find_if(request.topology.domains.begin(), request.topology.domains.end(),
                       [&](const Domain& g) { return g.name == binding.domain_names[d]; });
      ASSERT_NE(given, request.topology.domains.end());
      EXPECT_EQ(given->egress_bytes_per_second, topology.domains[d].egress_bytes_per_second);
    }
    for (size_t i = 0; i < request.arrays.size(); ++i) {
      const ArraySpec& array = request.arrays[binding.array_indices[i]];
      EXPECT_EQ(array.name, binding.array_names[i]);
      EXPECT_EQ(array.shape, canonical->canonical.request.arrays[i].shape);
      const Placement& bound = canonical->canonical.request.arrays[i].target;
      for (size_t p = 0; p < array.target.devices->size(); ++p) {
        const int64_t id = (*array.target.devices)[p];
        const auto at = std::find_if(bound.devices->begin(), bound.devices->end(),
                                     [&](int64_t d) { return binding.device_ids[d] == id; });
        ASSERT_NE(at, bound.devices->end());
        EXPECT_EQ(BoxesOf(*array.target.layout, static_cast<int32_t>(p)),
                  BoxesOf(*bound.layout, static_cast<int32_t>(at - bound.devices->begin())));
      }
    }
  }
}

}  // namespace
}  // namespace remesh
