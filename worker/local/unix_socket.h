// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "service/front/front_door.h"
#include "worker/local/socket_gate.h"

namespace remesh::worker {

// A gRPC server on a Unix socket, mode 0660, with the health service.
class UnixServer {
 public:
  struct Options {
    std::chrono::milliseconds idle_max = std::chrono::minutes(5);  // of a connection without a call
    std::shared_ptr<service::UnfinishedCalls> unfinished_calls;    // null: not counted
    std::shared_ptr<service::MessageBytes> message_bytes;          // null: not counted
  };

  // Starts `builder`'s server on `path`. Replaces a socket at `path` on which no process listens.
  // INVALID_ARGUMENT (field "socket_path") if the path is too long, if a process listens there, or
  // if the file there is not a socket. The server reports each new connection to `gate`, which must
  // outlive it.
  static absl::StatusOr<std::unique_ptr<UnixServer>> Start(grpc::ServerBuilder& builder,
                                                           const std::string& path,
                                                           SocketGate& gate, Options options);
  // Removes the socket and ends the calls.
  ~UnixServer();

  // Reports NOT_SERVING, then accepts no new connection, then ends calls that take longer than
  // `grace`. Idempotent.
  void Shutdown(std::chrono::nanoseconds grace);

 private:
  UnixServer(std::string path, std::unique_ptr<grpc::Server> server,
             std::unique_ptr<service::FrontDoor> door);

  const std::string path_;
  const std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<service::FrontDoor> door_;  // last: it uses the server; null: shut down
};

}  // namespace remesh::worker
