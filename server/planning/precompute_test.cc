// SPDX-License-Identifier: Apache-2.0
#include "server/planning/precompute.h"

#include <gtest/gtest.h>

#include <map>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "server/questions/create_plan.h"
#include "server/questions/join_spec.h"

namespace remesh::server {
namespace {

constexpr int64_t kDevicesPerHost = 2;

v1::Topology TopologyOf(int hosts) {
  v1::Topology topology;
  for (int h = 0; h < hosts; ++h) {
    v1::Host& host = *topology.add_hosts();
    host.set_name("host-" + std::to_string(h));
    for (int64_t i = 0; i < kDevicesPerHost; ++i) host.add_device_ids(h * kDevicesPerHost + i);
    host.set_nics(1);
    host.set_nic_bytes_per_second(1e9);
    host.set_fabric_bytes_per_second(1e11);
  }
  return topology;
}

// An array f32[240] over `devices`, cut by all of them, on a topology of `hosts`.
v1::StateSpec FlatLayout(const std::vector<int64_t>& devices, int hosts) {
  v1::StateSpec spec;
  *spec.mutable_topology() = TopologyOf(hosts);
  for (const int64_t id : devices) (*spec.mutable_device_lists())["data"].add_ids(id);
  v1::Sharding& sharding = (*spec.mutable_shardings())["flat"];
  const std::string n = std::to_string(devices.size());
  sharding.set_hlo_text("{devices=[" + n + "]<=[" + n + "]}");
  sharding.mutable_devices()->set_ref("data");
  v1::StateArray& array = *spec.add_arrays();
  array.set_name("w");
  array.add_shape(240);
  array.set_element_type("f32");
  array.mutable_sharding()->set_ref("flat");
  return spec;
}

class PrecomputeTest : public ::testing::Test {
 protected:
  ~PrecomputeTest() override { pool_.Stop(); }

  v1::PrecomputePlansResponse Start(const v1::PrecomputePlansRequest& request,
                                    const v1::StateSpec& present, const std::string& caller = "a") {
    const auto response = precomputer_.Start(caller, request, present, {}, nullptr);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *response : v1::PrecomputePlansResponse();
  }

  // Returns once all is planned that was queued.
  void Settle() {
    for (const char* caller : {"a", "b"}) {
      absl::Notification done;
      ASSERT_TRUE(pool_.PostBackground(caller, [&] { done.Notify(); }));
      done.WaitForNotification();
    }
  }

  v1::CreatePlanResponse Create(const v1::StateSpec& source, const v1::StateSpec& target,
                                const v1::PlanOptions& options = {}) {
    v1::CreatePlanRequest request;
    *request.mutable_spec() = JoinSpecs(source, target, options);
    const auto response = CreatePlan(cache_, request, nullptr);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *response : v1::CreatePlanResponse();
  }

  static std::map<v1::Scenario::Outcome, int> Outcomes(const v1::PrecomputePlansResponse& r) {
    std::map<v1::Scenario::Outcome, int> outcomes;
    for (const v1::Scenario& scenario : r.scenarios()) ++outcomes[scenario.outcome()];
    return outcomes;
  }

