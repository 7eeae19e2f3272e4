// SPDX-License-Identifier: Apache-2.0
#include "worker/local/unix_socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/server_posix.h"
#include "worker/keeper/unix_listener.h"

namespace remesh::worker {
namespace {

constexpr size_t kCallersMemory = size_t{512} << 20;  // calls of this socket are small

// Limits that close the connection of a caller that does not read or that is idle.
void AddArguments(std::chrono::milliseconds idle_max, grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  // Who dies closes the socket; this is for a trainer that does not read, and may only be stopped.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 30'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, static_cast<int>(idle_max.count()));
}

// HTTP/2's preface and the head of the SETTINGS frame, which every client sends at once. gRPC's own
// limit on the wait for them does not apply to connections that the application passes to it.
constexpr size_t kOpeningBytes = 24 + 9;

// gRPC names the peer of a connection's calls "fd:N".
std::vector<service::FrontDoor::Taker> Takers(grpc::Server* server, SocketGate& gate) {
  std::vector<service::FrontDoor::Taker> takers;
  for (int i = 0; i < service::FrontDoor::kTakers; ++i) {
    takers.emplace_back([server, &gate](int connection) {
      gate.Admit(connection);
      grpc::AddInsecureChannelFromFd(server, connection);
    });
  }
  return takers;
}

void SetServing(grpc::Server& server, bool serving) {
  for (const char* service : {"", "remesh.v1.LocalService"})
    server.GetHealthCheckService()->SetServingStatus(service, serving);
}

}  // namespace

UnixServer::UnixServer(std::string path, std::unique_ptr<grpc::Server> server,
                       std::unique_ptr<service::FrontDoor> door)
    : path_(std::move(path)), server_(std::move(server)), door_(std::move(door)) {}

absl::StatusOr<std::unique_ptr<UnixServer>> UnixServer::Start(grpc::ServerBuilder& builder,
                                                              const std::string& path,
                                                              SocketGate& gate, Options options) {
  std::vector<Fd> listeners;
  ASSIGN_OR_RETURN(listeners.emplace_back(), ListenAt(path, SOCK_STREAM, 0660, "socket_path"));
  grpc::EnableDefaultHealthCheckService(true);
  AddArguments(options.idle_max, builder);
  auto door = std::make_unique<service::FrontDoor>(builder, kCallersMemory);
  std::unique_ptr<grpc::Server> grpc_server = builder.BuildAndStart();
  if (grpc_server == nullptr) return absl::InternalError("gRPC does not start");
  SetServing(*grpc_server, true);
  door->Open(std::move(listeners), Takers(grpc_server.get(), gate),
             {.opening_bytes = kOpeningBytes,
              .unfinished = std::move(options.unfinished_calls),
              .messages = std::move(options.message_bytes)});
  return std::unique_ptr<UnixServer>(new UnixServer(path, std::move(grpc_server), std::move(door)));
}

UnixServer::~UnixServer() { Shutdown(std::chrono::seconds(0)); }

void UnixServer::Shutdown(std::chrono::nanoseconds grace) {
  if (door_ == nullptr) return;
  SetServing(*server_, false);
  unlink(path_.c_str());  // while this still listens: later the path may be another worker's
  door_->Shutdown(*server_, grace);
  door_ = nullptr;
}

}  // namespace remesh::worker
