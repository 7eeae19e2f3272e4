// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <string>

#include "server/cache_metrics.h"
#include "server/core.h"

namespace remesh::server {

// Logs and counts what a core does. Every series exists from the start. Thread-safe.
class ServerMetrics : public CoreObserver {
 public:
  // `registry` must outlive this.
  explicit ServerMetrics(prometheus::Registry& registry);

  void OnLog(const Note& note) override;
  void OnExecutionEnded(const ExecutionEnded& ended) override;
  void OnPlanned(const v1::Planning& planning, double compute_seconds) override;
  void OnRoundEnded(coordination::Ending ending, absl::Duration duration) override;
  void OnWorlds(const coordination::WorldFigures& worlds) override;
  void OnGauges(const ControllerGauges& gauges, const v1::CacheStats& plans) override;
  // Logs and ends the process. No one has been told of a decision that could not be written.
  void OnFatal(const absl::Status& status) override;

 private:
  prometheus::Family<prometheus::Counter>& executions_;
  prometheus::Histogram& execution_seconds_;
  prometheus::Family<prometheus::Counter>& bytes_;
  prometheus::Counter& predicted_seconds_;
  prometheus::Counter& transfer_seconds_;
  prometheus::Histogram& transfer_ratio_;
  prometheus::Family<prometheus::Gauge>& workers_;
  prometheus::Family<prometheus::Gauge>& states_;
  prometheus::Gauge& other_version_;
  prometheus::Gauge& running_;
  prometheus::Gauge& workers_drained_;
  prometheus::Gauge& owed_generations_;
  prometheus::Gauge& owed_bytes_;
  prometheus::Gauge& journal_behind_;
  prometheus::Gauge& journal_full_;
  prometheus::Gauge& journal_lost_;
  prometheus::Family<prometheus::Histogram>& planning_seconds_;
  std::map<v1::Planning::Cache, prometheus::Histogram*> by_way_;  // constant after construction
  prometheus::Histogram& compute_seconds_;
  prometheus::Family<prometheus::Gauge>& worlds_;
  prometheus::Gauge& world_members_;
  prometheus::Family<prometheus::Counter>& rounds_;
  prometheus::Histogram& round_seconds_;
  prometheus::Gauge& oldest_round_;
  CacheMetrics cache_;
};

}  // namespace remesh::server
