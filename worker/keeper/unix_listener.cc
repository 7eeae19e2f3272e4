// SPDX-License-Identifier: Apache-2.0
#include "worker/keeper/unix_listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/own_file.h"
#include "base/status_macros.h"

namespace remesh::worker {
namespace {

absl::StatusOr<sockaddr_un> AddressAt(const std::string& path, const std::string& field) {
  sockaddr_un address{};
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return InvalidField(field, path,
                        absl::StrCat("must be of 1 to ", sizeof(address.sun_path) - 1, " bytes"));
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

// Returns 0, or the errno of connecting.
int Connect(const sockaddr_un& address, int type, Fd& fd) {
  fd.Reset(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (!fd) return errno;
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0
             ? 0
             : errno;
}

// Removes a socket left at the address. Only a socket that refuses the connection has no process
// behind it. A socket of another type, or one that this user may not open, belongs to another
// process.
absl::Status MakeRoom(const sockaddr_un& address, int type, const std::string& field) {
  const std::string path = address.sun_path;
  const std::string folder = std::filesystem::absolute(path).parent_path().string();
  MakeFolder(folder);
  RETURN_IF_ERROR(CheckOwnFolder(field, path, folder, Writers::kSticky));
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISSOCK(info.st_mode))
    return InvalidField(field, path, "must not be something other than a socket");
  Fd fd;
  if (Connect(address, type, fd) != ECONNREFUSED)
    return InvalidField(field, path, "must not be in use by another process");
  unlink(path.c_str());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Fd> ListenAt(const std::string& path, int type, int mode, const std::string& field) {
  ASSIGN_OR_RETURN(const sockaddr_un address, AddressAt(path, field));
  RETURN_IF_ERROR(MakeRoom(address, type, field));
  Fd fd(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // The socket must never exist with more rights than `mode` gives it.
  const mode_t before = umask(0777 & ~mode);
  const bool bound =
      fd && bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  umask(before);
  if (bound && chmod(path.c_str(), mode) == 0 && listen(fd.get(), SOMAXCONN) == 0) return fd;
  return InvalidField(
      field, path,
      absl::StrCat("must be a place where a socket can be made: ", std::strerror(errno)));
}

absl::StatusOr<Fd> ConnectTo(const std::string& path, int type) {
  ASSIGN_OR_RETURN(const sockaddr_un address, AddressAt(path, "path"));
  Fd fd;
  const int error = Connect(address, type, fd);
  if (error == 0) return fd;
  return absl::UnavailableError(absl::StrCat("connecting to ", path, ": ", std::strerror(error)));
}

}  // namespace remesh::worker
