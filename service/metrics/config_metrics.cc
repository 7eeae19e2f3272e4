// SPDX-License-Identifier: Apache-2.0
#include "service/metrics/config_metrics.h"

#include "service/metrics/one_gauge.h"

namespace remesh::service {
ConfigMetrics::ConfigMetrics(prometheus::Registry& registry, absl::Time started)
    : successful_(OneGauge(registry, "remesh_config_last_reload_successful",
                           "1: the current settings file was accepted, 0: it is refused.")),
      success_time_(OneGauge(registry, "remesh_config_last_reload_success_timestamp_seconds",
                             "When a settings file was last accepted.")),
      restart_required_(OneGauge(registry, "remesh_config_restart_required",
                                 "1: the settings file has values that need a restart.")) {
  Succeeded(started);
}

void ConfigMetrics::Succeeded(absl::Time when) {
  successful_.Set(1);
  success_time_.Set(absl::ToDoubleSeconds(when - absl::UnixEpoch()));
}

void ConfigMetrics::Failed() { successful_.Set(0); }

void ConfigMetrics::SetRestartRequired(bool required) { restart_required_.Set(required ? 1 : 0); }

}  // namespace remesh::service
