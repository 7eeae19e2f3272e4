// SPDX-License-Identifier: Apache-2.0
#include "worker/device/device.h"

#include "worker/device/device_error.h"

namespace remesh::worker {

absl::StatusOr<SharedMemory> Device::Share(int64_t) {
  return NoSharedMemory(name(), "its memory is the host's, which files share");
}

absl::StatusOr<std::shared_ptr<std::byte>> Device::Import(int, int64_t) {
  return NoSharedMemory(name(), "its memory is the host's, which files share");
}

absl::StatusOr<std::shared_ptr<std::byte>> Device::ImportIpc(std::string_view, int64_t) {
  return NoSharedMemory(name(), "its memory is the host's, which files share");
}

}  // namespace remesh::worker
