// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/controller/executions/communicators.h"
#include "server/controller/executions/execution_spec.h"
#include "server/controller/executions/peer_table.h"
#include "server/controller/membership/commands.h"
#include "server/controller/membership/worker_registry.h"
#include "server/controller/values/controller_options.h"
#include "server/controller/values/event.h"
#include "server/controller/values/outbox.h"

namespace remesh::server {

// How the hosts of an attempt find each other: by which addresses and tokens, and by which
// communicators of NCCL. Part of Executions. Not thread-safe.
class AttemptConnections {
 public:
  AttemptConnections(const ControllerOptions& options, const RandomBits& random,
                     const WorkerRegistry& workers, const Commands& commands)
      : options_(options), random_(random), workers_(workers), commands_(commands) {}

  // For an attempt that starts now. Errors of CheckEncrypts(): encryption may have been turned on
  // while the move was queued. REQUIRES: all hosts are in `workers`.
  absl::StatusOr<PeerTable> Connect(const std::string& execution, const ExecutionSpec& spec,
                                    Moment now, Outbox& out);
  // See Communicators.
  void OnCommitted(const std::string& execution, const std::string& host,
                   const v1::KeptCommunicators& kept, Moment now) {
    communicators_.OnCommitted(execution, host, kept, now.steady);
  }
  void OnHostAway(const std::string& host, Outbox& out);

 private:
  void SendDrops(const std::vector<Communicators::Drop>& drops, Outbox& out) const;

  const ControllerOptions& options_;
  const RandomBits& random_;
  const WorkerRegistry& workers_;
  const Commands& commands_;
  Communicators communicators_;
};

}  // namespace remesh::server
