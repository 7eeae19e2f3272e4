// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/time/time.h"
#include "prometheus/gauge.h"
#include "prometheus/registry.h"

namespace remesh::service {

// The metrics remesh_config_*: how the last reading of the settings went. Thread-safe.
class ConfigMetrics {
 public:
  // `started`: when the settings were read for the first time. `registry` must outlive this.
  ConfigMetrics(prometheus::Registry& registry, absl::Time started);

  void Succeeded(absl::Time when);
  void Failed();
  // Whether the file has values that only a restart can put in force.
  void SetRestartRequired(bool required);

 private:
  prometheus::Gauge& successful_;
  prometheus::Gauge& success_time_;
  prometheus::Gauge& restart_required_;
};

}  // namespace remesh::service
