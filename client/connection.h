// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "service/tls/certificates.h"

namespace remesh::client {

inline constexpr char kDefaultServer[] = "127.0.0.1:7070";
inline constexpr char kDefaultSocket[] = "/run/remesh/worker.sock";  // the same as remesh-worker's

// The address to call, and the time limit of calls.
struct Endpoint {
  std::string address = kDefaultServer;    // HOST:PORT, or the path of a worker's Unix socket
  double timeout_seconds = 30;             // of one call that does not stream
  const char* timeout_flag = "--timeout";  // the flag that sets it
  service::CertificateFiles tls = {};      // for a server
  std::string tls_server_name = "";        // name in its certificate; empty: the address' host
  std::shared_ptr<const service::Certificates> certificates = nullptr;  // null: no TLS
};

// HOST:PORT, or one of gRPC's own forms (unix:PATH, dns:, ipv4: ...); not a URL.
bool IsServerAddress(const std::string& text);

// The flags that set the files of `tls`.
service::CertificateFields TlsFlags();

// Reads the endpoint's certificates, if it has any. Errors: see ReadCertificates().
absl::Status LoadCertificates(Endpoint& server);

// A channel that never goes through a proxy; messages may have any size.
std::shared_ptr<grpc::Channel> ConnectServer(const Endpoint& server);
std::shared_ptr<grpc::Channel> ConnectSocket(const Endpoint& worker);

// The error of a call, with the reason and metadata of its google.rpc.ErrorInfo. Names a server
// that cannot be reached.
absl::Status FromGrpcStatus(const grpc::Status& status, const Endpoint& endpoint);

void SetDeadline(grpc::ClientContext& context, double seconds);

// Calls a unary method: Call(server, *stub, &v1::StateService::Stub::GetState, request).
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Call(const Endpoint& endpoint, Stub& stub,
                              grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                           Response*),
                              const Request& request) {
  grpc::ClientContext context;
  SetDeadline(context, endpoint.timeout_seconds);
  Response response;
  const grpc::Status status = (stub.*method)(&context, request, &response);
  if (!status.ok()) return FromGrpcStatus(status, endpoint);
  return response;
}

// Calls a List method until its last page; the answer has the items of all pages.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> CallAllPages(const Endpoint& endpoint, Stub& stub,
                                      grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                                   const Request&, Response*),
                                      Request request) {
  Response all;
  do {
    absl::StatusOr<Response> page = Call(endpoint, stub, method, request);
    if (!page.ok()) return page.status();
    request.set_page_token(page->next_page_token());
    page->clear_next_page_token();
    all.MergeFrom(*page);
  } while (!request.page_token().empty());
  return all;
}

}  // namespace remesh::client
