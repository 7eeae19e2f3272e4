// SPDX-License-Identifier: Apache-2.0
#include "server/controller/values/uid.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

namespace remesh::server {

std::string MakeUid(uint64_t high, uint64_t low) {
  const uint64_t version = (high & ~uint64_t{0xf000}) | 0x4000;
  const uint64_t variant = (low & (~uint64_t{0} >> 2)) | (uint64_t{1} << 63);
  return absl::StrFormat("%08x-%04x-%04x-%04x-%012x", version >> 32, version >> 16 & 0xffff,
                         version & 0xffff, variant >> 48, variant & 0xffff'ffff'ffff);
}

bool IsUid(std::string_view text) {
  bool right = text.size() == 36;
  for (size_t i = 0; right && i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    right = dash ? text[i] == '-' : absl::ascii_isxdigit(text[i]);
  }
  return right;
}

}  // namespace remesh::server
