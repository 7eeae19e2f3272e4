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

void RenameWrite(GenerationManifest& manifest, const std::string& write) {
  const std::string former = manifest.write();
  if (former == write) return;
  auto& replaced = *manifest.mutable_replaced_writes();
  replaced.erase(std::remove(replaced.begin(), replaced.end(), write), replaced.end());
  if (!former.empty()) *replaced.Add() = former;
  if (replaced.size() > kReplacedMax) replaced.erase(replaced.begin());
  manifest.set_write(write);
}

}  // namespace remesh::worker
