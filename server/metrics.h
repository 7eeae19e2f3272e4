// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <string>
#include <vector>

#include "server/core.h"

namespace remesh {

// Logs and counts what a core does. Every series exists from the start. Thread-safe.
class ServerMetrics : public CoreObserver {
 public:
  // `registry` must outlive this.
  explicit ServerMetrics(prometheus::Registry& registry);

  void OnLog(const std::string& line) override;
  void OnExecutionEnded(const ExecutionEnded& ended) override;
  void OnCensus(const Census& census, const v1::CacheStats& plans) override;
  // Logs and ends the process: what it decided and could not write, nobody was told.
  void OnFatal(const absl::Status& status) override;

 private:
  prometheus::Family<prometheus::Counter>& executions_;
  prometheus::Histogram& execution_seconds_;
  prometheus::Family<prometheus::Counter>& bytes_;
  prometheus::Family<prometheus::Gauge>& workers_;
  prometheus::Family<prometheus::Gauge>& states_;
  prometheus::Gauge& running_;

  // A number of the plan cache and how to read it.
  struct CacheCounter {
    prometheus::Counter& counter;
    double (*read)(const v1::CacheStats& stats);
  };
  struct CacheGauge {
    prometheus::Gauge& gauge;
    double (*read)(const v1::CacheStats& stats);
  };
  std::vector<CacheCounter> cache_counters_;
  std::vector<CacheGauge> cache_gauges_;
};

}  // namespace remesh
