// SPDX-License-Identifier: Apache-2.0
// Every plan of every random request is right, by a replay that shares no code with the planner.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <tuple>

#include "base/error.h"
#include "planner/make_plan.h"
#include "planner/plan/host_program.h"
#include "planner/plan/plan.h"
#include "planner/routing/domain_routing.h"
#include "planner/validate.h"
#include "tests/testing/certificate_check.h"
#include "tests/testing/memory_check.h"
#include "tests/testing/ordered_request.h"
#include "tests/testing/random_request.h"
#include "tests/testing/transfer_check.h"

namespace remesh::planner {
namespace {

using testing::CheckPeaks;
using testing::CheckTransfers;
using testing::OrderedRequest;
using testing::RandomRequest;
using testing::RandomRequestOptions;
using testing::TrafficReport;
using testing::TransferCheckOptions;

constexpr int kRequests = 500;

std::vector<Transfer> AllTransfers(const Plan& plan) {
  std::vector<Transfer> transfers;
  plan.ForEachTransfer([&](const Transfer& t) { transfers.push_back(t); });
  return transfers;
}

struct Planned {
  CanonicalRequest request;
  Plan plan;
};

absl::StatusOr<Planned> PlanFor(const ReshardRequest& request) {
  auto canonical = Canonicalize(request);
  if (!canonical.ok()) return canonical.status();
  auto plan = MakePlan(canonical->canonical);
  if (!plan.ok()) return plan.status();
  return Planned{std::move(canonical->canonical), *std::move(plan)};
}

// The seeds to try: the one in REMESH_SEED, or `count` of them.
std::vector<uint64_t> Seeds(int count = kRequests) {
  if (const char* seed = std::getenv("REMESH_SEED")) return {std::strtoull(seed, nullptr, 10)};
  std::vector<uint64_t> seeds(count);
  for (int i = 0; i < count; ++i) seeds[i] = static_cast<uint64_t>(i);
  return seeds;
}

// How many requests the main law is held to: 10,000, or what REMESH_LAW_CASES says.
int Cases() {
  const char* cases = std::getenv("REMESH_LAW_CASES");
  return cases == nullptr ? 10000 : std::atoi(cases);
}

int WidestElement(const ReshardRequest& request) {
  int bits = 0;
  for (const ArraySpec& array : request.arrays) bits = std::max(bits, BitWidth(array.element_type));
  return bits;
}

// What plans without third hosts that enter every domain once can reach: T0 where there are no
// domains. Proved.
double EnteringOnceSeconds(const ReshardRequest& request, const PlanSummary& summary) {
  if (request.topology.domains.empty()) return summary.routing_bound_seconds;
  const Network network = MakeNetwork(request);
  const auto atoms = MakeAtoms(request, network);
  const DemandClasses demand = MakeDemandClasses(*atoms, network);
  const Bound bound = RouteThroughDomains(demand, Units(network)).bound;
  const absl::Status proof =
      testing::CheckCertificate(request, bound.certificate, bound.t.seconds());
  EXPECT_TRUE(proof.ok()) << proof;
  EXPECT_GE(bound.t.seconds(), summary.lower_bound_seconds * (1 - 1e-9));
  return bound.t.seconds();
}

// No NIC and no uplink carries more than `seconds` let it, four elements aside.
void CheckTraffic(const ReshardRequest& request, const TrafficReport& traffic, double seconds) {
  const int rounding = 4 * WidestElement(request);
  const auto check = [&](int64_t bits, double bytes_per_second, const std::string& where) {
    EXPECT_LE(static_cast<double>(bits), seconds * bytes_per_second * 8 + rounding + 1e-6) << where;
  };
  for (size_t h = 0; h < request.topology.hosts.size(); ++h) {
    for (const auto* side : {&traffic.nic_out_bits[h], &traffic.nic_in_bits[h]}) {
      for (int64_t bits : *side) {
        check(bits, request.topology.hosts[h].nic_bytes_per_second, "host " + std::to_string(h));
      }
    }
  }
  for (size_t d = 0; d < request.topology.domains.size(); ++d) {
    const Domain& domain = request.topology.domains[d];
    check(traffic.domain_out_bits[d], domain.egress_bytes_per_second, "out of " + domain.name);
    check(traffic.domain_in_bits[d], domain.ingress_bytes_per_second, "into " + domain.name);
  }
}

// The busiest link is as good as entering every domain once can make it; LB <= T0 <= planned, both
// proved.
void CheckBounds(const Planned& planned, const TrafficReport& traffic) {
  const ReshardRequest request = OrderedRequest(planned.request.request, planned.plan);
  const PlanSummary& summary = planned.plan.summary();
  CheckTraffic(request, traffic, EnteringOnceSeconds(request, summary));
  EXPECT_LE(summary.lower_bound_seconds, summary.routing_bound_seconds);
  EXPECT_LE(summary.routing_bound_seconds, summary.bottleneck_seconds * (1 + 1e-9) + 1e-15);
  const absl::Status lower = testing::CheckCertificate(
      request, planned.plan.lower_bound_certificate(), summary.lower_bound_seconds);
  EXPECT_TRUE(lower.ok()) << lower;
  const absl::Status fabric = testing::CheckCertificate(
      request, planned.plan.fabric_bound_certificate(), summary.fabric_bound_seconds);
  EXPECT_TRUE(fabric.ok()) << fabric;
  EXPECT_LE(summary.fabric_bound_seconds,
            std::max(summary.bottleneck_seconds, summary.fabric_seconds) * (1 + 1e-9) + 1e-15);
  if (summary.routing_bound_seconds > summary.lower_bound_seconds) {
    const absl::Status routing = testing::CheckCertificate(
        request, planned.plan.routing_bound_certificate(), summary.routing_bound_seconds);
    EXPECT_TRUE(routing.ok()) << routing;
  }
}

void CheckPlan(const ReshardRequest& request, bool optimal) {
  const auto planned = PlanFor(request);
  ASSERT_TRUE(planned.ok()) << planned.status();
  const Plan& plan = planned->plan;
  const std::vector<Transfer> transfers = AllTransfers(plan);
  const ReshardRequest ordered = OrderedRequest(planned->request.request, plan);
  TrafficReport traffic;
  const TransferCheckOptions options{.enter_once = optimal};
  const absl::Status replay = CheckTransfers(ordered, transfers, plan.missing(), options, &traffic);
  ASSERT_TRUE(replay.ok()) << replay << "\n" << plan.DebugString();
  const absl::Status valid = ValidatePlan(plan, planned->request);
  ASSERT_TRUE(valid.ok()) << valid << "\n" << plan.DebugString();
  const absl::Status peaks = CheckPeaks(ordered, transfers, plan.peak_bytes());
  EXPECT_TRUE(peaks.ok()) << peaks << "\n" << plan.DebugString();
  const PlanSummary& summary = plan.summary();
  EXPECT_EQ(summary.total_bytes, summary.kept_bytes + summary.local_bytes + summary.crossing_bytes);
  EXPECT_LE(summary.lower_bound_seconds, summary.bottleneck_seconds * (1 + 1e-9) + 1e-15);
  EXPECT_LE(summary.bottleneck_seconds, summary.schedule_seconds * (1 + 1e-9));
  EXPECT_LE(summary.fabric_seconds, summary.schedule_seconds * (1 + 1e-9));
  EXPECT_LE(summary.schedule_seconds, summary.predicted_seconds);
  if (optimal) CheckBounds(*planned, traffic);
}

TEST(PlanLawTest, EveryPlanIsRight) {
  for (uint64_t seed : Seeds(Cases())) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    CheckPlan(RandomRequest(seed), true);
    if (HasFatalFailure()) return;
  }
}

TEST(PlanLawTest, EveryPlanOfManyHostsInManyRacksIsRight) {
  for (uint64_t seed : Seeds(Cases() / 2)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    CheckPlan(RandomRequest(seed, {.hosts_max = 16, .devices_per_host_max = 3, .racks_max = 9}),
              true);
    if (HasFatalFailure()) return;
  }
}

// A slow host in a rack holds what others there need, and so does a host outside; the rack's
// ingress is as slow. Sharing that between both takes 278 ns; by way of the slow host alone 428, by
// way of the uplink 418, as the plan of this seed once did.
TEST(PlanLawTest, ARackWithinARackIsRoutedAtTheBound) {
  const ReshardRequest request = RandomRequest(14559);
  CheckPlan(request, true);
  EXPECT_LE(PlanFor(request)->plan.summary().bottleneck_seconds, 280e-9);
}

// Where copies inside hosts are what takes longest, needers pass parts on to one another.
TEST(PlanLawTest, PlansOverSlowFabricsAreRight) {
  for (uint64_t seed : Seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ReshardRequest request = RandomRequest(seed);
    for (Host& host : request.topology.hosts) {
      host.fabric_bytes_per_second =
          host.nic_bytes_per_second / (1 + static_cast<double>(seed % 8));
    }
    CheckPlan(request, true);
    if (HasFatalFailure()) return;
  }
}

TEST(PlanLawTest, NaivePlansAreRightToo) {
  for (uint64_t seed : Seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ReshardRequest request = RandomRequest(seed);
    for (Strategy strategy : {Strategy::kP2p, Strategy::kGather}) {
      request.options.strategy = strategy;
      CheckPlan(request, false);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(PlanLawTest, NoNaivePlanIsFaster) {
  for (uint64_t seed : Seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ReshardRequest request = RandomRequest(seed, {.subgroups = false, .small_windows = false});
    const auto best = PlanFor(request);
    for (Strategy strategy : {Strategy::kP2p, Strategy::kGather}) {
      request.options.strategy = strategy;
      const auto naive = PlanFor(request);
      ASSERT_TRUE(best.ok() && naive.ok()) << best.status() << naive.status();
      double slowest = 1e18;
      for (const Host& host : request.topology.hosts) {
        slowest = std::min(slowest, host.nic_bytes_per_second);
      }
      const double rounding = 4 * WidestElement(request) / 8 / slowest;
      EXPECT_LE(best->plan.summary().bottleneck_seconds,
                naive->plan.summary().bottleneck_seconds + rounding)
          << best->plan.DebugString() << "\n"
          << naive->plan.DebugString();
    }
  }
}

// Bounds that differ by a thousandth count as equal.
TEST(PlanLawTest, AFreeOrderIsBoundNoHigher) {
  for (uint64_t seed : Seeds(200)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ReshardRequest request = RandomRequest(seed);
    const auto given = PlanFor(request);
    request.options.free_target_order = true;
    CheckPlan(request, true);
    const auto freed = PlanFor(request);
    ASSERT_TRUE(given.ok() && freed.ok()) << given.status() << freed.status();
    EXPECT_LE(freed->plan.summary().lower_bound_seconds,
              1.001 * given->plan.summary().lower_bound_seconds);
  }
}

// Of arrays that are large against what memory is counted in, to a hundredth: parts of a few bits
// take whole messages.
TEST(PlanLawTest, DonationSavesMemory) {
  int large = 0;
  for (uint64_t seed : Seeds(2000)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ReshardRequest request = RandomRequest(
        seed, {.elements_max = 1 << 24, .lost_devices = false, .small_windows = false});
    const auto kept = PlanFor(request);
    request.options.donate = true;
    const auto donated = PlanFor(request);
    ASSERT_TRUE(kept.ok() && donated.ok()) << kept.status() << donated.status();
    const int64_t most = kept->plan.summary().max_peak_bytes;
    if (most < 1 << 16) continue;
    ++large;
    EXPECT_LE(donated->plan.summary().max_peak_bytes, most + most / 100);
  }
  EXPECT_GT(large, 400);
}

TEST(PlanLawTest, DonatedPlansAreRightAndKeepWithinTheirPeak) {
  for (uint64_t seed : Seeds(2000)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ReshardRequest request = RandomRequest(seed, {.lost_devices = false, .small_windows = false});
    request.options.donate = true;
    CheckPlan(request, true);
    const auto donated = PlanFor(request);
    ASSERT_TRUE(donated.ok()) << donated.status();
    request.options.memory_limit_bytes = donated->plan.summary().max_peak_bytes;
    EXPECT_TRUE(PlanFor(request).ok());
  }
}

// A limit below what a plan takes in wide windows gets narrower ones, or the number that it takes.
TEST(PlanLawTest, ALimitOnMemoryIsKeptByNarrowerWindows) {
  int narrower = 0, refused = 0;
  for (uint64_t seed : Seeds(500)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ReshardRequest request = RandomRequest(
        seed, {.elements_max = 1 << 20, .lost_devices = false, .small_windows = false});
    const auto wide = PlanFor(request);
    ASSERT_TRUE(wide.ok()) << wide.status();
    const PlanSummary& summary = wide->plan.summary();
    if (summary.crossing_bytes == 0) continue;
    const int64_t limit = summary.max_peak_bytes - 1;
    request.options.memory_limit_bytes = limit;
    const auto narrow = PlanFor(request);
    if (narrow.ok()) {
      ++narrower;
      EXPECT_LE(narrow->plan.summary().max_peak_bytes, limit);
      EXPECT_GT(narrow->plan.summary().windows, summary.windows);
      continue;
    }
    ++refused;
    const ErrorInfo refusal = GetErrorInfo(narrow.status());
    ASSERT_EQ(refusal.reason, "MEMORY_LIMIT") << narrow.status();
    request.options.memory_limit_bytes = std::stoll(refusal.metadata.at("needed_bytes"));
    EXPECT_GT(request.options.memory_limit_bytes, limit);
    EXPECT_TRUE(PlanFor(request).ok());
  }
  EXPECT_GT(narrower, 0);
  EXPECT_GT(refused, 0);
}

TEST(PlanLawTest, ProgramsOfHostsAddUp) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto planned = PlanFor(RandomRequest(seed));
    ASSERT_TRUE(planned.ok()) << planned.status();
    const Topology& topology = planned->request.request.topology;
    std::vector<int32_t> host_of;
    for (size_t h = 0; h < topology.hosts.size(); ++h) {
      host_of.insert(host_of.end(), topology.hosts[h].device_ids.size(), static_cast<int32_t>(h));
    }
    const std::vector<Transfer> all = AllTransfers(planned->plan);
    for (int32_t h = 0; h < static_cast<int32_t>(topology.hosts.size()); ++h) {
      std::vector<Transfer> expected;
      for (const Transfer& t : all) {
        if (host_of[t.from_device] == h || host_of[t.to_device] == h) expected.push_back(t);
      }
      std::vector<Transfer> program;
      ForEachTransferOfHost(planned->plan, h, [&](const Transfer& t) { program.push_back(t); });
      EXPECT_EQ(program, expected);
    }
  }
}

// A slice that rounding leaves empty may be counted, nothing else that does not happen.
TEST(PlanLawTest, OperationsAreMessagesOfWindows) {
  int exact = 0;
  int plans = 0;
  for (uint64_t seed : Seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto planned = PlanFor(RandomRequest(seed));
    ASSERT_TRUE(planned.ok()) << planned.status();
    std::set<std::tuple<int32_t, int32_t, int32_t>> messages;
    planned->plan.ForEachFlow([&](const Flow& flow) {
      messages.insert({flow.window, flow.from_device, flow.to_device});
    });
    const int64_t counted = planned->plan.summary().messages;
    EXPECT_GE(counted, std::ssize(messages));
    exact += counted == std::ssize(messages) ? 1 : 0;
    ++plans;
  }
  EXPECT_GE(exact, plans * 99 / 100);
}

TEST(PlanLawTest, TheSameRequestGivesTheSamePlan) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto first = PlanFor(RandomRequest(seed));
    const auto second = PlanFor(RandomRequest(seed));
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(first->request.fingerprint, second->request.fingerprint);
    EXPECT_TRUE(first->plan == second->plan) << seed;
  }
}

}  // namespace
}  // namespace remesh::planner
