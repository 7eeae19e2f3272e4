// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/keeper/packet_server.h"
#include "worker/local/socket_gate.h"
#include "worker/store/handle_table.h"

namespace remesh::worker {

// Behind the path of the worker's socket: that of the socket for handles.
inline constexpr char kHandlesSuffix[] = ".handles";

// Where trainers of this host ask for handles of device memory and bring those of memory that they
// lend, beside the socket at `socket_path`, with its mode and for whom `gate` lets in (local.proto:
// DeviceMemory, LentMemory). Both must outlive it. INVALID_ARGUMENT naming socket_path.
absl::StatusOr<std::unique_ptr<PacketServer>> ServeHandles(const std::string& socket_path,
                                                           HandleTable* handles,
                                                           const SocketGate* gate);

}  // namespace remesh::worker
