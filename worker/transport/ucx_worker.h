// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ucp/api/ucp.h>

#include <chrono>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/transport/socket_address.h"
#include "worker/transport/ucx_transport.h"

namespace remesh::worker {

// A UCP context with one worker for one thread, and the descriptors on which that thread sleeps.
class UcxWorker {
 public:
  static absl::StatusOr<std::unique_ptr<UcxWorker>> Create(const UcxOptions& options,
                                                           const SocketAddress& bind);
  ~UcxWorker();

  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  ucp_worker_h get() const { return worker_; }

  // Sleeps until the worker has events, Wake() is called, or `timeout` has passed.
  void Wait(std::chrono::milliseconds timeout);
  // Thread-safe.
  void Wake();

 private:
  UcxWorker() = default;

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;  // the worker's
  int wake_fd_ = -1;
};

// UNAVAILABLE: "{what}: {UCX's words}".
absl::Status UcxError(std::string_view what, ucs_status_t status);

}  // namespace remesh::worker