  PlanCache cache_{1 << 30};
  ThreadPool pool_{1, 1000};
  ThreadPool lookups_{1, 1000};
  PlanDesk desk_{cache_, {lookups_, lookups_}, {pool_, pool_}, {}};
  Precomputer precomputer_{cache_, pool_, desk_};
};

using Cache = v1::Planning;

TEST_F(PrecomputeTest, TheNextEventIsAHitAndNothingIsPlannedThen) {
  const v1::StateSpec present = FlatLayout({0, 1, 2, 3, 4, 5, 6, 7}, 5);
  v1::PrecomputePlansRequest request;
  request.set_elastic_list("data");
  request.set_drain_any_one_host(true);
  request.set_return_any_one_host(true);
  request.set_hosts_plus_minus(2);
  const v1::PrecomputePlansResponse response = Start(request, present);
  ASSERT_EQ(response.scenarios_size(), 4 + 4 + 2 + 1);  // one spare host
  Settle();
  const int64_t computations = cache_.stats().computations();
  EXPECT_GT(computations, 0);
  EXPECT_EQ(cache_.stats().precompute().computed(), computations);
  EXPECT_EQ(cache_.stats().precompute().waiting(), 0);
  EXPECT_EQ(cache_.stats().memory().hits(), 0);
  // What really happens, asked for as a controller would: on a topology that knows more.
  const auto drained = Create(present, FlatLayout({0, 1, 4, 5, 6, 7}, 5));
  EXPECT_EQ(drained.planning().cache(), Cache::HIT);
  EXPECT_EQ(drained.plan().name(), response.scenarios(1).plan());
  const auto grown = Create(present, FlatLayout({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 5));
  EXPECT_EQ(grown.planning().cache(), Cache::HIT);
  EXPECT_EQ(Create(FlatLayout({0, 1, 4, 5, 6, 7}, 5), present).planning().cache(), Cache::HIT);
  EXPECT_EQ(Create(present, FlatLayout({0, 1, 2, 3}, 5)).planning().cache(), Cache::HIT);
  // Another job of the same shape, on a part of another fleet.
  v1::StateSpec other = present;
  v1::StateSpec other_target = FlatLayout({0, 1, 4, 5, 6, 7}, 5);
  for (v1::StateSpec* spec : {&other, &other_target}) {
    for (v1::Host& host : *spec->mutable_topology()->mutable_hosts()) {
      host.set_name("other-" + host.name());
    }
  }
  EXPECT_EQ(Create(other, other_target).planning().cache(), Cache::ISOMORPHIC);
  EXPECT_EQ(cache_.stats().computations(), computations);
  EXPECT_EQ(cache_.stats().precompute().used(), 4);
}

TEST_F(PrecomputeTest, ALostHostsReplicasAreReadyToo) {
  // Two replicas: hosts 0 and 1 hold what 2 and 3 hold.
  v1::StateSpec present = FlatLayout({0, 1, 2, 3, 4, 5, 6, 7}, 4);
  (*present.mutable_shardings())["flat"].set_hlo_text(
      "{devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
  v1::PrecomputePlansRequest request;
  request.set_lose_any_one_host(true);
  // Transposed tiles cannot grow by an index: the same in named form can.
  EXPECT_EQ(GetErrorInfo(precomputer_.Start("a", request, present, {}, nullptr).status())
                .metadata.at("field"),
            "shardings[flat]");
  v1::Sharding& sharding = (*present.mutable_shardings())["flat"];
  sharding.set_sdy_text(R"(#sdy.sharding<mesh<["r"=2, "x"=4]>, [{"x"}]>)");
  request.set_elastic_axis("x");
  const v1::PrecomputePlansResponse response = Start(request, present);
  ASSERT_EQ(response.scenarios_size(), 4);
  EXPECT_EQ(Outcomes(response)[v1::Scenario::SKIPPED], 0) << response.DebugString();
  Settle();
  EXPECT_EQ(cache_.stats().precompute().refused(), 0);
  const int64_t computations = cache_.stats().computations();
  v1::StateSpec left = present;
  v1::DeviceList& list = (*left.mutable_device_lists())["data"];
  list.clear_ids();
  for (const int64_t id : {0, 1, 4, 5, 6, 7}) list.add_ids(id);
  (*left.mutable_shardings())["flat"].set_sdy_text(
      R"(#sdy.sharding<mesh<["r"=2, "x"=3]>, [{"x"}]>)");
  v1::PlanOptions options;
  options.add_lost_device_ids(2);
  options.add_lost_device_ids(3);
  EXPECT_EQ(Create(present, left, options).planning().cache(), Cache::HIT);
  EXPECT_EQ(cache_.stats().computations(), computations);
}

TEST_F(PrecomputeTest, WhatCannotBePlannedIsSaidAndCounted) {
  v1::PrecomputePlansRequest request;
  request.set_lose_any_one_host(true);
  // No other host holds what a host holds, and no fallback is declared.
  EXPECT_EQ(Outcomes(Start(request, FlatLayout({0, 1, 2, 3}, 2)))[v1::Scenario::QUEUED], 2);
  Settle();
  EXPECT_EQ(cache_.stats().precompute().refused(), 2);
  EXPECT_EQ(cache_.stats().computations(), 0);
  // 4 x 2 does not become 3 x 2 x ... on 6 devices when the other axis is 4.
  v1::StateSpec square = FlatLayout({0, 1, 2, 3, 4, 5, 6, 7}, 4);
  (*square.mutable_shardings())["flat"].set_sdy_text(
      R"(#sdy.sharding<mesh<["x"=2, "y"=4]>, [{"x", "y"}]>)");
  request.Clear();
  request.set_elastic_axis("x");
  request.set_drain_any_one_host(true);
  const v1::PrecomputePlansResponse skipped = Start(request, square);
  EXPECT_EQ(Outcomes(skipped)[v1::Scenario::SKIPPED], 4);
  EXPECT_NE(skipped.scenarios(0).reason().find("multiple of 4"), std::string::npos)
      << skipped.DebugString();
  EXPECT_EQ(skipped.scenarios(0).plan(), "");
  // The last host cannot leave.
  EXPECT_EQ(Outcomes(Start(request,
                           [] {
                             v1::StateSpec one = FlatLayout({0, 1}, 1);
                             (*one.mutable_shardings())["flat"].set_sdy_text(
                                 R"(#sdy.sharding<mesh<["x"=2]>, [{"x"}]>)");
                             return one;
                           }()))[v1::Scenario::SKIPPED],
            1);
}

TEST_F(PrecomputeTest, AskingTwicePlansOnce) {
  v1::PrecomputePlansRequest request;
  request.set_hosts_plus_minus(1);
  const v1::StateSpec present = FlatLayout({0, 1, 2, 3}, 3);
  absl::Notification began, release;
  ASSERT_TRUE(pool_.PostBackground([&] {
    began.Notify();
    release.WaitForNotification();
  }));
  began.WaitForNotification();
  EXPECT_EQ(Outcomes(Start(request, present))[v1::Scenario::QUEUED], 2);
  EXPECT_EQ(Outcomes(Start(request, present))[v1::Scenario::QUEUED], 2);
  EXPECT_EQ(cache_.stats().precompute().queued(), 2);
  release.Notify();
  Settle();
  EXPECT_EQ(cache_.stats().computations(), 2);
  EXPECT_EQ(Outcomes(Start(request, present))[v1::Scenario::CACHED], 2);
  request.set_validate_only(true);
  EXPECT_EQ(Outcomes(Start(request, FlatLayout({0, 1, 2, 3, 4, 5}, 4)))[v1::Scenario::VALID], 2);
  Settle();
  EXPECT_EQ(cache_.stats().computations(), 2);
}

// Regression: a caller's plan waited for all plans that other callers wanted before.
TEST_F(PrecomputeTest, ACallersPlanWaitsForOnePlanOfEachOtherCaller) {
  absl::Notification began, release, first_done;
  ASSERT_TRUE(pool_.PostBackground("a", [&] {
    began.Notify();
    release.WaitForNotification();
  }));
  began.WaitForNotification();
  v1::PrecomputePlansRequest request;
  request.set_drain_any_one_host(true);
  const v1::StateSpec many = FlatLayout({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 5);
  EXPECT_EQ(Outcomes(Start(request, many, "a"))[v1::Scenario::QUEUED], 5);
  request.Clear();
  request.set_hosts_plus_minus(1);
  const v1::PrecomputePlansResponse wanted = Start(request, FlatLayout({0, 1, 2, 3}, 2), "b");
  EXPECT_EQ(Outcomes(wanted)[v1::Scenario::QUEUED], 1);
  // Runs in b's next turn, before which a has one.
  int64_t computed = 0;
  ASSERT_TRUE(pool_.PostBackground("b", [&] {
    computed = cache_.stats().computations();
    first_done.Notify();
  }));
  release.Notify();
  first_done.WaitForNotification();
  EXPECT_TRUE(cache_.Find(wanted.scenarios(0).plan()).ok());
  EXPECT_EQ(computed, 3);
}

// Else it would wait for all that the other caller wanted before.
TEST_F(PrecomputeTest, APlanThatSeveralCallersWantIsMadeInTheFirstTurnOfAnyOfThem) {
  absl::Notification began, release;
  ASSERT_TRUE(pool_.PostBackground("a", [&] {
    began.Notify();
    release.WaitForNotification();
  }));
  began.WaitForNotification();
  v1::PrecomputePlansRequest request;
  request.set_drain_any_one_host(true);
  const v1::StateSpec present = FlatLayout({0, 1, 2, 3}, 2);
  EXPECT_EQ(Outcomes(Start(request, present, "a"))[v1::Scenario::QUEUED], 2);
  EXPECT_EQ(Outcomes(Start(request, present, "b"))[v1::Scenario::QUEUED], 2);
  EXPECT_EQ(cache_.stats().precompute().waiting(), 4);
  release.Notify();
  Settle();
  EXPECT_EQ(cache_.stats().computations(), 2);
  EXPECT_EQ(cache_.stats().precompute().waiting(), 0);
}

TEST_F(PrecomputeTest, EqualScenariosShareAPlan) {
  // Replicated: whichever host leaves, the others are as they were.
  v1::StateSpec present = FlatLayout({0, 1, 2, 3, 4, 5, 6, 7}, 4);
  (*present.mutable_shardings())["flat"].set_hlo_text("{replicated}");
  v1::PrecomputePlansRequest request;
  request.set_drain_any_one_host(true);
  auto outcomes = Outcomes(Start(request, present));
  EXPECT_EQ(outcomes[v1::Scenario::QUEUED], 1);
  EXPECT_EQ(outcomes[v1::Scenario::SHARED], 3);
}

TEST_F(PrecomputeTest, DTensorsAndOpShardingsChangeTheirSizeToo) {
  v1::StateSpec present = FlatLayout({0, 1, 2, 3, 4, 5, 6, 7}, 4);
  v1::DTensorSharding& dtensor = *(*present.mutable_shardings())["flat"].mutable_dtensor();
  dtensor.add_mesh_shape(4);
  dtensor.add_mesh_shape(2);
  dtensor.add_placements()->mutable_shard()->set_dim(0);
  dtensor.add_placements()->mutable_replicate();
  v1::PrecomputePlansRequest request;
  request.set_drain_any_one_host(true);
  request.set_elastic_axis("0");
  EXPECT_EQ(Outcomes(Start(request, present))[v1::Scenario::QUEUED], 4);
  request.set_elastic_axis("1");  // 8 = 4 x 2 would be 6 = 4 x 1.5
  EXPECT_EQ(Outcomes(Start(request, present))[v1::Scenario::SKIPPED], 4);
  (*present.mutable_shardings())["flat"].set_op_sharding("");  // replicated
  request.clear_elastic_axis();
  EXPECT_EQ(Outcomes(Start(request, present))[v1::Scenario::SKIPPED], 0);
}

// The target half of a question brings the source's shardings along; they may cut what is elastic
// along another axis.
TEST_F(PrecomputeTest, ShardingsThatNoArrayHasNeedNotScale) {
  v1::StateSpec present = FlatLayout({0, 1, 2, 3}, 2);
  v1::Sharding& unused = (*present.mutable_shardings())["unused"];
  unused.set_hlo_text("{devices=[1,4]<=[4]}");
  unused.mutable_devices()->set_ref("data");
  v1::PrecomputePlansRequest request;
  request.set_elastic_axis("0");
  request.set_drain_any_one_host(true);
  const v1::PrecomputePlansResponse response = Start(request, present);
  EXPECT_EQ(response.scenarios_size(), 2);
  for (const v1::Scenario& scenario : response.scenarios()) {
    EXPECT_NE(scenario.outcome(), v1::Scenario::SKIPPED) << scenario.reason();
  }
}

// Regression: these requests ended the server's process.
TEST_F(PrecomputeTest, WhatNoArrayUsesIsCheckedToo) {
  v1::PrecomputePlansRequest request;
  request.set_elastic_list("data");
  request.set_lose_any_one_host(true);
  // A sharding with the name that a sharding without a reference has.
  v1::StateSpec spec = FlatLayout({0, 1, 2, 3}, 2);
  *spec.mutable_arrays(0)->mutable_sharding() = spec.shardings().at("flat");
  spec.mutable_shardings()->clear();
  v1::Sharding& unused = (*spec.mutable_shardings())[""];
  unused.mutable_devices()->set_ref("data");
  for (const int64_t size : {0, 2}) unused.mutable_dtensor()->add_mesh_shape(size);
  EXPECT_EQ(Start(request, spec).scenarios_size(), 2);
  // The same, in use.
  spec.mutable_arrays(0)->mutable_sharding()->set_ref("");
  EXPECT_TRUE(
      absl::IsInvalidArgument(precomputer_.Start("a", request, spec, {}, nullptr).status()));
  // A list of devices that no host has.
  spec = FlatLayout({0, 1, 2, 3}, 2);
  (*spec.mutable_device_lists())["other"].add_ids(999);
  request.set_elastic_list("other");
  const absl::Status status = precomputer_.Start("a", request, spec, {}, nullptr).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(GetErrorInfo(status).metadata["field"], "elastic_list.devices") << status;
}

TEST_F(PrecomputeTest, BadRequestsNameTheField) {
  const v1::StateSpec present = FlatLayout({0, 1, 2, 3}, 2);
  const auto field = [&](const v1::PrecomputePlansRequest& request, const v1::StateSpec& layout) {
    const absl::Status status = precomputer_.Start("a", request, layout, {}, nullptr).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return GetErrorInfo(status).metadata.at("field");
  };
  v1::PrecomputePlansRequest request;
  EXPECT_EQ(field(request, present), "lose_any_one_host");
  request.set_hosts_plus_minus(-1);
  EXPECT_EQ(field(request, present), "hosts_plus_minus");
  request.set_hosts_plus_minus(10'000);
  EXPECT_EQ(field(request, present), "elastic_list");
  request.set_hosts_plus_minus(1);
  request.set_elastic_list("none");
  EXPECT_EQ(field(request, present), "elastic_list");
  request.clear_elastic_list();
  request.set_elastic_axis("7");
  EXPECT_EQ(field(request, present), "shardings[flat]");
  v1::StateSpec boxes = present;
  v1::Sharding& sharding = *boxes.mutable_arrays(0)->mutable_sharding();
  sharding.set_hlo_text("{devices=[4]<=[4]}");
  sharding.mutable_devices()->set_ref("nowhere");
  request.clear_elastic_axis();
  EXPECT_EQ(field(request, boxes), "arrays[0].sharding.devices");
}

}  // namespace
}  // namespace remesh::server
