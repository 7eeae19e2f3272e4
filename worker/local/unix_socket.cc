// SPDX-License-Identifier: Apache-2.0
#include "worker/local/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/server_posix.h"

namespace remesh::worker {
namespace {

// REQUIRES: the path fits.
sockaddr_un AddressAt(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

bool SomebodyListens(const std::string& path) {
  const sockaddr_un address = AddressAt(path);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return connected;
}

absl::Status MakeRoom(const std::string& path) {
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path)) {
    return InvalidField(
        "socket_path", path,
        absl::StrCat("must be of 1 to ", sizeof(sockaddr_un::sun_path) - 1, " bytes"));
  }
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::absolute(path).parent_path(), ignored);
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISSOCK(info.st_mode))
    return InvalidField("socket_path", path, "must not be something other than a socket");
  if (SomebodyListens(path))
    return InvalidField("socket_path", path, "must not be in use by another process");
  unlink(path.c_str());
  return absl::OkStatus();
}

absl::StatusOr<Fd> Listen(const std::string& path) {
  RETURN_IF_ERROR(MakeRoom(path));
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = AddressAt(path);
  // The socket must never be there with more rights than it is to have.
  const mode_t before = umask(0117);
  const bool bound =
      fd && bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  umask(before);
  if (bound && chmod(path.c_str(), 0660) == 0 && listen(fd.get(), SOMAXCONN) == 0) return fd;
  return InvalidField(
      "socket_path", path,
      absl::StrCat("must be a place where a socket can be made: ", std::strerror(errno)));
}

// What keeps a caller that does not read, or does nothing, from staying for ever.
void AddArguments(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 300'000);
}

void SetServing(grpc::Server& server, bool serving) {
  for (const char* service : {"", "remesh.v1.LocalService"})
    server.GetHealthCheckService()->SetServingStatus(service, serving);
}

}  // namespace

UnixServer::UnixServer(std::string path, std::unique_ptr<grpc::Server> server)
    : path_(std::move(path)), server_(std::move(server)) {}

absl::StatusOr<std::unique_ptr<UnixServer>> UnixServer::Start(grpc::ServerBuilder& builder,
                                                              const std::string& path,
                                                              SocketGate& gate) {
  std::vector<Fd> listeners;
  ASSIGN_OR_RETURN(listeners.emplace_back(), Listen(path));
  grpc::EnableDefaultHealthCheckService(true);
  AddArguments(builder);
  std::unique_ptr<grpc::Server> grpc_server = builder.BuildAndStart();
  if (grpc_server == nullptr) return absl::InternalError("gRPC does not start");
  std::unique_ptr<UnixServer> server(new UnixServer(path, std::move(grpc_server)));
  SetServing(*server->server_, true);
  // The peer() of its calls is "fd:N".
  server->accepts_ =
      std::make_unique<service::AcceptLoop>(std::move(listeners), service::AcceptLoop::Options(),
                                            [to = server->server_.get(), &gate](int connection) {
                                              gate.Admit(connection);
                                              grpc::AddInsecureChannelFromFd(to, connection);
                                            });
  return server;
}

UnixServer::~UnixServer() { Shutdown(std::chrono::seconds(0)); }

void UnixServer::Shutdown(std::chrono::nanoseconds grace) {
  if (accepts_ == nullptr) return;
  SetServing(*server_, false);
  unlink(path_.c_str());  // while we listen: after that it may be another worker's
  accepts_ = nullptr;
  server_->Shutdown(std::chrono::system_clock::now() +
                    std::chrono::duration_cast<std::chrono::system_clock::duration>(grace));
  server_->Wait();
}

}  // namespace remesh::worker
