// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace remesh::service {

// The process_* metrics, read from /proc when asked.
class ProcessMetrics : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace remesh::service
