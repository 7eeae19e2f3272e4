// SPDX-License-Identifier: Apache-2.0
#include "worker/local/handle_socket.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <utility>

namespace remesh::worker {
namespace {

// Whether it can be a file of memory, or what a driver exports: a device's node, or an inode without
// a type. All else may keep whoever closes it waiting, be it the thread of all moves: a socket that
// lingers, a file whose file system does not answer, which is not asked here either.
bool CanBeMemory(int fd) {
  if (fcntl(fd, F_GET_SEALS) >= 0) return true;
  struct statx info {};
  if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &info) != 0) return false;
  return S_ISCHR(info.stx_mode) || (info.stx_mode & S_IFMT) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PacketServer>> ServeHandles(const std::string& socket_path,
                                                           HandleTable* handles,
                                                           const SocketGate* gate) {
  const auto answer = [handles](Packet& packet) -> PacketServer::Reply {
    if (packet.bytes == "lend") {
      if (!packet.fd) return {"a descriptor must come with it"};
      if (!CanBeMemory(packet.fd.get())) return {"its descriptor must be one of memory"};
      return {"ok " + handles->Bring(std::move(packet.fd), packet.uid, absl::Now())};
    }
    std::shared_ptr<const Fd> handle = handles->Find(packet.bytes);
    if (handle == nullptr) return {"no memory has this token (any more)"};
    return {"ok", std::move(handle)};
  };
  return PacketServer::Start(
      socket_path + kHandlesSuffix, 0660, "socket_path", answer,
      [gate](int connection) { return gate->MayConnect(connection); },
      [handles] { return handles->CloseOld(absl::Now()); });
}

}  // namespace remesh::worker
