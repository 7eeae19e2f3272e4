// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/keeper/packet_server.h"
#include "worker/local/socket_gate.h"
#include "worker/store/handle_table.h"

namespace remesh::worker {

// Suffix of the handle socket's path, appended to the path of the worker's socket.
inline constexpr char kHandlesSuffix[] = ".handles";

// Starts the handle socket beside the socket at `socket_path`, with the same mode (local.proto:
// DeviceMemory, LentMemory, LendRequest.lease). Over it, trainers of this host get handles of
// device memory, send handles of memory that they lend, and hold leases. It serves the callers that
// `gate` admits. `handles` and `gate` must outlive the server. `lease_ended` is called on the
// server's thread after a lease has ended; it must not block. Errors: INVALID_ARGUMENT naming
// socket_path.
absl::StatusOr<std::unique_ptr<PacketServer>> ServeHandles(const std::string& socket_path,
                                                           HandleTable* handles,
                                                           const SocketGate* gate,
                                                           std::function<void()> lease_ended);

}  // namespace remesh::worker
