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
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/check.h"
#include "planner/make_plan.h"
#include "planner/network/links.h"
#include "planner/network/network.h"
#include "planner/plan/host_program.h"
#include "planner/plan/pack.h"
#include "planner/plan/plan.h"
#include "planner/plan/plan_rep.h"
#include "planner/schedule/cost_model.h"
#include "planner/schedule/rounds.h"
#include "proto/convert/plan_spec.h"
#include "proto/program/program_proto.h"
#include "service/process/heap.h"
#include "tests/benchmark/planner_cases.h"

namespace remesh::planner {
namespace {

using testing::PlannerCase;

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double ProcessPeakBytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
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
  auto request = proto::ToReshardRequest(spec, nullptr);
  if (!request.ok()) return request.status();
  const double requested = CpuSeconds();
  auto canonical = Canonicalize(*request);
  if (!canonical.ok()) return canonical.status();
  *request = {};  // as the server does
  const double canonicalized = CpuSeconds();
  auto plan = MakePlan(canonical->canonical);
  seconds = {requested - begin, canonicalized - requested, CpuSeconds() - canonicalized};
  return plan;
}

// Ordered pairs of devices that exchange bytes.
size_t PairsOf(const Plan& plan) {
  std::set<std::pair<int32_t, int32_t>> pairs;
  for (const PackedMove& move : plan.rep().moves) {
    if (move.from_device != move.to_device) pairs.emplace(move.from_device, move.to_device);
  }
  return pairs.size();
}

// What the busiest resource takes with one message for each pair of devices in the whole plan. No
// schedule of the same moves is predicted faster.
double PairSeconds(const Plan& plan, const ReshardRequest& canonical) {
  const PlanRep& rep = plan.rep();
  std::vector<Move> moves = UnpackedMoves(rep);
  if (moves.empty()) return 0;
  for (Move& move : moves) move.hop = move.round = 0;
  const std::vector<Segment> segments = UnpackedSegments(rep);
  const Network network = MakeNetwork(canonical);
  const Links links(network);
  const PairList pairs = CollectPairs(moves);
  return ScheduleCost(moves, pairs, segments, Schedule{}, 1, links).Predict(1).seconds;
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
  counters["hops"] = plan.rep().schedule.hops;
  counters["parts"] = plan.rep().schedule.parts;
  counters["rounds"] = plan.rep().schedule.rounds;
  counters["pairs"] = static_cast<double>(PairsOf(plan));
  counters["schedule_seconds"] = s.schedule_seconds;
  counters["fabric_seconds"] = s.fabric_seconds;
  counters["fabric_bound_seconds"] = s.fabric_bound_seconds;
  counters["total_bytes"] = static_cast<double>(s.total_bytes);
  counters["kept_bytes"] = static_cast<double>(s.kept_bytes);
  counters["peak_bytes"] = static_cast<double>(s.max_peak_bytes);
  counters["windows"] = s.windows;
  counters["operations"] = static_cast<double>(s.messages);
  counters["message_bytes"] =
      static_cast<double>(s.local_bytes + s.crossing_bytes + s.relayed_bytes) /
      static_cast<double>(std::max<int64_t>(s.messages, 1));
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
      // Counting takes more memory than some plans do.
      state.counters["process_peak_bytes"] = ProcessPeakBytes();
      CountPlan(*plan, state);
      const auto canonical = Canonicalize(testing::RequestOf(spec));
      state.counters["pair_seconds"] = PairSeconds(*plan, canonical->canonical.request);
    }
    sum.request += seconds.request;
    sum.canonical += seconds.canonical;
    sum.plan += seconds.plan;
  }
  state.counters["larger_side_bytes"] = LargerSideBytes(testing::RequestOf(spec));
  state.counters["spec_bytes"] = static_cast<double>(spec_bytes);
  state.counters["arrays"] = spec.arrays_size();
  state.counters["first_seconds"] = first.total();
  state.counters["request_seconds"] = sum.request / runs;
  state.counters["canonical_seconds"] = sum.canonical / runs;
  state.counters["make_plan_seconds"] = sum.plan / runs;
}

struct HostSeconds {
  double seconds = 0;  // its program written, as GetHostProgram does
  double expansion_seconds = 0;
  int32_t host = 0;
  int64_t transfers = 0;
  size_t wire_bytes = 0;
};

