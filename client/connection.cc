// SPDX-License-Identifier: Apache-2.0
#include "client/connection.h"

#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "service/credentials.h"
#include "service/error_info.h"

namespace remesh::client {
namespace {

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

constexpr char kClosed[] = ": the connection was closed; does it want TLS (--tls-ca)?";
constexpr char kTlsClosed[] =
    ": the connection was closed; it may not know the CA of the certificate in --tls-cert";
// With TLS. A server that refuses a certificate says so when TLS 1.3 has begun, so that gRPC sees
// no more than the end.
constexpr std::pair<const char*, const char*> kTlsCauses[] = {
    {"certificate verify failed", ": its certificate is not of a CA in --tls-ca, or has expired"},
    {"CERTIFICATE_VERIFY_FAILED", ": its certificate is not of a CA in --tls-ca, or has expired"},
    {"wrong version number", ": it does not speak TLS"},
    {"WRONG_VERSION_NUMBER", ": it does not speak TLS"},
    {"not in peer certificate", ": its certificate has another name; see --tls-server-name"},
    {"Hostname Verification", ": its certificate has another name; see --tls-server-name"},
    {"Socket closed", kTlsClosed},
    {"Connection reset", kTlsClosed},
    {"Broken pipe", kTlsClosed},
};

// gRPC's words for it name its own parts and say the address three times.
std::string WhyUnreachable(const std::string& words, bool tls) {
  if (tls) {
    for (const auto& [grpc, ours] : kTlsCauses) {
      if (absl::StrContains(words, grpc)) return ours;
    }
  }
  static constexpr std::pair<const char*, const char*> kCauses[] = {
      {"Connection refused", ": connection refused; does it run there?"},
      {"No such file", ": no such socket; does it run there?"},
      {"Permission denied", ": permission denied"},
      {"DNS resolution failed", ": no such host"},
      {"Network is unreachable", ": no route"},
      {"No route to host", ": no route"},
      {"Socket closed", kClosed},
      {"Connection reset", kClosed},
      {"Broken pipe", kClosed},
      {"http1", ": it speaks HTTP, not gRPC; is that the port of metrics?"},
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
  if (status.ok() || !status.error_details().empty()) return service::StatusFromGrpc(status);
  // No handler of remesh answered: say at least who should have.
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  const ErrorInfo who{.reason = "CALL_FAILED", .metadata = {{"address", endpoint.address}}};
  if (code == absl::StatusCode::kUnavailable) {
    return MakeError(
        code,
        absl::StrCat("cannot reach ", endpoint.address,
                     WhyUnreachable(status.error_message(), endpoint.certificates != nullptr)),
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

}  // namespace remesh::client
