// SPDX-License-Identifier: Apache-2.0
#include "client/connection.h"

#include <chrono>
#include <utility>

#include "absl/strings/match.h"
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

// gRPC's words for it name its own parts and say the address three times.
std::string WhyUnreachable(const std::string& words) {
  static constexpr std::pair<const char*, const char*> kCauses[] = {
      {"Connection refused", ": connection refused; does it run there?"},
      {"No such file", ": no such socket; does it run there?"},
      {"Permission denied", ": permission denied"},
      {"DNS resolution failed", ": no such host"},
      {"Network is unreachable", ": no route"},
      {"No route to host", ": no route"},
      {"Socket closed", ": the connection was closed"},
      {"Connection reset", ": the connection was closed"},
      {"keepalive", ": it fell silent"},
      {"timed out", ": no answer"},
      {"Timeout", ": no answer"},
  };
  for (const auto& [grpc, ours] : kCauses) {
    if (absl::StrContains(words, grpc)) return ours;
  }
  return "";
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
  const ErrorInfo who{.reason = "CALL_FAILED", .metadata = {{"address", endpoint.address}}};
  if (code == absl::StatusCode::kUnavailable) {
    return MakeError(
        code,
        absl::StrCat("cannot reach ", endpoint.address, WhyUnreachable(status.error_message())),
        {.reason = "UNREACHABLE", .metadata = who.metadata});
  }
  if (code == absl::StatusCode::kDeadlineExceeded) {
    return MakeError(code,
                     absl::StrCat(endpoint.address, " did not answer within ",
                                  endpoint.timeout_seconds, " s (--timeout)"),
                     who);
  }
  return MakeError(code, absl::StrCat(endpoint.address, ": ", status.error_message()), who);
}

void SetDeadline(grpc::ClientContext& context, double seconds) {
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3)));
}

}  // namespace remesh
