// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <string>

#include "server/cache_metrics.h"
#include "server/core_observer.h"

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
  // Logs and ends the process. No decision was announced that could not be written.
  void OnFatal(const absl::Status& status) override;

 private:
  // Of executions that ended.
  struct OfExecutions {
    explicit OfExecutions(prometheus::Registry& registry);
    prometheus::Family<prometheus::Counter>& ended;
    prometheus::Histogram& seconds;
    prometheus::Family<prometheus::Counter>& bytes;
    prometheus::Counter& predicted_seconds;
    prometheus::Counter& transfer_seconds;
    prometheus::Histogram& transfer_ratio;
  };
  // What the controller knows now.
  struct OfController {
    explicit OfController(prometheus::Registry& registry);
    prometheus::Family<prometheus::Gauge>& workers;
    prometheus::Family<prometheus::Gauge>& states;
    prometheus::Gauge& other_version;
    prometheus::Gauge& running;
    prometheus::Gauge& workers_drained;
    prometheus::Gauge& owed_generations;
    prometheus::Gauge& owed_bytes;
  };
  struct OfJournal {
    explicit OfJournal(prometheus::Registry& registry);
    prometheus::Gauge& behind;
    prometheus::Gauge& full;
    prometheus::Gauge& lost;
  };
  struct OfPlanning {
    explicit OfPlanning(prometheus::Registry& registry);
    std::map<v1::Planning::Cache, prometheus::Histogram*> seconds;  // constant after construction
    prometheus::Histogram& compute_seconds;
  };
  struct OfWorlds {
    explicit OfWorlds(prometheus::Registry& registry);
    prometheus::Family<prometheus::Gauge>& worlds;
    prometheus::Gauge& members;
    prometheus::Family<prometheus::Counter>& rounds;
    prometheus::Histogram& round_seconds;
    prometheus::Gauge& oldest_round;
  };

  OfExecutions executions_;
  OfController controller_;
  OfJournal journal_;
  OfPlanning planning_;
  OfWorlds worlds_;
  CacheMetrics cache_;
};

}  // namespace remesh::server
