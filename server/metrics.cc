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

}  // namespace

ServerMetrics::ServerMetrics(prometheus::Registry& registry)
    : executions_(prometheus::BuildCounter()
                      .Name("remesh_executions_total")
                      .Help("Ended executions, by outcome.")
                      .Register(registry)),
      execution_seconds_(prometheus::BuildHistogram()
                             .Name("remesh_execution_seconds")
                             .Help("Seconds from the request to the end of an execution.")
                             .Register(registry)
                             .Add({}, prometheus::Histogram::BucketBoundaries{0.1, 0.3, 1, 3, 10,
                                                                              30, 100, 300, 1000})),
      bytes_(prometheus::BuildCounter()
                 .Name("remesh_execution_bytes_total")
                 .Help("Bytes that ended executions moved, between hosts (crossing) and inside "
                       "them (local).")
                 .Register(registry)),
      predicted_seconds_(service::OneCounter(
          registry, "remesh_execution_predicted_seconds_total",
          "Seconds that plans predicted for the transfers of moves that succeeded.")),
      transfer_seconds_(
          service::OneCounter(registry, "remesh_execution_transfer_seconds_total",
                              "Seconds that the transfers of moves that succeeded took.")),
      transfer_ratio_(
          prometheus::BuildHistogram()
              .Name("remesh_execution_transfer_ratio")
              .Help("Seconds that the transfer of a move took over those that its plan predicted.")
              .Register(registry)
              .Add({}, kTransferRatios)),
      workers_(prometheus::BuildGauge()
                   .Name("remesh_workers")
                   .Help("Hosts that the server knows, by whether their worker is alive.")
                   .Register(registry)),
      states_(prometheus::BuildGauge()
                  .Name("remesh_states")
                  .Help("States, by phase.")
                  .Register(registry)),
      other_version_(service::OneGauge(registry, "remesh_workers_other_version",
                                       "Live workers of another release than the server.")),
      running_(service::OneGauge(registry, "remesh_executions_running",
                                 "Executions that have not ended.")),
      workers_drained_(service::OneGauge(registry, "remesh_workers_drained",
                                         "Registered workers that are drained.")),
      owed_generations_(
          service::OneGauge(registry, "remesh_owed_generations",
                            "Generations on workers that can be neither used nor proved to "
                            "be free.")),
      owed_bytes_(service::OneGauge(
          registry, "remesh_owed_bytes",
          "Bytes of the generations that can be neither used nor proved to be free.")),
      journal_behind_(service::OneGauge(
          registry, "remesh_journal_behind",
          "1 if a worker knows a later journal position: the server decides nothing.")),
      journal_full_(service::OneGauge(
          registry, "remesh_journal_full",
          "1 if the journal uses the disk space that is reserved for decisions.")),
      journal_lost_(service::OneGauge(
          registry, "remesh_journal_lost",
          "1 if the journal's files were deleted or replaced: the server decides nothing.")),
      planning_seconds_(prometheus::BuildHistogram()
                            .Name("remesh_planning_seconds")
                            .Help("Seconds from decoding a request to having its plan, by where "
                                  "the plan came from.")
                            .Register(registry)),
      compute_seconds_(
          prometheus::BuildHistogram()
              .Name("remesh_planner_compute_seconds")
              .Help("Seconds that the planner took for plans that were computed on request.")
              .Register(registry)
              .Add({}, kPlanningSeconds)),
      worlds_(prometheus::BuildGauge()
                  .Name("remesh_worlds")
                  .Help("Worlds of trainer processes, by phase.")
                  .Register(registry)),
      world_members_(service::OneGauge(registry, "remesh_world_members",
                                       "Processes in worlds, those that wait for one included.")),
      rounds_(prometheus::BuildCounter()
                  .Name("remesh_world_rounds_total")
                  .Help("Rounds of worlds that ended, by outcome.")
                  .Register(registry)),
      round_seconds_(prometheus::BuildHistogram()
                         .Name("remesh_world_round_seconds")
                         .Help("Seconds from a round's first member to its end.")
                         .Register(registry)
                         .Add({}, kRoundSeconds)),
      oldest_round_(
          service::OneGauge(registry, "remesh_world_oldest_round_seconds",
                            "How long the oldest round that waits has waited; 0 if none waits.")),
      cache_(registry) {
  for (const auto ending : kEndings) rounds_.Add({{"outcome", Label(NameOf(ending))}});
  OnWorlds({});
  for (const auto phase : kOutcomes)
    executions_.Add({{"outcome", Label(v1::Execution::Phase_Name(phase))}});
  for (const char* path : {"crossing", "local"}) bytes_.Add({{"path", path}});
  for (const auto way : kWays) {
    by_way_[way] =
        &planning_seconds_.Add({{"cache", Label(v1::Planning::Cache_Name(way))}}, kPlanningSeconds);
  }
  OnGauges({}, {});
}

