// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/server_interceptor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace remesh::service {

// Counts the bytes that each connection has sent in calls. Whatever else it sends is noise, which
// ConnectionTable limits: gRPC reads all HTTP/2 frames, but tells only of calls. Thread-safe.
class MessageBytes {
 public:
  // Bytes by peer (see ServerContext::peer()).
  using ByPeer = absl::flat_hash_map<std::string, uint64_t>;
  // What a call takes besides its messages and its metadata: frames, pseudo headers.
  static constexpr uint64_t kPerCall = 512;

  void Add(const std::string& peer, uint64_t bytes);
  // What was added since the last call.
  ByPeer Take();

  // Counts the calls of a server. Returns one of the server's interceptors, which keeps `bytes`
  // alive.
  static std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> Count(
      std::shared_ptr<MessageBytes> bytes);

 private:
  absl::Mutex mutex_;
  ByPeer by_peer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remesh::service
