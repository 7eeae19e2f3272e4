// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/keeper/packet_server.h"
#include "worker/store/handle_table.h"

namespace remesh::worker {

// Where trainers of this host ask for handles of device memory and bring those of memory that they
// lend, beside the socket at `socket_path` and with its mode (local.proto: DeviceMemory,
// LentMemory). `handles` must outlive it. INVALID_ARGUMENT naming socket_path.
absl::StatusOr<std::unique_ptr<PacketServer>> ServeHandles(const std::string& socket_path,
                                                           HandleTable* handles);

}  // namespace remesh::worker
