// SPDX-License-Identifier: Apache-2.0
// What planning costs and how good plans are, on the cases that planners are compared by. Time runs
// from a validated request in plain values to a plan ready to serve: canonical form, fingerprint,
// atoms, routing, striping, windows, memory.
#include <benchmark/benchmark.h>

#include <functional>

#include "planner/plan.h"
#include "tests/benchmark/planner_cases.h"

namespace remesh {
namespace {

using testing::PlannerCase;

void MeasurePlanning(benchmark::State& state, const PlannerCase& one) {
  for (auto _ : state) {
    auto canonical = Canonicalize(one.request);
    if (!canonical.ok()) return state.SkipWithError(canonical.status().ToString().c_str());
    auto plan = MakePlan(canonical->canonical);
    if (!plan.ok()) return state.SkipWithError(plan.status().ToString().c_str());
    const PlanSummary& summary = plan->summary();
    state.counters["Q"] = summary.quality;
    state.counters["bottleneck_GB"] = static_cast<double>(summary.bottleneck_bytes) / 1e9;
    state.counters["T0/LB"] = summary.lower_bound_seconds > 0
                                  ? summary.routing_bound_seconds / summary.lower_bound_seconds
                                  : 1;
    state.counters["price"] =
        summary.bottleneck_seconds > 0 ? summary.predicted_seconds / summary.bottleneck_seconds : 1;
    state.counters["moved%"] = 100.0 - 100.0 * static_cast<double>(summary.bytes_kept) /
                                           static_cast<double>(summary.bytes_total);
    state.counters["peak_GB"] = static_cast<double>(summary.peak_bytes_max) / 1e9;
    state.counters["windows"] = summary.windows;
    state.counters["plan_MiB"] = static_cast<double>(plan->memory_bytes()) / (1 << 20);
    state.SetLabel(plan->summary().certificate);
  }
}

void MeasureProgram(benchmark::State& state, const PlannerCase& one) {
  auto canonical = Canonicalize(one.request);
  auto plan = MakePlan(canonical->canonical);
  if (!plan.ok()) return state.SkipWithError(plan.status().ToString().c_str());
  for (auto _ : state) {
    int64_t transfers = 0;
    plan->ForEachTransferOfHost(0, [&](const Transfer&) { ++transfers; });
    state.counters["transfers"] = static_cast<double>(transfers);
  }
}

// Cases are built when their turn comes: the big ones take memory.
void Register(const std::string& name, const std::function<PlannerCase()>& make) {
  benchmark::RegisterBenchmark(("plan/" + name).c_str(), [make](benchmark::State& state) {
    MeasurePlanning(state, make());
  })->Unit(benchmark::kMillisecond);
}

void RegisterAll() {
  for (const PlannerCase& one : testing::AlpaCases()) Register(one.name, [one] { return one; });
  for (const PlannerCase& one : testing::UnevenCases()) Register(one.name, [one] { return one; });
  Register("all-to-all (8,8)", testing::AllToAllCase);
  Register("405B 128->512", [] { return testing::Llama405bCase({8, 16, 1}, {8, 2, 32}, false); });
  Register("Qwen3-32B 32->32", testing::Qwen32bCase);
  Register("405B 1024->512", [] { return testing::Llama405bCase({8, 16, 8}, {8, 2, 32}, true); });
  Register("DeepSeek-V3 2048->1536", testing::DeepSeekCase);
  Register("flat 16384->12288", [] { return testing::FlatCase(16384, 12288, true); });
  benchmark::RegisterBenchmark("program/flat 16384->12288", [](benchmark::State& state) {
    MeasureProgram(state, testing::FlatCase(16384, 12288, true));
  })->Unit(benchmark::kMillisecond);
  Register("flat 1024->1016 identity", [] { return testing::FlatCase(1024, 1016, false); });
  Register("flat 1024->1016 free", [] {
    PlannerCase one = testing::FlatCase(1024, 1016, false);
    one.request.options.free_target_order = true;
    return one;
  });
  Register("405B donated 256", [] {
    PlannerCase one = testing::Llama405bCase({8, 16, 2}, {8, 8, 4}, true);
    one.request.options.donate = true;
    return one;
  });
}

}  // namespace
}  // namespace remesh

int main(int argc, char** argv) {
  remesh::RegisterAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
