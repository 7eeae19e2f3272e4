// SPDX-License-Identifier: Apache-2.0
#include "service/rpc/unreachable.h"

#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"

namespace remesh::service {
namespace {

bool HasAny(std::string_view text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    if (text.find(part) != text.npos) return true;
  }
  return false;
}

bool IsClosed(std::string_view words) {
  return HasAny(words, {"Socket closed", "Connection reset", "Broken pipe"});
}

std::string AllOf(const CertificateFields& files) {
  return absl::StrCat(files.ca, ", ", files.certificate, " and ", files.key);
}

// Causes with TLS. With TLS 1.3 a server refuses a certificate after the handshake, so gRPC sees
// only that the connection closes.
std::string WhyByTls(std::string_view words, const Dialled& dialled) {
  // OpenSSL's spelling, then that of BoringSSL, which gRPC's Python package uses.
  if (HasAny(words, {"certificate verify failed", "CERTIFICATE_VERIFY_FAILED"})) {
    return absl::StrCat(": its certificate is not of a CA in ", dialled.files.ca,
                        ", or has expired");
  }
  if (HasAny(words, {"wrong version number", "WRONG_VERSION_NUMBER"})) {
    return absl::StrCat(": it does not speak TLS; leave out ", AllOf(dialled.files),
                        ", or give the server its tls_certificate_file, tls_key_file and "
                        "tls_client_ca_file");
  }
  if (HasAny(words, {"not in peer certificate", "Hostname Verification"})) {
    return absl::StrCat(": its certificate has another name; see ", dialled.server_name);
  }
  if (!IsClosed(words)) return "";
  return absl::StrCat(": the connection was closed; it may not know the CA of the certificate in ",
                      dialled.files.certificate);
}

// A server with TLS closes connections without TLS at once, and so does a server that takes no more
// connections.
std::string WhyClosed(std::string_view words, const Dialled& dialled) {
  if (!HasAny(words, {"failed to connect"})) return ": the connection was closed";
  return absl::StrCat(": it closed the connection at once; if it speaks TLS, set ",
                      AllOf(dialled.files),
                      "; else it stops, or takes no more connections from here");
}

}  // namespace

std::string WhyUnreachable(std::string_view words, const Dialled& dialled) {
  if (dialled.tls) {
    const std::string why = WhyByTls(words, dialled);
    if (!why.empty()) return why;
  }
  if (IsClosed(words)) return WhyClosed(words, dialled);
  static constexpr std::pair<const char*, const char*> kCauses[] = {
      {"Connection refused", ": connection refused; is the server running there?"},
      {"No such file", ": no such socket; is the worker running there?"},
      {"Permission denied", ": permission denied"},
      {"DNS resolution failed", ": no such host"},
      {"Network is unreachable", ": no route"},
      {"No route to host", ": no route"},
      {"http1", ": it speaks HTTP, not gRPC; is that the port of metrics?"},
      {"keepalive", ": it stopped answering"},
      {"timed out", ": no answer"},
      {"Timeout", ": no answer"},
  };
  for (const auto& [grpc, ours] : kCauses) {
    if (HasAny(words, {grpc})) return ours;
  }
  return "";
}

}  // namespace remesh::service
