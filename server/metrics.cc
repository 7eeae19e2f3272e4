// SPDX-License-Identifier: Apache-2.0
#include "server/metrics.h"

#include <cstdlib>

#include "absl/strings/ascii.h"
#include "service/log.h"

namespace remesh {
namespace {

constexpr v1::Execution::Phase kOutcomes[] = {
    v1::Execution::SUCCEEDED, v1::Execution::FAILED, v1::Execution::CANCELLED};
constexpr v1::State::Phase kStatePhases[] = {v1::State::BUILDING, v1::State::READY,
                                             v1::State::MOVING, v1::State::LOST};

// "READY" -> "ready".
std::string Label(const std::string& phase) { return absl::AsciiStrToLower(phase); }

using Read = double (*)(const v1::CacheStats& stats);

struct CacheSeries {
  const char* name;
  const char* help;
  Read read;
};

constexpr CacheSeries kCacheCounters[] = {
    {"remesh_plan_cache_hits_total", "Plans found for the same devices.",
     [](const v1::CacheStats& s) { return static_cast<double>(s.memory().hits()); }},
    {"remesh_plan_cache_isomorphic_hits_total",
     "Plans found for other devices of the same structure.",
     [](const v1::CacheStats& s) { return static_cast<double>(s.memory().isomorphic_hits()); }},
    {"remesh_plan_cache_misses_total", "Plans that had to be computed.",
     [](const v1::CacheStats& s) { return static_cast<double>(s.computations()); }},
    {"remesh_plan_cache_evictions_total", "Plans dropped to make room.",
     [](const v1::CacheStats& s) { return static_cast<double>(s.memory().evictions().bytes()); }},
    {"remesh_plan_cache_single_flight_waits_total", "Requests that waited for an equal one.",
     [](const v1::CacheStats& s) { return static_cast<double>(s.single_flight_waits()); }},
    {"remesh_plan_cache_compute_saved_seconds_total", "Seconds of planning that hits saved.",
     [](const v1::CacheStats& s) { return s.memory().compute_seconds_saved(); }},
    {"remesh_plan_cache_disk_hits_total", "Plans found on disk.",
     [](const v1::CacheStats& s) { return static_cast<double>(s.disk().hits()); }},
    {"remesh_plan_cache_disk_misses_total", "Plans looked for on disk in vain.",
     [](const v1::CacheStats& s) { return static_cast<double>(s.disk().misses()); }},
    {"remesh_plan_cache_disk_evictions_total", "Plans on disk dropped by age or to make room.",
     [](const v1::CacheStats& s) { return static_cast<double>(s.disk().evictions().bytes()); }},
    {"remesh_plan_cache_disk_corrupt_total", "Damaged plans and files that were set aside.",
     [](const v1::CacheStats& s) { return static_cast<double>(s.disk().evictions().corrupt()); }},
    {"remesh_plan_cache_disk_errors_total", "Reads and writes of plans that failed.",
     [](const v1::CacheStats& s) { return static_cast<double>(s.disk().errors()); }},
};

constexpr CacheSeries kCacheGauges[] = {
    {"remesh_plan_cache_entries", "Plans in memory.",
     [](const v1::CacheStats& s) { return static_cast<double>(s.memory().entries()); }},
    {"remesh_plan_cache_bytes", "Memory that plans take.",
     [](const v1::CacheStats& s) { return static_cast<double>(s.memory().bytes()); }},
    {"remesh_plan_cache_max_bytes", "Memory that plans may take.",
     [](const v1::CacheStats& s) { return static_cast<double>(s.memory().bytes_max()); }},
    {"remesh_plan_cache_disk_entries", "Plans on disk.",
     [](const v1::CacheStats& s) { return static_cast<double>(s.disk().plans()); }},
    {"remesh_plan_cache_disk_bytes", "Disk that plans take, compressed.",
     [](const v1::CacheStats& s) { return static_cast<double>(s.disk().bytes()); }},
};

}  // namespace

ServerMetrics::ServerMetrics(prometheus::Registry& registry)
    : executions_(prometheus::BuildCounter()
                      .Name("remesh_executions_total")
                      .Help("Executions that ended, by outcome.")
                      .Register(registry)),
      execution_seconds_(prometheus::BuildHistogram()
                             .Name("remesh_execution_seconds")
                             .Help("Seconds from the request to the end of an execution.")
                             .Register(registry)
                             .Add({}, prometheus::Histogram::BucketBoundaries{0.1, 0.3, 1, 3, 10,
                                                                              30, 100, 300, 1000})),
      bytes_(prometheus::BuildCounter()
                 .Name("remesh_bytes_moved_total")
                 .Help("Bytes that ended executions moved, between hosts (crossing) and inside "
                       "them (local).")
                 .Register(registry)),
      workers_(prometheus::BuildGauge()
                   .Name("remesh_workers")
                   .Help("Registered workers, by whether they are alive.")
                   .Register(registry)),
      states_(prometheus::BuildGauge()
                  .Name("remesh_states")
                  .Help("States, by phase.")
                  .Register(registry)),
      running_(prometheus::BuildGauge()
                   .Name("remesh_executions_running")
                   .Help("Executions that have not ended.")
                   .Register(registry)
                   .Add({})) {
  for (const auto phase : kOutcomes)
    executions_.Add({{"outcome", Label(v1::Execution::Phase_Name(phase))}});
  for (const char* path : {"crossing", "local"}) bytes_.Add({{"path", path}});
  for (const CacheSeries& series : kCacheCounters) {
    auto& family =
        prometheus::BuildCounter().Name(series.name).Help(series.help).Register(registry);
    cache_counters_.push_back({family.Add({}), series.read});
  }
  for (const CacheSeries& series : kCacheGauges) {
    auto& family = prometheus::BuildGauge().Name(series.name).Help(series.help).Register(registry);
    cache_gauges_.push_back({family.Add({}), series.read});
  }
  OnCensus({}, {});
}

void ServerMetrics::OnLog(const std::string& line) { LogInfo(line); }

void ServerMetrics::OnExecutionEnded(const ExecutionEnded& ended) {
  executions_.Add({{"outcome", Label(v1::Execution::Phase_Name(ended.phase))}}).Increment();
  execution_seconds_.Observe(ended.seconds);
  bytes_.Add({{"path", "crossing"}}).Increment(static_cast<double>(ended.bytes_moved));
  bytes_.Add({{"path", "local"}}).Increment(static_cast<double>(ended.bytes_copied));
}

void ServerMetrics::OnCensus(const Census& census, const v1::CacheStats& plans) {
  workers_.Add({{"alive", "true"}}).Set(static_cast<double>(census.workers_alive));
  workers_.Add({{"alive", "false"}})
      .Set(static_cast<double>(census.workers - census.workers_alive));
  for (const auto phase : kStatePhases) {
    auto count = census.states.find(phase);
    states_.Add({{"phase", Label(v1::State::Phase_Name(phase))}})
        .Set(count == census.states.end() ? 0 : static_cast<double>(count->second));
  }
  running_.Set(static_cast<double>(census.executions_running));
  for (const CacheCounter& series : cache_counters_) {
    series.counter.Increment(series.read(plans) - series.counter.Value());
  }
  for (const CacheGauge& series : cache_gauges_) series.gauge.Set(series.read(plans));
}

void ServerMetrics::OnFatal(const absl::Status& status) {
  LogError("the journal cannot be written: the server ends", {{"error", status}});
  std::_Exit(1);
}

}  // namespace remesh
