// SPDX-License-Identifier: Apache-2.0
#include "worker/local/handle_socket.h"

#include <utility>

namespace remesh::worker {

absl::StatusOr<std::unique_ptr<PacketServer>> ServeHandles(const std::string& socket_path,
                                                           HandleTable* handles,
                                                           const SocketGate* gate) {
  const auto answer = [handles](Packet packet) -> PacketServer::Reply {
    if (packet.bytes == "lend") {
      if (!packet.fd) return {"a descriptor must come with it"};
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
