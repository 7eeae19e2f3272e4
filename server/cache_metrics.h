// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <functional>
#include <vector>

#include "remesh/v1/plan.pb.h"

namespace remesh::server {

// Exports the counters of the plan cache as series remesh_plan_*. Every series exists from the
// start. Not thread-safe.
class CacheMetrics {
 public:
  // `registry` must outlive this.
  explicit CacheMetrics(prometheus::Registry& registry);

  // `stats` comes from one cache, so its counters never fall.
  void Update(const v1::CacheStats& stats);

 private:
  using Read = std::function<double(const v1::CacheStats& stats)>;
  struct Count {
    prometheus::Counter& counter;
    Read read;
  };
  struct Level {
    prometheus::Gauge& gauge;
    Read read;
  };

  std::vector<Count> counts_;
  std::vector<Level> levels_;
};

}  // namespace remesh::server
