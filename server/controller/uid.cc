// SPDX-License-Identifier: Apache-2.0
#include "server/controller/uid.h"

#include "absl/strings/str_format.h"

namespace remesh::server {

std::string MakeUid(uint64_t high, uint64_t low) {
  const uint64_t version = (high & ~uint64_t{0xf000}) | 0x4000;
  const uint64_t variant = (low & (~uint64_t{0} >> 2)) | (uint64_t{1} << 63);
  return absl::StrFormat("%08x-%04x-%04x-%04x-%012x", version >> 32, version >> 16 & 0xffff,
                         version & 0xffff, variant >> 48, variant & 0xffff'ffff'ffff);
}

}  // namespace remesh::server
