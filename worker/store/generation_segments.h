// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "worker/store/device_segments.h"
#include "worker/store/generation.h"

namespace remesh::worker {

// What of a generation lies in the memory of devices. `segments` null: nothing is made there.

// Decides it, and writes it into the manifest. REQUIRES: generation.places.
void NameSegments(const DeviceSegments* segments, Generation& generation);

// Makes what the manifest names. What was made before an error is there: DropSegments() it.
absl::Status MakeSegments(DeviceSegments* segments, const Generation& generation);

// Finds what the manifest names. UNAVAILABLE (KEEPER_UNREACHABLE): ask again; DATA_LOSS
// (CORRUPT_FILE) for what is gone, or is of another device.
absl::Status FindSegments(DeviceSegments* segments, const Generation& generation);

// Frees what the manifest names, once nobody has it mapped.
void DropSegments(DeviceSegments* segments, const Generation& generation);

}  // namespace remesh::worker
