// SPDX-License-Identifier: Apache-2.0
#include "server/testing/every_method.h"

#include <grpcpp/generic/generic_stub.h>

#include <chrono>

#include "service/rpc/error_info.h"

namespace remesh::server {

absl::Status CallWith(const std::string& message, const std::shared_ptr<grpc::Channel>& channel,
                      const std::string& method, const std::string& request_id) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  if (!request_id.empty()) context.AddMetadata("x-request-id", request_id);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  grpc::CompletionQueue queue;
  auto call = stub.PrepareCall(&context, method, &queue);
  void* tag = nullptr;
  bool ok = false;
  const auto next = [&] { return queue.Next(&tag, &ok) && ok; };
  call->StartCall(nullptr);
  if (next()) {
    const grpc::Slice bytes(message);
    call->WriteLast(grpc::ByteBuffer(&bytes, 1), {}, nullptr);
    next();
  }
  grpc::ByteBuffer answer;
  do {
    call->Read(&answer, nullptr);
  } while (next());
  grpc::Status status;
  call->Finish(&status, nullptr);
  next();
  return service::StatusFromGrpc(status);
}

absl::Status CallEmpty(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                       const std::string& request_id) {
  return CallWith("", channel, method, request_id);
}

}  // namespace remesh::server
