// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "prometheus/exposer.h"
#include "prometheus/registry.h"

namespace remesh {

// Serves http://ADDRESS/metrics from a registry, and adds to it remesh_build_info and what
// Prometheus' own clients tell of a process: process_cpu_seconds_total,
// process_resident_memory_bytes, process_virtual_memory_bytes, process_open_fds, process_max_fds,
// process_start_time_seconds. Serves until destroyed; thread-safe.
class MetricsEndpoint {
 public:
  // `address` is HOST:PORT; port 0 takes a free one. INVALID_ARGUMENT or UNAVAILABLE with the
  // address when it cannot listen.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(
      const std::string& address, std::shared_ptr<prometheus::Registry> registry);

  int port() const;

 private:
  MetricsEndpoint() = default;

  std::shared_ptr<prometheus::Registry> registry_;
  std::shared_ptr<prometheus::Collectable> process_;
  std::unique_ptr<prometheus::Exposer> exposer_;  // last: it reads the others
};

}  // namespace remesh
