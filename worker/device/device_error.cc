// SPDX-License-Identifier: Apache-2.0
#include "worker/device/device_error.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::worker {

absl::Status DeviceMemoryExhausted(std::string_view device, int64_t needed_bytes,
                                   int64_t free_bytes) {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("device ", std::string(device), " has ", free_bytes,
                                " bytes free, not ", needed_bytes),
                   {"DEVICE_MEMORY_EXHAUSTED",
                    {{"device", std::string(device)},
                     {"needed_bytes", absl::StrCat(needed_bytes)},
                     {"free_bytes", absl::StrCat(free_bytes)}}});
}

absl::Status NoSharedMemory(std::string_view device, std::string_view why) {
  return MakeError(
      absl::StatusCode::kUnimplemented,
      absl::StrCat("device ", std::string(device),
                   " has no memory that other processes can map: ", std::string(why)),
      {"NO_SHARED_MEMORY", {{"device", std::string(device)}, {"why", std::string(why)}}});
}

absl::Status NoSuchMemory(std::string_view device, int64_t bytes, std::string_view why) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   absl::StrCat("device ", std::string(device), " cannot map ", bytes,
                                " bytes of a handle: ", std::string(why)),
                   {"NO_SUCH_MEMORY",
                    {{"device", std::string(device)},
                     {"bytes", absl::StrCat(bytes)},
                     {"why", std::string(why)}}});
}

absl::Status DeviceError(std::string_view device, std::string_view error, std::string_view detail) {
  return MakeError(
      absl::StatusCode::kInternal,
      absl::StrCat("device ", std::string(device), ": ", std::string(error), ": ",
                   std::string(detail)),
      {"DEVICE_ERROR", {{"device", std::string(device)}, {"error", std::string(error)}}});
}

}  // namespace remesh::worker
