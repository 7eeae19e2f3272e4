// SPDX-License-Identifier: Apache-2.0
#include "worker/local/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "grpcpp/security/server_credentials.h"

namespace remesh {
namespace {

bool SomebodyListens(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool connected = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
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

}  // namespace

absl::StatusOr<std::unique_ptr<grpc::Server>> StartOnUnixSocket(grpc::ServerBuilder& builder,
                                                                const std::string& path) {
  RETURN_IF_ERROR(MakeRoom(path));
  builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
  // The socket must never be there with more rights than it is to have.
  const mode_t before = umask(0117);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  umask(before);
  if (server == nullptr || chmod(path.c_str(), 0660) != 0) {
    return InvalidField("socket_path", path, "must be a place where a socket can be made");
  }
  return server;
}

}  // namespace remesh
