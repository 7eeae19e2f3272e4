// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "worker/store/device_segments.h"
#include "worker/store/generation.h"

namespace remesh::worker {

// The part of a generation that is in the memory of devices. If `segments` is null, nothing is
// made there.

// Decides which files lie in the memory of devices, and writes that into the manifest. REQUIRES:
// generation.places.
void NameSegments(const DeviceSegments* segments, Generation& generation);

// Makes the segments that the manifest names. After an error, those made before it are still there:
// call DropSegments().
absl::Status MakeSegments(DeviceSegments* segments, const Generation& generation);

// Finds the segments that the manifest names. UNAVAILABLE (KEEPER_UNREACHABLE): ask again;
// DATA_LOSS (CORRUPT_FILE) if one is gone, or is of another device.
absl::Status FindSegments(DeviceSegments* segments, const Generation& generation);

// Frees the segments that the manifest names, once no process has them mapped.
void DropSegments(DeviceSegments* segments, const Generation& generation);

}  // namespace remesh::worker
