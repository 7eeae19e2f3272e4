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

// Behind the path of the worker's socket: that of the socket for handles.
inline constexpr char kHandlesSuffix[] = ".handles";

// Where trainers of this host ask for handles of device memory, bring those of memory that they lend,
// and hold leases, beside the socket at `socket_path`, with its mode and for whom `gate` lets in
// (local.proto: DeviceMemory, LentMemory, LendRequest.lease). Both must outlive it. `lease_ended`:
// called on its thread after a lease has ended; must not block. INVALID_ARGUMENT naming socket_path.
absl::StatusOr<std::unique_ptr<PacketServer>> ServeHandles(const std::string& socket_path,
                                                           HandleTable* handles,
                                                           const SocketGate* gate,
                                                           std::function<void()> lease_ended);

}  // namespace remesh::worker
