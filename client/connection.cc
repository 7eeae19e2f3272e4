// SPDX-License-Identifier: Apache-2.0
#include "client/connection.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "service/error_info.h"

namespace remesh {
namespace {

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

}  // namespace

std::shared_ptr<grpc::Channel> ConnectServer(const Endpoint& server) {
  return grpc::CreateCustomChannel(server.address, grpc::InsecureChannelCredentials(), Arguments());
}

std::shared_ptr<grpc::Channel> ConnectSocket(const Endpoint& worker) {
  return grpc::CreateCustomChannel("unix:" + worker.address, grpc::InsecureChannelCredentials(),
                                   Arguments());
}

absl::Status FromGrpcStatus(const grpc::Status& status, const Endpoint& endpoint) {
  if (status.ok() || !status.error_details().empty()) return StatusFromGrpc(status);
  // No handler of remesh answered: say at least who should have.
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  const char* reason = code == absl::StatusCode::kUnavailable ? "UNREACHABLE" : "CALL_FAILED";
  return MakeError(code, absl::StrCat(endpoint.address, ": ", status.error_message()),
                   {.reason = reason, .metadata = {{"address", endpoint.address}}});
}

void SetDeadline(grpc::ClientContext& context, double seconds) {
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3)));
}

}  // namespace remesh
