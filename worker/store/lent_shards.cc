// SPDX-License-Identifier: Apache-2.0
#include "worker/store/lent_shards.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::worker {
namespace {

// An upper bound: holes after the first `bytes` count, too, because pages there do not prove that
// those before exist.
int64_t MissingBytes(int fd, int64_t bytes) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return bytes;
  return std::clamp<int64_t>(info.st_size - info.st_blocks * 512, 0, bytes);
}

}  // namespace

absl::StatusOr<LentMemory> MapLentMemory(const std::string& kind, const std::string& device_uuid,
                                         int local_device, int fd, int64_t bytes,
                                         DeviceSegments* segments) {
  LentMemory lent;
  if (kind == "host") {
    ASSIGN_OR_RETURN(lent.host, MappedFile::OfMemory(fd, bytes));
    lent.missing_bytes = MissingBytes(fd, bytes);
    return lent;
  }
  const std::string ours = segments == nullptr ? "" : segments->KindOf(local_device);
  if (segments == nullptr || kind != ours) {
    return InvalidField(
        "kind", kind,
        absl::StrCat("must be host", ours.empty() ? "" : " or ", ours, " on this worker"));
  }
  if (const std::string uuid = segments->UuidOf(local_device); uuid != device_uuid) {
    return InvalidField("device_uuid", device_uuid,
                        absl::StrCat("must be ", uuid, ", local device ", local_device));
  }
  ASSIGN_OR_RETURN(lent.device, segments->Import(local_device, fd, bytes));
  return lent;
}

}  // namespace remesh::worker
