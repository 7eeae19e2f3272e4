// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_interceptor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/byte_shares.h"
#include "service/front/message_bytes.h"

namespace remesh::service {

// Limits the memory of the requests whose calls have not ended, of all callers and of each. A call
// that waits for its turn holds its request, so many large calls would fill the memory. Messages of
// streams do not count: their receivers take one at a time. Thread-safe.
class HeldRequests {
 public:
  using Limits = ByteShares::Limits;
  explicit HeldRequests(Limits limits) : shares_(limits) {}

  // Notes that a call of the caller holds so much, until Give(). RESOURCE_EXHAUSTED
  // (REQUEST_MEMORY), and nothing is noted, when that is too much now.
  absl::Status Take(const std::string& caller, uint64_t bytes);
  void Give(const std::string& caller, uint64_t bytes) { shares_.Give(caller, bytes); }
  uint64_t bytes() const { return shares_.bytes(); }
  const Limits& limits() const { return shares_.limits(); }

  // The caller whose call this is.
  using CallerOf = std::function<std::string(const grpc::ServerContextBase&)>;
  // Applies the limits to the calls of a server whose requests are parsed by ParseRequest(). A call
  // whose request is refused, or cannot be parsed, ends with that status instead of gRPC's
  // UNIMPLEMENTED, and its bytes still count in `messages` (may be null). So does a stream with
  // such a message, which would end with OK, and the log says so. Returns one of the server's
  // interceptors, which keeps both alive.
  static std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> Limit(
      std::shared_ptr<HeldRequests> held, CallerOf caller_of,
      std::shared_ptr<MessageBytes> messages);

 private:
  ByteShares shares_;
};

}  // namespace remesh::service
