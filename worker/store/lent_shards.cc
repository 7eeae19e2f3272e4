// SPDX-License-Identifier: Apache-2.0
#include "worker/store/lent_shards.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::worker {
namespace {

// An upper bound of the bytes without pages among the first `bytes` of a file. It also counts holes
// after them: pages there do not prove that the earlier pages exist.
int64_t MissingBytes(int fd, int64_t bytes) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return bytes;
  return std::clamp<int64_t>(info.st_size - info.st_blocks * 512, 0, bytes);
}

// Checks that the memory is on the local device that uses it. `may` lists other kinds to name in
// the error.
absl::Status CheckDevice(const LentKind& said, DeviceSegments* segments,
                         std::vector<std::string> may) {
  if (segments != nullptr) may.push_back(segments->KindOf(said.local_device));
  if (segments == nullptr || said.kind != may.back()) {
    const std::string kinds = may.empty() ? "host, with a token," : absl::StrJoin(may, " or ");
    return InvalidField("kind", said.kind, absl::StrCat("must be ", kinds, " on this worker"));
  }
  const std::string uuid = segments->UuidOf(said.local_device);
  if (uuid == said.device_uuid) return absl::OkStatus();
  return InvalidField("device_uuid", said.device_uuid,
                      absl::StrCat("must be ", uuid, ", local device ", said.local_device));
}

}  // namespace

absl::StatusOr<LentMemory> MapLentMemory(const LentKind& kind, int fd, int64_t bytes,
                                         DeviceSegments* segments) {
  LentMemory lent;
  if (kind.kind == "host") {
    ASSIGN_OR_RETURN(lent.host, MappedFile::OfMemory(fd, bytes));
    lent.missing_bytes = MissingBytes(fd, bytes);
    return lent;
  }
  RETURN_IF_ERROR(CheckDevice(kind, segments, {"host"}));
  ASSIGN_OR_RETURN(lent.device, segments->Import(kind.local_device, fd, bytes));
  return lent;
}

absl::StatusOr<LentMemory> OpenLentMemory(const LentKind& kind, const LentAllocation& allocation,
                                          DeviceSegments* segments) {
  RETURN_IF_ERROR(CheckDevice(kind, segments, {}));
  auto opened =
      segments->ImportIpc(kind.local_device, allocation.user, allocation.handle, allocation.bytes);
  if (!opened.ok()) return AtField("ipc", opened.status());
  std::byte* const begin = opened->get() + allocation.offset;
  return LentMemory{.host = {}, .device = {*std::move(opened), begin}};
}

}  // namespace remesh::worker
