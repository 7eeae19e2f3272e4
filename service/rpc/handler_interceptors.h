// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/message_lite.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/interceptor.h>
#include <grpcpp/support/server_interceptor.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace remesh::service {

// The interceptors of one call, run by the call's handler.
//
// Once gRPC 1.51 has run the interceptors of a message, it sends an empty batch through the
// completion queue before the handler hears of the message. That costs as much as the message: a
// second wake-up and, where gRPC has its assertions, a second walk over the tags of all streams. A
// handler that runs the interceptors itself saves it. They see the same as before, but must proceed
// at once, and can change only the status. The functions may be called wherever gRPC would call
// interceptors; the last owner must go before the call's context does.
class HandlerInterceptors {
 public:
  using Creators =
      std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>;

  // Leaves the interceptors of these methods ("/package.Service/Method") to their handlers, each of
  // which must Take() them. REQUIRES: the methods are bidirectional streams of the callback API,
  // whose handlers begin on the thread that has made their interceptors.
  static Creators LeaveToHandlers(absl::flat_hash_set<std::string> methods, Creators creators);

  // Those of the call that begins on this thread, which hear of that now; none if gRPC runs them.
  static HandlerInterceptors Take(const grpc::ServerContextBase& context);

  HandlerInterceptors() = default;

  // A message was read; null: there is none.
  void OnRead(google::protobuf::MessageLite* message) const;
  // A message is to be written.
  void OnWrite(const google::protobuf::MessageLite& message) const;
  // The call ends. Returns the status to end it with.
  grpc::Status OnFinish(grpc::Status status) const;

 private:
  std::vector<std::unique_ptr<grpc::experimental::Interceptor>> interceptors_;
};

}  // namespace remesh::service
