// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/status.h>

#include <cstdint>
#include <optional>

namespace remesh::service {

// A message that was not parsed, or could not be.
struct RefusedMessage {
  uint64_t bytes = 0;  // in which it came
  grpc::Status why;
};

// What ParseRequest() refused on this thread without a gate, unless it has parsed another message
// since; taken once. gRPC tells a stream only that there is no next message, as at its end. An
// interceptor can learn the reason here: gRPC calls it for a message that was received right after
// that message was parsed, on the same thread.
std::optional<RefusedMessage> TakeRefusedOfThread();

}  // namespace remesh::service
