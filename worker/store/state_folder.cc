// SPDX-License-Identifier: Apache-2.0
#include "worker/store/state_folder.h"

#include <xxhash.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace remesh::worker {

std::string StateFolder(std::string_view name) {
  constexpr size_t kLengthMax = 180;
  std::string folder;
  for (const char c : name) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_') {
      folder += c;
    } else {
      absl::StrAppendFormat(&folder, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  if (folder.size() <= kLengthMax) return folder;
  folder.resize(kLengthMax);
  return absl::StrCat(folder, "~",
                      absl::Hex(XXH3_64bits(name.data(), name.size()), absl::kZeroPad16));
}

}  // namespace remesh::worker
