// SPDX-License-Identifier: Apache-2.0
#include "worker/device/cuda/cuda_driver.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::worker {
namespace {

std::string Spelled(int version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); }

// The first driver release that supports a major version. Source: NVIDIA's "CUDA Compatibility",
// table of minimum drivers.
std::string NeededFor(int runtime) {
  switch (runtime / 1000) {
    case 12:
      return "525";
    case 13:
      return "580";
    default:
      return absl::StrCat("one for CUDA ", runtime / 1000);
  }
}

}  // namespace

absl::Status CheckCudaDriver(const CudaVersions& versions, std::string_view release) {
  const std::string runtime = Spelled(versions.runtime), needed = NeededFor(versions.runtime);
  const std::string needs =
      absl::StrCat("CUDA ", runtime, " needs NVIDIA driver ", needed, " or later; ");
  if (versions.driver == 0) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, absl::StrCat(needs, "none is loaded"),
        {"NO_CUDA_DRIVER", {{"needed_release", needed}, {"runtime_version", runtime}}});
  }
  if (versions.driver / 1000 >= versions.runtime / 1000) return absl::OkStatus();
  const std::string driver = Spelled(versions.driver),
                    here(release.empty() ? "the one here"
                                         : absl::StrCat("driver ", std::string(release)));
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat(needs, here, " knows CUDA ", driver, " at most"),
                   {"CUDA_DRIVER_TOO_OLD",
                    {{"release", std::string(release)},
                     {"needed_release", needed},
                     {"driver_version", driver},
                     {"runtime_version", runtime}}});
}

// Returns the first word of digits and dots, as in "NVRM version: NVIDIA UNIX x86_64 Kernel Module
// 570.86.10  Thu ...".
std::string_view ReleaseIn(std::string_view version_file) {
  std::string_view left = version_file.substr(0, version_file.find('\n'));
  while (!left.empty()) {
    const std::string_view word = left.substr(0, left.find(' '));
    if (word.find('.') != std::string_view::npos &&
        word.find_first_not_of("0123456789.") == std::string_view::npos) {
      return word;
    }
    left.remove_prefix(std::min(word.size() + 1, left.size()));
  }
  return {};
}

}  // namespace remesh::worker
