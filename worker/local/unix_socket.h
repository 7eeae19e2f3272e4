// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "service/accept_loop.h"
#include "worker/local/socket_gate.h"

namespace remesh::worker {

// A gRPC server on a Unix socket, mode 0660, with the health service.
class UnixServer {
 public:
  struct Options {
    std::chrono::milliseconds idle_max = std::chrono::minutes(5);  // of a connection without a call
    std::shared_ptr<service::UnfinishedCalls> unfinished_calls;    // null: nobody counts them
  };

  // Starts `builder`'s server on `path`. A socket that nobody listens on is replaced;
  // INVALID_ARGUMENT (field "socket_path") for a path that is too long, that somebody listens on,
  // or that is something else. `gate`, which must outlive the server, is told who connects.
  static absl::StatusOr<std::unique_ptr<UnixServer>> Start(grpc::ServerBuilder& builder,
                                                           const std::string& path,
                                                           SocketGate& gate, Options options);
  // Removes the socket; ends calls.
  ~UnixServer();

  // NOT_SERVING, then no new connection, then the end of calls that take longer than `grace`.
  // Idempotent.
  void Shutdown(std::chrono::nanoseconds grace);

 private:
  UnixServer(std::string path, std::unique_ptr<grpc::Server> server);

  const std::string path_;
  const std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<service::AcceptLoop> accepts_;
};

}  // namespace remesh::worker
