// SPDX-License-Identifier: Apache-2.0
// Requests that differ in names alone have equal canonical requests; a change of structure never
// goes unseen.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "planner/canonical/canonical.h"
#include "planner/make_plan.h"
#include "planner/plan/plan.h"
#include "tests/testing/ordered_request.h"
#include "tests/testing/random_request.h"

namespace remesh::planner {
namespace {

using testing::Random;
using testing::RandomRequest;
using testing::Renamed;
using testing::Uniform;

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
ReshardRequest WithChosenOrder(ReshardRequest request, const CanonicalizedRequest& chosen,
                               const Plan& plan) {
  request.options.free_target_order = false;
  const ReshardRequest ordered = testing::OrderedRequest(chosen.canonical.request, plan);
  for (size_t i = 0; i < request.arrays.size(); ++i) {
    DeviceList devices;
    for (int64_t id : *ordered.arrays[i].target.devices) {
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
    if (one->canonical.fingerprint == other->canonical.fingerprint)
      bound.canonical = one->canonical;
    const auto free_plan = MakePlan(bound.canonical);
    ASSERT_TRUE(free_plan.ok()) << free_plan.status();
    const ReshardRequest fixed = WithChosenOrder(renamed, bound, *free_plan);
    std::map<int64_t, int64_t> taker;
    const std::vector<DeviceList> given = TargetsOf(renamed), chosen = TargetsOf(fixed);
    for (size_t a = 0; a < given.size(); ++a) {
      for (size_t p = 0; p < given[a].size(); ++p) {
        EXPECT_EQ(taker.try_emplace(given[a][p], chosen[a][p]).first->second, chosen[a][p]);
      }
    }
    const auto own = Canonicalize(fixed);
    ASSERT_TRUE(own.ok()) << own.status();
    const auto own_plan = MakePlan(own->canonical);
    ASSERT_TRUE(own_plan.ok()) << own_plan.status();
    EXPECT_EQ(own_plan->summary().kept_bytes, free_plan->summary().kept_bytes);
    EXPECT_EQ(own_plan->summary().lower_bound_seconds, free_plan->summary().lower_bound_seconds);
  }
  EXPECT_GE(hits, cases * 9 / 10) << "ties may miss, but not many";
}

bool SameCanonical(const ReshardRequest& a, const ReshardRequest& b) {
  const auto same_placement = [](const Placement& p, const Placement& q) {
    return *p.layout == *q.layout && *p.devices == *q.devices && p.memory_kind == q.memory_kind;
  };
  if (!(a.topology == b.topology) || !(a.options == b.options) || !(a.fallbacks == b.fallbacks))
    return false;
  return std::equal(a.arrays.begin(), a.arrays.end(), b.arrays.begin(), b.arrays.end(),
                    [&](const ArraySpec& x, const ArraySpec& y) {
                      return x.shape == y.shape && x.element_type == y.element_type &&
                             same_placement(x.source, y.source) &&
                             same_placement(x.target, y.target);
                    });
}

// Small changes of structure, some of which a renaming undoes and others not.
struct Change {
  const char* name;
  std::function<void(Random&, ReshardRequest&)> apply;
};

Host& AnyHost(Random& random, ReshardRequest& request) {
  return request.topology
      .hosts[Uniform(random, 0, static_cast<int64_t>(request.topology.hosts.size()) - 1)];
}

ArraySpec& AnyArray(Random& random, ReshardRequest& request) {
  return request.arrays[Uniform(random, 0, static_cast<int64_t>(request.arrays.size()) - 1)];
}

void SwapTwoDevices(Random& random, Placement& placement) {
  DeviceList devices = *placement.devices;
  const int64_t last = static_cast<int64_t>(devices.size()) - 1;
  std::swap(devices[Uniform(random, 0, last)], devices[Uniform(random, 0, last)]);
  placement.devices = std::make_shared<const DeviceList>(std::move(devices));
}

const std::vector<Change>& Changes() {
  static const auto* changes = new std::vector<Change>{
      {"window", [](Random&, ReshardRequest& r) { r.options.window_bytes += 1; }},
      {"limit", [](Random&, ReshardRequest& r) { r.options.memory_limit_bytes += 1; }},
      {"donation", [](Random&, ReshardRequest& r) { r.options.donate = true; }},
      {"strategy", [](Random&, ReshardRequest& r) { r.options.strategy = Strategy::kP2p; }},
      {"fallback",
       [](Random&, ReshardRequest& r) { r.fallbacks.push_back({.location = "/elsewhere"}); }},
      {"NIC", [](Random& n, ReshardRequest& r) { AnyHost(n, r).nic_bytes_per_second *= 1.5; }},
      {"NICs", [](Random& n, ReshardRequest& r) { AnyHost(n, r).nics += 1; }},
      {"fabric", [](Random& n, ReshardRequest& r) { AnyHost(n, r).fabric_bytes_per_second *= 3; }},
      {"element type",
       [](Random& n, ReshardRequest& r) {
         ElementType& type = AnyArray(n, r).element_type;
         type = type == ElementType::kF32 ? ElementType::kS32 : ElementType::kF32;
       }},
      {"memory kind",
       [](Random& n, ReshardRequest& r) {
         AnyArray(n, r).target.memory_kind = MemoryKind::kUnpinnedHost;
       }},
      {"source places",
       [](Random& n, ReshardRequest& r) { SwapTwoDevices(n, AnyArray(n, r).source); }},
      {"target places",
       [](Random& n, ReshardRequest& r) { SwapTwoDevices(n, AnyArray(n, r).target); }},
      {"seats",
       [](Random& n, ReshardRequest& r) {
         Host &one = AnyHost(n, r), &other = AnyHost(n, r);
         std::swap(one.device_ids.back(), other.device_ids.front());
       }},
      {"a device less",
       [](Random& n, ReshardRequest& r) {
         Host& host = AnyHost(n, r);
         for (const ArraySpec& array : r.arrays) {
           for (const Placement* p : {&array.source, &array.target}) {
             if (std::count(p->devices->begin(), p->devices->end(), host.device_ids.back()) > 0)
               return;
           }
         }
         if (host.device_ids.size() > 1) host.device_ids.pop_back();
       }},
      {"an array twice",
       [](Random& n, ReshardRequest& r) {
         ArraySpec array = AnyArray(n, r);
         array.name = "twice";
         r.arrays.push_back(std::move(array));
       }},
  };
  return *changes;
}

// Two requests have one fingerprint exactly when they are one request in canonical form, to the
// last value that planning can see.
TEST(CanonicalLawTest, NoChangeOfStructureEverHits) {
  std::map<std::string, int> misses;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const ReshardRequest request =
        RandomRequest(seed, {.elements_max = 100, .lost_devices = false});
    const auto one = Canonicalize(request);
    ASSERT_TRUE(one.ok()) << one.status();
    for (const Change& change : Changes()) {
      SCOPED_TRACE(change.name + std::string(", seed ") + std::to_string(seed));
      Random random(seed);
      ReshardRequest changed = request;
      change.apply(random, changed);
      changed = Renamed(random, changed);
      const auto other = Canonicalize(changed);
      ASSERT_TRUE(other.ok()) << other.status();
      const bool hit = one->canonical.fingerprint == other->canonical.fingerprint;
      EXPECT_EQ(hit, SameCanonical(one->canonical.request, other->canonical.request));
      misses[change.name] += !hit;
    }
  }
  for (const Change& change : Changes()) EXPECT_GT(misses[change.name], 20) << change.name;
  for (const char* always :
       {"window", "limit", "donation", "strategy", "fallback", "element type", "an array twice"}) {
    EXPECT_EQ(misses[always], 300) << always;
  }
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
}  // namespace remesh::planner
