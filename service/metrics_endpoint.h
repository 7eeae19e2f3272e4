// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "prometheus/registry.h"
#include "service/process_metrics.h"
#include "service/readiness.h"

struct mg_connection;
struct mg_context;

namespace remesh::service {

// Serves, over HTTP:
//   /metrics  a registry, to which it adds remesh_build_info and what Prometheus' own clients tell
//             of a process (see ProcessMetrics)
//   /livez    200 while the process answers
//   /readyz   200 when every check is OK, else 503; the body says why
// Readers and senders that are slow hold up nobody else, up to kThreads of them. Serves until
// destroyed; thread-safe.
class MetricsEndpoint {
 public:
  static constexpr int kThreads = 64;

  // `address` is HOST:PORT; port 0 takes a free one. INVALID_ARGUMENT or UNAVAILABLE with the
  // address when it cannot listen.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(
      const std::string& address, std::shared_ptr<prometheus::Registry> registry,
      std::vector<ReadinessCheck> checks);
  ~MetricsEndpoint();

  int port() const;

 private:
  struct Answer {
    int code = 200;
    std::string body;
  };

  MetricsEndpoint(std::shared_ptr<prometheus::Registry> registry,
                  std::vector<ReadinessCheck> checks);
  static int OnRequest(mg_connection* connection);
  Answer AnswerTo(const std::string& path) const;
  std::string Metrics() const;

  const std::shared_ptr<prometheus::Registry> registry_;
  const std::vector<ReadinessCheck> checks_;
  const ProcessMetrics process_;
  mg_context* context_ = nullptr;
};

}  // namespace remesh::service
