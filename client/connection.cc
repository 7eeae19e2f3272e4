// SPDX-License-Identifier: Apache-2.0
#include "client/connection.h"

#include <chrono>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "google/rpc/error_details.pb.h"

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
  google::rpc::Status details;
  if (!status.error_details().empty() && details.ParseFromString(status.error_details()) &&
      details.details_size() > 0) {
    return FromRpcStatus(details);
  }
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  const char* reason = code == absl::StatusCode::kUnavailable ? "UNREACHABLE" : "CALL_FAILED";
  return MakeError(code, absl::StrCat(endpoint.address, ": ", status.error_message()),
                   {.reason = reason, .metadata = {{"address", endpoint.address}}});
}

absl::Status FromRpcStatus(const google::rpc::Status& status) {
  if (status.code() == 0) return absl::OkStatus();
  ErrorInfo info;
  for (const google::protobuf::Any& detail : status.details()) {
    google::rpc::ErrorInfo found;
    if (!detail.Is<google::rpc::ErrorInfo>() || !detail.UnpackTo(&found)) continue;
    info.reason = found.reason();
    for (const auto& [key, value] : found.metadata()) info.metadata[key] = value;
  }
  const auto code = static_cast<absl::StatusCode>(status.code());
  if (info.reason.empty()) return absl::Status(code, status.message());
  return MakeError(code, status.message(), info);
}

void SetDeadline(grpc::ClientContext& context, double seconds) {
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3)));
}

}  // namespace remesh
