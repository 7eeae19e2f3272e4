// SPDX-License-Identifier: Apache-2.0
#include "client/connection.h"

#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text/host_port.h"
#include "client/nearest_name.h"
#include "service/rpc/error_info.h"
#include "service/rpc/unreachable.h"
#include "service/tls/credentials.h"

namespace remesh::client {
namespace {

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Only a wait connects again, and a user sits before it: gRPC's own intervals grow from 1 s to
  // 2 min, and calls fail between the attempts.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  return arguments;
}

// A worker's socket never speaks TLS.
bool IsSocket(const Endpoint& endpoint) { return absl::StrContains(endpoint.address, "/"); }

std::string WhyUnreachable(const std::string& words, const Endpoint& endpoint) {
  if (IsSocket(endpoint) && absl::StrContains(words, "closed"))
    return ": the connection was closed";
  return service::WhyUnreachable(words, {.tls = endpoint.certificates != nullptr,
                                         .files = TlsFlags(),
                                         .server_name = "--tls-server-name"});
}

// Why gRPC itself, and no handler of remesh, answered a call: without a word.
std::string WhyUnserved(const Endpoint& endpoint) {
  if (absl::StartsWith(endpoint.address, "unix:"))
    return "it serves no such call; is that a worker's socket, which --socket takes?";
  return absl::StrCat("it serves no such call; is that a ",
                      IsSocket(endpoint) ? "worker" : "server", " of another version?");
}

bool IsHostAndPort(const std::string& text) {
  const std::optional<HostPort> split = SplitHostPort(text);
  return split && split->port >= 1 && split->host.find('/') == std::string::npos;
}

bool IsTarget(const std::string& text) {
  for (const char* scheme :
       {"unix:", "unix-abstract:", "dns:", "ipv4:", "ipv6:", "vsock:", "xds:"}) {
    if (absl::StartsWith(text, scheme)) return true;
  }
  return false;
}

}  // namespace

bool IsServerAddress(const std::string& text) { return IsHostAndPort(text) || IsTarget(text); }

service::CertificateFields TlsFlags() {
  return {.ca = "--tls-ca", .certificate = "--tls-cert", .key = "--tls-key"};
}

absl::Status LoadCertificates(Endpoint& server) {
  if (server.tls.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(service::Certificates read,
                   service::ReadCertificates(server.tls, TlsFlags(), absl::Now()));
  server.certificates = std::make_shared<const service::Certificates>(std::move(read));
  return absl::OkStatus();
}

std::shared_ptr<grpc::Channel> ConnectServer(const Endpoint& server) {
  grpc::ChannelArguments arguments = Arguments();
  if (!server.tls_server_name.empty()) arguments.SetSslTargetNameOverride(server.tls_server_name);
  return grpc::CreateCustomChannel(
      server.address, service::MakeChannelCredentials(server.certificates.get()), arguments);
}

std::shared_ptr<grpc::Channel> ConnectSocket(const Endpoint& worker) {
  return grpc::CreateCustomChannel("unix:" + worker.address, grpc::InsecureChannelCredentials(),
                                   Arguments());
}

absl::Status FromGrpcStatus(const grpc::Status& status, const Endpoint& endpoint) {
  if (status.ok() || !status.error_details().empty()) {
    const absl::Status answer = service::StatusFromGrpc(status);
    return IsSocket(endpoint) ? answer : WithNearestName(answer, endpoint);
  }
  // The error is not from a handler of remesh, so name the address that should have answered.
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  const ErrorInfo who{.reason = "CALL_FAILED", .metadata = {{"address", endpoint.address}}};
  if (code == absl::StatusCode::kUnavailable) {
    const char* other = IsSocket(endpoint)                   ? "; --socket PATH names a worker's"
                        : endpoint.address == kDefaultServer ? " --server HOST:PORT names another"
                                                             : "";
    return MakeError(code,
                     absl::StrCat("cannot reach ", endpoint.address,
                                  WhyUnreachable(status.error_message(), endpoint), other),
                     {.reason = "UNREACHABLE", .metadata = who.metadata});
  }
  if (code == absl::StatusCode::kDeadlineExceeded) {
    return MakeError(code,
                     absl::StrCat(endpoint.address, " did not answer within ",
                                  endpoint.timeout_seconds, " s (", endpoint.timeout_flag, ")"),
                     who);
  }
  const bool is_unserved =
      code == absl::StatusCode::kUnimplemented && status.error_message().empty();
  const std::string why = is_unserved ? WhyUnserved(endpoint) : status.error_message();
  return MakeError(code, absl::StrCat(endpoint.address, ": ", why), who);
}

void SetDeadline(grpc::ClientContext& context, double seconds) {
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3)));
}

}  // namespace remesh::client
