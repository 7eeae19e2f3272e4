// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace remesh::worker {

// Versions that CUDA reports, in its own notation: 13000 is 13.0; 0: none.
struct CudaVersions {
  int driver = 0;   // the latest that the driver supports
  int runtime = 0;  // of this binary
};

// OK if the driver supports the runtime's major version, as CUDA requires. FAILED_PRECONDITION:
// NO_CUDA_DRIVER (needed_release, runtime_version), CUDA_DRIVER_TOO_OLD (release, needed_release,
// driver_version, runtime_version). `release` is the driver's own release number, such as
// 570.86.10; empty: unknown.
absl::Status CheckCudaDriver(const CudaVersions& versions, std::string_view release);

// Finds the driver's release in the text of /proc/driver/nvidia/version; empty if there is none.
std::string_view ReleaseIn(std::string_view version_file);

}  // namespace remesh::worker
