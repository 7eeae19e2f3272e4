// SPDX-License-Identifier: Apache-2.0
// What planning costs and how good plans are, on the cases that planners are compared by. Time is
// CPU time of one thread, from a decoded PlanSpec to a plan ready to serve: front ends, validation,
// canonical form, fingerprint, atoms, routing, striping, windows, memory. scripts/bench planner
// runs each case in a process of its own, so that peak memory is the case's.
#include <benchmark/benchmark.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "planner/plan.h"
#include "proto/spec/plan_spec.h"
#include "tests/benchmark/planner_cases.h"

namespace remesh {
namespace {

using testing::PlannerCase;

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// As a server gets it: parsed from the wire's bytes, of which there are `bytes`.
v1::PlanSpec Decoded(const PlannerCase& one, size_t& bytes) {
  const std::string wire = one.spec().SerializeAsString();
  bytes = wire.size();
  v1::PlanSpec spec;
  REMESH_CHECK(spec.ParseFromString(wire));
  return spec;
}

struct StageSeconds {
  double request = 0;
  double canonical = 0;
  double plan = 0;
  double total() const { return request + canonical + plan; }
};

absl::StatusOr<Plan> PlanOf(const v1::PlanSpec& spec, StageSeconds& seconds) {
  const double begin = CpuSeconds();
  auto request = ToReshardRequest(spec, nullptr);
  if (!request.ok()) return request.status();
  const double requested = CpuSeconds();
  auto canonical = Canonicalize(*request);
  if (!canonical.ok()) return canonical.status();
  const double canonicalized = CpuSeconds();
  auto plan = MakePlan(canonical->canonical);
  seconds = {requested - begin, canonicalized - requested, CpuSeconds() - canonicalized};
  return plan;
}

void CountPlan(const Plan& plan, benchmark::State& state) {
  const PlanSummary& s = plan.summary();
  auto& counters = state.counters;
  counters["lower_bound_seconds"] = s.lower_bound_seconds;
  counters["routing_bound_seconds"] = s.routing_bound_seconds;
  counters["bottleneck_seconds"] = s.bottleneck_seconds;
  counters["bottleneck_bytes"] = static_cast<double>(s.bottleneck_bytes);
  counters["quality"] = s.quality;
  counters["predicted_seconds"] = s.predicted_seconds;
  counters["bytes_total"] = static_cast<double>(s.bytes_total);
  counters["bytes_kept"] = static_cast<double>(s.bytes_kept);
  counters["peak_bytes"] = static_cast<double>(s.peak_bytes_max);
  counters["windows"] = s.windows;
  counters["operations"] = static_cast<double>(s.operations);
  counters["plan_bytes"] = static_cast<double>(plan.memory_bytes());
  state.SetLabel(plan.lower_bound_certificate().DebugString());
}

// The most bytes that any device holds of all arrays, before or after.
double LargerSideBytes(const ReshardRequest& request) {
  // Arrays alike share layouts and lists: their bits of one element add up.
  std::map<std::tuple<const Layout*, const DeviceList*, bool>, int64_t> width_of;
  for (const ArraySpec& array : request.arrays) {
    for (bool is_target : {false, true}) {
      const Placement& p = is_target ? array.target : array.source;
      width_of[{p.layout.get(), p.devices.get(), is_target}] += BitWidth(array.element_type);
    }
  }
  std::map<std::pair<int64_t, bool>, double> bytes_of;
  double largest = 0;
  for (const auto& [key, width] : width_of) {
    const auto& [layout, devices, is_target] = key;
    for (size_t i = 0; i < devices->size(); ++i) {
      double& bytes = bytes_of[{(*devices)[i], is_target}];
      for (const Box& box : BoxesOf(*layout, static_cast<int32_t>(i))) {
        bytes += static_cast<double>(box.element_count() * width) / 8;
      }
      largest = std::max(largest, bytes);
    }
  }
  return largest;
}

void MeasurePlanning(benchmark::State& state, const PlannerCase& one) {
  size_t spec_bytes = 0;
  const v1::PlanSpec spec = Decoded(one, spec_bytes);
  StageSeconds first, sum;
  double runs = 0;
  for (auto _ : state) {
    StageSeconds seconds;
    const auto plan = PlanOf(spec, seconds);
    if (!plan.ok()) return state.SkipWithError(plan.status().ToString().c_str());
    if (runs++ == 0) {
      first = seconds;
      CountPlan(*plan, state);
    }
    sum.request += seconds.request;
    sum.canonical += seconds.canonical;
    sum.plan += seconds.plan;
  }
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  state.counters["larger_side_bytes"] = LargerSideBytes(testing::RequestOf(spec));
  state.counters["spec_bytes"] = static_cast<double>(spec_bytes);
  state.counters["arrays"] = spec.arrays_size();
  state.counters["first_seconds"] = first.total();
  state.counters["request_seconds"] = sum.request / runs;
  state.counters["canonical_seconds"] = sum.canonical / runs;
  state.counters["make_plan_seconds"] = sum.plan / runs;
  state.counters["process_peak_bytes"] = static_cast<double>(usage.ru_maxrss) * 1024;
}

struct HostSeconds {
  double seconds = 0;
  int32_t host = 0;
  int64_t transfers = 0;
};

HostSeconds ExpandHost(const Plan& plan, int32_t host) {
  HostSeconds result{.seconds = CpuSeconds(), .host = host};
  plan.ForEachTransferOfHost(host, [&](const Transfer&) { ++result.transfers; });
  result.seconds = CpuSeconds() - result.seconds;
  return result;
}

// The host whose program takes longest: all are tried once, the slowest few again.
void MeasureProgram(benchmark::State& state, const PlannerCase& one) {
  constexpr size_t kAgain = 16;
  size_t spec_bytes = 0;
  StageSeconds seconds;
  const v1::PlanSpec spec = Decoded(one, spec_bytes);
  const auto plan = PlanOf(spec, seconds);
  if (!plan.ok()) return state.SkipWithError(plan.status().ToString().c_str());
  HostSeconds slowest;
  for (auto _ : state) {
    std::vector<HostSeconds> hosts;
    for (int32_t h = 0; h < spec.topology().hosts_size(); ++h) {
      hosts.push_back(ExpandHost(*plan, h));
    }
    std::sort(hosts.begin(), hosts.end(),
              [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
    hosts.resize(std::min(hosts.size(), kAgain));
    slowest = {};
    for (HostSeconds& host : hosts) {
      for (int again = 0; again < 3; ++again) {
        host.seconds = std::min(host.seconds, ExpandHost(*plan, host.host).seconds);
      }
      if (host.seconds > slowest.seconds) slowest = host;
    }
  }
  state.counters["program_seconds"] = slowest.seconds;
  state.counters["program_transfers"] = static_cast<double>(slowest.transfers);
}

void RegisterAll() {
  for (const PlannerCase& one : testing::PlannerCases()) {
    const std::string name = one.suite + "/" + one.name;
    benchmark::RegisterBenchmark(("plan/" + name).c_str(), [one](benchmark::State& state) {
      MeasurePlanning(state, one);
    })->Unit(benchmark::kMillisecond);
    if (one.suite != "scale") continue;
    benchmark::RegisterBenchmark(("program/" + name).c_str(),
                                 [one](benchmark::State& state) { MeasureProgram(state, one); })
        ->Unit(benchmark::kMillisecond)
        ->Iterations(1);
  }
}

}  // namespace
}  // namespace remesh

int main(int argc, char** argv) {
  remesh::RegisterAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
