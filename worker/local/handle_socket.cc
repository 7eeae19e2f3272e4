// SPDX-License-Identifier: Apache-2.0
#include "worker/local/handle_socket.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <string_view>
#include <utility>

namespace remesh::worker {
namespace {

// Whether `fd` can be a memory file, or what a driver exports: a device node, or an inode without a
// type. Any other descriptor may block the thread that closes it, even the thread of all moves: for
// example a lingering socket, or a file whose file system does not answer. For the same reason the
// check does not query the file system.
bool CanBeMemory(int fd) {
  if (fcntl(fd, F_GET_SEALS) >= 0) return true;
  struct statx info {};
  if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &info) != 0) return false;
  return S_ISCHR(info.stx_mode) || (info.stx_mode & S_IFMT) == 0;
}

PacketServer::Reply BeginLease(LeaseTable& leases, uid_t user,
                               const std::function<void()>& lease_ended) {
  const auto token = leases.Begin(user);
  if (!token) return {"there are too many leases"};
  return {.bytes = "ok " + *token, .at_end = [&leases, token, lease_ended] {
            leases.End(*token);
            lease_ended();
          }};
}

PacketServer::Reply AnswerHeld(const LeaseTable& leases, std::string_view token) {
  const auto held = leases.Held(token);
  if (!held) return {"no lease has this token (any more)"};
  return {*held ? "yes" : "no"};
}

}  // namespace

absl::StatusOr<std::unique_ptr<PacketServer>> ServeHandles(const std::string& socket_path,
                                                           HandleTable* handles,
                                                           const SocketGate* gate,
                                                           std::function<void()> lease_ended) {
  const auto answer = [handles, lease_ended](Packet& packet) -> PacketServer::Reply {
    constexpr std::string_view kHeld = "held ";
    if (packet.bytes == "lend") {
      if (!packet.fd) return {"a descriptor must come with it"};
      if (!CanBeMemory(packet.fd.get())) return {"its descriptor must be one of memory"};
      return {"ok " + handles->Bring(std::move(packet.fd), packet.uid, absl::Now())};
    }
    if (packet.bytes == "lease") return BeginLease(handles->leases(), packet.uid, lease_ended);
    if (packet.bytes.starts_with(kHeld))
      return AnswerHeld(handles->leases(), std::string_view(packet.bytes).substr(kHeld.size()));
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