HostSeconds ProgramOf(const Plan& plan, const CanonicalizedRequest& request, int32_t host) {
  HostSeconds result{.host = host};
  const double begin = CpuSeconds();
  proto::WriteProgram(proto::ProgramOfHost(plan, request.canonical, request.binding, host),
                      [&](const v1::HostProgram& chunk) {
                        result.wire_bytes += chunk.SerializeAsString().size();
                        return true;
                      });
  const double written = CpuSeconds();
  ForEachTransferOfHost(plan, host, [&](const Transfer&) { ++result.transfers; });
  result.seconds = written - begin;
  result.expansion_seconds = CpuSeconds() - written;
  return result;
}

// Programs of all hosts: the longest on the wire, and the slowest, of which few are tried again.
void MeasureProgram(benchmark::State& state, const PlannerCase& one) {
  constexpr size_t kAgain = 16;
  const v1::PlanSpec spec = one.spec();
  const auto request = Canonicalize(testing::RequestOf(spec));
  if (!request.ok()) return state.SkipWithError(request.status().ToString().c_str());
  const auto plan = MakePlan(request->canonical);
  if (!plan.ok()) return state.SkipWithError(plan.status().ToString().c_str());
  HostSeconds most;
  for (auto _ : state) {
    most = {};
    std::vector<HostSeconds> hosts;
    for (int32_t h = 0; h < spec.topology().hosts_size(); ++h) {
      hosts.push_back(ProgramOf(*plan, *request, h));
      most.wire_bytes = std::max(most.wire_bytes, hosts.back().wire_bytes);
      most.transfers = std::max(most.transfers, hosts.back().transfers);
    }
    const auto total = [](const HostSeconds& h) { return h.seconds + h.expansion_seconds; };
    std::sort(hosts.begin(), hosts.end(),
              [&](const auto& a, const auto& b) { return total(a) > total(b); });
    hosts.resize(std::min(hosts.size(), kAgain));
    for (HostSeconds& host : hosts) {
      for (int again = 0; again < 3; ++again) {
        const HostSeconds next = ProgramOf(*plan, *request, host.host);
        host.seconds = std::min(host.seconds, next.seconds);
        host.expansion_seconds = std::min(host.expansion_seconds, next.expansion_seconds);
      }
      most.seconds = std::max(most.seconds, host.seconds);
      most.expansion_seconds = std::max(most.expansion_seconds, host.expansion_seconds);
    }
  }
  state.counters["program_seconds"] = most.seconds;
  state.counters["expansion_seconds"] = most.expansion_seconds;
  state.counters["program_transfers"] = static_cast<double>(most.transfers);
  state.counters["program_wire_bytes"] = static_cast<double>(most.wire_bytes);
}

// Whose programs are measured: many hosts, and many windows.
bool MeasuresPrograms(const PlannerCase& one) {
  return one.name == "flat 16384 -> 12288 x4" ||
         one.name == "Llama-405B TP8 PP16 DP8 (1024) -> TP8 PP2 DP32 (512)";
}

// Plans `one` once: what matters are the figures of its plan.
void RegisterPlan(const std::string& kind, const PlannerCase& one) {
  benchmark::RegisterBenchmark((kind + "/" + one.suite + "/" + one.name).c_str(),
                               [one](benchmark::State& state) { MeasurePlanning(state, one); })
      ->Unit(benchmark::kMillisecond)
      ->Iterations(1);
}

void RegisterAll() {
  for (const PlannerCase& one : testing::HostsCases()) {
    RegisterPlan("hosts", one);
    RegisterPlan("threads",
                 {one.suite, one.name, [one] { return testing::WithPostingThreads(one.spec()); }});
  }
  for (const PlannerCase& one : testing::PlannerCases()) {
    const std::string name = one.suite + "/" + one.name;
    benchmark::RegisterBenchmark(("plan/" + name).c_str(), [one](benchmark::State& state) {
      MeasurePlanning(state, one);
    })->Unit(benchmark::kMillisecond);
    if (!MeasuresPrograms(one)) continue;
    benchmark::RegisterBenchmark(("program/" + name).c_str(),
                                 [one](benchmark::State& state) { MeasureProgram(state, one); })
        ->Unit(benchmark::kMillisecond)
        ->Iterations(1);
  }
}

}  // namespace
}  // namespace remesh::planner

int main(int argc, char** argv) {
  remesh::service::KeepFreedMemory();  // as the server does
  remesh::planner::RegisterAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
