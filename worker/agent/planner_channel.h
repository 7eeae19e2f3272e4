// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "service/tls/certificate_keeper.h"

namespace remesh::worker {

// When a connection without an answer counts as broken. A link that drops everything closes
// nothing, and what is written into it fails much later, if ever.
struct Keepalive {
  std::chrono::nanoseconds time = std::chrono::seconds(5);     // of silence before a probe
  std::chrono::nanoseconds timeout = std::chrono::seconds(5);  // that the probe may take
};

// The planner's address, HOST:PORT, and how to call it.
struct PlannerAddress {
  std::string address;
  Keepalive keepalive;
  std::shared_ptr<const service::CertificateKeeper> certificates;  // null: no TLS
  std::string tls_server_name;  // that its certificate must name; empty: the host of `address`
};

// Channels to the planner, which dial when they are used, never through a proxy. GetHostProgram is
// tried again where the planner is UNAVAILABLE before it has answered anything, as where it ends
// the connection because of its age. Thread-safe.
class PlannerChannel {
 public:
  explicit PlannerChannel(PlannerAddress planner) : planner_(std::move(planner)) {}

  // Returns the same channel until the certificates change. Calls on an older channel go on there.
  std::shared_ptr<grpc::Channel> Get();

 private:
  std::shared_ptr<grpc::Channel> Make(const service::Certificates* certificates) const;

  const PlannerAddress planner_;
  absl::Mutex mutex_;
  std::shared_ptr<const service::Certificates> certificates_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remesh::worker
