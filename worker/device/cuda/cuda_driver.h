// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace remesh::worker {

// What CUDA's own functions say of the driver, as they write versions: 13000 is 13.0; 0: there is none.
struct CudaVersions {
  int driver = 0;   // the latest that the driver knows
  int runtime = 0;  // of this binary
};

// OK when the driver knows the runtime's major version, as CUDA demands. FAILED_PRECONDITION:
// NO_CUDA_DRIVER (needed_release, runtime_version), CUDA_DRIVER_TOO_OLD (release, needed_release,
// driver_version, runtime_version). `release` is the driver's own number, such as 570.86.10; empty:
// not known.
absl::Status CheckCudaDriver(const CudaVersions& versions, std::string_view release);

// The driver's release in what /proc/driver/nvidia/version says; empty: it does not say it.
std::string_view ReleaseIn(std::string_view version_file);

}  // namespace remesh::worker
