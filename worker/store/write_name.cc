// SPDX-License-Identifier: Apache-2.0
#include "worker/store/write_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::worker {

absl::Status CheckWriteName(std::string_view write) {
  if (write.size() > kWriteBytesMax) {
    return InvalidField(
        "write", write,
        absl::StrCat("has ", write.size(), " bytes: must have at most ", kWriteBytesMax));
  }
  if (!std::all_of(write.begin(), write.end(), absl::ascii_isprint))
    return InvalidField("write", write, "must be printable ASCII");
  return absl::OkStatus();
}

}  // namespace remesh::worker
