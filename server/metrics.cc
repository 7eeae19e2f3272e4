// SPDX-License-Identifier: Apache-2.0
#include "server/metrics.h"

#include <cstdlib>

#include "absl/strings/ascii.h"
#include "service/log/log.h"
#include "service/metrics/one_gauge.h"

namespace remesh::server {
namespace {

constexpr v1::Execution::Phase kOutcomes[] = {v1::Execution::SUCCEEDED, v1::Execution::FAILED,
                                              v1::Execution::CANCELLED};
constexpr v1::State::Phase kStatePhases[] = {
    v1::State::BUILDING, v1::State::READY, v1::State::MOVING, v1::State::LOST, v1::State::DEGRADED};

// "READY" -> "ready".
std::string Label(const std::string& phase) { return absl::AsciiStrToLower(phase); }

// The ways in which a plan is found.
constexpr v1::Planning::Cache kWays[] = {v1::Planning::MISS, v1::Planning::HIT,
                                         v1::Planning::ISOMORPHIC, v1::Planning::DISK};

const prometheus::Histogram::BucketBoundaries kExecutionSeconds = {0.1, 0.3, 1,   3,   10,
                                                                   30,  100, 300, 1000};

// From a hit in memory to minutes of planning.
const prometheus::Histogram::BucketBoundaries kPlanningSeconds = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1,    0.25,    0.5,    1,     2.5,    5,     10,   30,    60};

// From a barrier of processes that come together to one that waits for a slow member.
const prometheus::Histogram::BucketBoundaries kRoundSeconds = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3,
                                                               1,     3,     10,   30,   100, 300};

// From twice as fast as predicted to capacities that are wrong by orders of magnitude.
const prometheus::Histogram::BucketBoundaries kTransferRatios = {0.5, 0.8, 1,  1.25, 1.5, 2,
                                                                 3,   5,   10, 30,   100, 1000};

constexpr coordination::Ending kEndings[] = {
    coordination::Ending::kOk,           coordination::Ending::kNameMismatch,
    coordination::Ending::kTimeout,      coordination::Ending::kStructureMismatch,
    coordination::Ending::kValuesDiffer, coordination::Ending::kMemberLeft,
    coordination::Ending::kMemberLost,   coordination::Ending::kResultsDiffer,
    coordination::Ending::kTooLarge};

constexpr v1::World::Phase kWorldPhases[] = {v1::World::FORMING, v1::World::FORMED,
                                             v1::World::RETURNING, v1::World::OVER};

prometheus::Family<prometheus::Counter>& Counters(prometheus::Registry& registry, const char* name,
                                                  const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

prometheus::Family<prometheus::Gauge>& Gauges(prometheus::Registry& registry, const char* name,
                                              const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

prometheus::Histogram& OneHistogram(prometheus::Registry& registry, const char* name,
                                    const char* help,
                                    const prometheus::Histogram::BucketBoundaries& boundaries) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, boundaries);
}

}  // namespace

using service::OneCounter;
using service::OneGauge;

ServerMetrics::OfExecutions::OfExecutions(prometheus::Registry& registry)
    : ended(Counters(registry, "remesh_executions_total", "Ended executions, by outcome.")),
      seconds(OneHistogram(registry, "remesh_execution_seconds",
                           "Seconds from the request to the end of an execution.",
                           kExecutionSeconds)),
      bytes(Counters(registry, "remesh_execution_bytes_total",
                     "Bytes that ended executions moved, between hosts (crossing) and inside "
                     "them (local).")),
      predicted_seconds(
          OneCounter(registry, "remesh_execution_predicted_seconds_total",
                     "Seconds that plans predicted for the transfers of moves that succeeded.")),
      transfer_seconds(OneCounter(registry, "remesh_execution_transfer_seconds_total",
                                  "Seconds that the transfers of moves that succeeded took.")),
      transfer_ratio(OneHistogram(
          registry, "remesh_execution_transfer_ratio",
          "Seconds that the transfer of a move took over those that its plan predicted.",
          kTransferRatios)) {
  for (const auto phase : kOutcomes)
    ended.Add({{"outcome", Label(v1::Execution::Phase_Name(phase))}});
  for (const char* path : {"crossing", "local"}) bytes.Add({{"path", path}});
}

ServerMetrics::OfController::OfController(prometheus::Registry& registry)
    : workers(Gauges(registry, "remesh_workers",
                     "Hosts that the server knows, by whether their worker is alive.")),
      states(Gauges(registry, "remesh_states", "States, by phase.")),
      other_version(OneGauge(registry, "remesh_workers_other_version",
                             "Live workers of another release than the server.")),
      running(OneGauge(registry, "remesh_executions_running", "Executions that have not ended.")),
      workers_drained(
          OneGauge(registry, "remesh_workers_drained", "Registered workers that are drained.")),
      owed_generations(
          OneGauge(registry, "remesh_owed_generations",
                   "Generations on workers that can be neither used nor proved to be free.")),
      owed_bytes(
          OneGauge(registry, "remesh_owed_bytes",
                   "Bytes of the generations that can be neither used nor proved to be free.")) {}

ServerMetrics::OfJournal::OfJournal(prometheus::Registry& registry)
    : behind(OneGauge(registry, "remesh_journal_behind",
                      "1 if a worker knows a later journal position: the server decides nothing.")),
      full(OneGauge(registry, "remesh_journal_full",
                    "1 if the journal uses the disk space that is reserved for decisions.")),
      lost(OneGauge(
          registry, "remesh_journal_lost",
          "1 if the journal's files were deleted or replaced: the server decides nothing.")) {}

