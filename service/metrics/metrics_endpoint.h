// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "prometheus/registry.h"
#include "service/front/accept_loop.h"
#include "service/metrics/http_answers.h"
#include "service/metrics/process_metrics.h"
#include "service/metrics/readiness.h"

namespace remesh::service {

// Serves, over HTTP:
//   /metrics  the series of a registry, remesh_build_info, and the process metrics that Prometheus'
//             own clients export (see ProcessMetrics)
//   /livez    200 while the process answers
//   /readyz   200 when every check is OK, else 503; the body says why
// Clients that are slow to send or to read, however many, do not delay a client that sends its
// request at once; slow checks do not delay /livez and /metrics. Serves until destroyed.
// Thread-safe.
class MetricsEndpoint {
 public:
  // The threads that it runs: one accepts, one serves, and /metrics and /readyz have one each.
  static constexpr int kThreads = 4;

  // `address` is HOST:PORT, as ListenOn() reads it; port 0 takes a free port. INVALID_ARGUMENT or
  // UNAVAILABLE (METRICS_ADDRESS) with the address when it cannot listen.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(
      const std::string& address, std::shared_ptr<prometheus::Registry> registry,
      std::vector<ReadinessCheck> checks);

  int port() const { return port_; }

 private:
  MetricsEndpoint(std::shared_ptr<prometheus::Registry> registry,
                  std::vector<ReadinessCheck> checks);
  HttpAnswer Metrics() const;
  HttpAnswer Ready() const;

  const std::shared_ptr<prometheus::Registry> registry_;
  const std::vector<ReadinessCheck> checks_;
  const ProcessMetrics process_;
  int port_ = 0;
  HttpAnswers answers_;                  // uses the above
  std::unique_ptr<AcceptLoop> accepts_;  // last: it uses the answers
};

}  // namespace remesh::service
