// SPDX-License-Identifier: Apache-2.0
#include "service/rpc/unary_call.h"

#include <chrono>

#include "service/rpc/error_info.h"

namespace remesh::service {

bool HasGone(const grpc::CallbackServerContext& context) {
  return context.deadline() <= std::chrono::system_clock::now() || context.IsCancelled();
}

void Completion::Finish(const absl::Status& status) {
  std::exchange(reactor_, nullptr)->Finish(StatusToGrpc(status));
}

}  // namespace remesh::service
