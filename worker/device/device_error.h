// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace remesh::worker {

// RESOURCE_EXHAUSTED (DEVICE_MEMORY_EXHAUSTED; device, needed_bytes, free_bytes).
absl::Status DeviceMemoryExhausted(std::string_view device, int64_t needed_bytes,
                                   int64_t free_bytes);

// UNIMPLEMENTED (NO_SHARED_MEMORY; device, why).
absl::Status NoSharedMemory(std::string_view device, std::string_view why);
// INVALID_ARGUMENT (NO_SUCH_MEMORY; device, bytes, why).
absl::Status NoSuchMemory(std::string_view device, int64_t bytes, std::string_view why);

// INTERNAL (DEVICE_ERROR; device, error): the result of all work that the device was given after
// `error`, or had not ended by then. `error` is the device's own name for the failure.
absl::Status DeviceError(std::string_view device, std::string_view error, std::string_view detail);

}  // namespace remesh::worker