void ServerMetrics::OnLog(const Note& note) {
  note.warning ? service::LogWarning(note.line) : service::LogInfo(note.line);
}

void ServerMetrics::OnExecutionEnded(const ExecutionEnded& ended) {
  executions_.Add({{"outcome", Label(v1::Execution::Phase_Name(ended.phase))}}).Increment();
  execution_seconds_.Observe(ended.seconds);
  bytes_.Add({{"path", "crossing"}}).Increment(ended.bytes_moved);
  bytes_.Add({{"path", "local"}}).Increment(ended.copied_bytes);
  if (ended.predicted_seconds <= 0) return;
  predicted_seconds_.Increment(ended.predicted_seconds);
  transfer_seconds_.Increment(ended.transfer_seconds);
  transfer_ratio_.Observe(ended.transfer_seconds / ended.predicted_seconds);
}

void ServerMetrics::OnPlanned(const v1::Planning& planning, double compute_seconds) {
  const auto way = by_way_.find(planning.cache());
  if (way != by_way_.end()) way->second->Observe(planning.seconds());
  if (planning.cache() == v1::Planning::MISS) compute_seconds_.Observe(compute_seconds);
}

void ServerMetrics::OnRoundEnded(coordination::Ending ending, absl::Duration duration) {
  rounds_.Add({{"outcome", Label(NameOf(ending))}}).Increment();
  if (duration > absl::ZeroDuration()) round_seconds_.Observe(absl::ToDoubleSeconds(duration));
}

void ServerMetrics::OnWorlds(const coordination::WorldFigures& worlds) {
  for (const auto phase : kWorldPhases) {
    const auto count = worlds.worlds.find(phase);
    worlds_.Add({{"phase", Label(v1::World::Phase_Name(phase))}})
        .Set(count == worlds.worlds.end() ? 0 : static_cast<double>(count->second));
  }
  world_members_.Set(static_cast<double>(worlds.members));
  oldest_round_.Set(absl::ToDoubleSeconds(worlds.oldest_round));
}

void ServerMetrics::OnGauges(const ControllerGauges& gauges, const v1::CacheStats& plans) {
  workers_.Add({{"alive", "true"}}).Set(static_cast<double>(gauges.workers_alive));
  workers_.Add({{"alive", "false"}})
      .Set(static_cast<double>(gauges.workers - gauges.workers_alive));
  for (const auto phase : kStatePhases) {
    auto count = gauges.states.find(phase);
    states_.Add({{"phase", Label(v1::State::Phase_Name(phase))}})
        .Set(count == gauges.states.end() ? 0 : static_cast<double>(count->second));
  }
  other_version_.Set(static_cast<double>(gauges.workers_of_other_version));
  running_.Set(static_cast<double>(gauges.executions_running));
  workers_drained_.Set(static_cast<double>(gauges.workers_drained));
  owed_generations_.Set(static_cast<double>(gauges.owed_generations));
  owed_bytes_.Set(static_cast<double>(gauges.owed_bytes));
  journal_behind_.Set(gauges.journal_behind ? 1 : 0);
  journal_full_.Set(gauges.journal_full ? 1 : 0);
  journal_lost_.Set(gauges.journal_lost ? 1 : 0);
  cache_.Update(plans);
}

void ServerMetrics::OnFatal(const absl::Status& status) {
  service::LogError("the journal cannot be written: the server ends", {{"error", status}});
  service::FlushLog();
  std::_Exit(1);
}

}  // namespace remesh::server