ServerMetrics::OfPlanning::OfPlanning(prometheus::Registry& registry)
    : compute_seconds(
          OneHistogram(registry, "remesh_planner_compute_seconds",
                       "Seconds that the planner took for plans that were computed on request.",
                       kPlanningSeconds)) {
  auto& by_way =
      prometheus::BuildHistogram()
          .Name("remesh_planning_seconds")
          .Help("Seconds from decoding a request to having its plan, by where the plan came from.")
          .Register(registry);
  for (const auto way : kWays) {
    seconds[way] = &by_way.Add({{"cache", Label(v1::Planning::Cache_Name(way))}}, kPlanningSeconds);
  }
}

ServerMetrics::OfWorlds::OfWorlds(prometheus::Registry& registry)
    : worlds(Gauges(registry, "remesh_worlds", "Worlds of trainer processes, by phase.")),
      members(OneGauge(registry, "remesh_world_members",
                       "Processes in worlds, those that wait for one included.")),
      rounds(Counters(registry, "remesh_world_rounds_total",
                      "Rounds of worlds that ended, by outcome.")),
      round_seconds(OneHistogram(registry, "remesh_world_round_seconds",
                                 "Seconds from a round's first member to its end.", kRoundSeconds)),
      oldest_round(OneGauge(registry, "remesh_world_oldest_round_seconds",
                            "How long the oldest round that waits has waited; 0 if none waits.")) {
  for (const auto ending : kEndings) rounds.Add({{"outcome", Label(NameOf(ending))}});
}

ServerMetrics::ServerMetrics(prometheus::Registry& registry)
    : executions_(registry),
      controller_(registry),
      journal_(registry),
      planning_(registry),
      worlds_(registry),
      cache_(registry) {
  OnWorlds({});
  OnGauges({}, {});
}

void ServerMetrics::OnLog(const Note& note) {
  note.warning ? service::LogWarning(note.line) : service::LogInfo(note.line);
}

void ServerMetrics::OnExecutionEnded(const ExecutionEnded& ended) {
  executions_.ended.Add({{"outcome", Label(v1::Execution::Phase_Name(ended.phase))}}).Increment();
  executions_.seconds.Observe(ended.seconds);
  executions_.bytes.Add({{"path", "crossing"}}).Increment(ended.bytes_moved);
  executions_.bytes.Add({{"path", "local"}}).Increment(ended.copied_bytes);
  if (ended.predicted_seconds <= 0) return;
  executions_.predicted_seconds.Increment(ended.predicted_seconds);
  executions_.transfer_seconds.Increment(ended.transfer_seconds);
  executions_.transfer_ratio.Observe(ended.transfer_seconds / ended.predicted_seconds);
}

void ServerMetrics::OnPlanned(const v1::Planning& planning, double compute_seconds) {
  const auto way = planning_.seconds.find(planning.cache());
  if (way != planning_.seconds.end()) way->second->Observe(planning.seconds());
  if (planning.cache() == v1::Planning::MISS) planning_.compute_seconds.Observe(compute_seconds);
}

void ServerMetrics::OnRoundEnded(coordination::Ending ending, absl::Duration duration) {
  worlds_.rounds.Add({{"outcome", Label(NameOf(ending))}}).Increment();
  if (duration > absl::ZeroDuration())
    worlds_.round_seconds.Observe(absl::ToDoubleSeconds(duration));
}

void ServerMetrics::OnWorlds(const coordination::WorldFigures& worlds) {
  for (const auto phase : kWorldPhases) {
    const auto count = worlds.worlds.find(phase);
    worlds_.worlds.Add({{"phase", Label(v1::World::Phase_Name(phase))}})
        .Set(count == worlds.worlds.end() ? 0 : static_cast<double>(count->second));
  }
  worlds_.members.Set(static_cast<double>(worlds.members));
  worlds_.oldest_round.Set(absl::ToDoubleSeconds(worlds.oldest_round));
}

void ServerMetrics::OnGauges(const ControllerGauges& gauges, const v1::CacheStats& plans) {
  controller_.workers.Add({{"alive", "true"}}).Set(static_cast<double>(gauges.workers_alive));
  controller_.workers.Add({{"alive", "false"}})
      .Set(static_cast<double>(gauges.workers - gauges.workers_alive));
  for (const auto phase : kStatePhases) {
    auto count = gauges.states.find(phase);
    controller_.states.Add({{"phase", Label(v1::State::Phase_Name(phase))}})
        .Set(count == gauges.states.end() ? 0 : static_cast<double>(count->second));
  }
  controller_.other_version.Set(static_cast<double>(gauges.workers_of_other_version));
  controller_.running.Set(static_cast<double>(gauges.executions_running));
  controller_.workers_drained.Set(static_cast<double>(gauges.workers_drained));
  controller_.owed_generations.Set(static_cast<double>(gauges.owed_generations));
  controller_.owed_bytes.Set(static_cast<double>(gauges.owed_bytes));
  journal_.behind.Set(gauges.journal_behind ? 1 : 0);
  journal_.full.Set(gauges.journal_full ? 1 : 0);
  journal_.lost.Set(gauges.journal_lost ? 1 : 0);
  cache_.Update(plans);
}

void ServerMetrics::OnFatal(const absl::Status& status) {
  service::LogError("the journal cannot be written: the server ends", {{"error", status}});
  service::FlushLog();
  std::_Exit(1);
}

}  // namespace remesh::server
