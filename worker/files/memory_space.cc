// SPDX-License-Identifier: Apache-2.0
#include "worker/files/memory_space.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "worker/files/cgroup_memory.h"
#include "worker/files/huge_pages.h"

namespace remesh::worker {
namespace {

bool IsMemory(const std::string& directory) {
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool memory = OnTmpfs(fd);
  close(fd);
  return memory;
}

int64_t FreeOn(const std::string& directory) {
  struct statvfs info;
  if (statvfs(directory.c_str(), &info) != 0) return INT64_MAX;
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

}  // namespace

MemorySpace::MemorySpace(std::string directory, int64_t limit_bytes, std::string cgroup_root)
    : directory_(std::move(directory)),
      limit_bytes_(limit_bytes),
      cgroup_root_(std::move(cgroup_root)) {}

absl::Status MemorySpace::Take(int64_t bytes, int64_t taken_over) {
  const int64_t on_disk = FreeOn(directory_);
  int64_t free = on_disk > INT64_MAX - taken_over ? on_disk : on_disk + taken_over;
  absl::MutexLock lock(&mutex_);
  const int64_t in_directory = free;
  if (limit_bytes_ > 0) free = std::min(free, limit_bytes_ - bytes_ - kept_ + taken_over);
  if (bytes <= free) {
    bytes_ += bytes;
    return absl::OkStatus();
  }
  const std::string of_limit =
      free < in_directory ? absl::StrCat("of memory_limit_bytes, ", limit_bytes_, ", in ") : "in ";
  const std::string needed = absl::StrCat(bytes), left = absl::StrCat(std::max<int64_t>(free, 0));
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("buffers of ", needed, " bytes do not fit into the ", left,
                                " bytes left ", of_limit, directory_),
                   {"MEMORY_EXHAUSTED",
                    {{"needed_bytes", needed}, {"free_bytes", left}, {"directory", directory_}}});
}

void MemorySpace::Adopt(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  bytes_ += bytes;
}

void MemorySpace::Give(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  bytes_ -= bytes;
}

void MemorySpace::Keep(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  bytes_ -= bytes;
  kept_ += bytes;
}

void MemorySpace::Reuse(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  kept_ -= bytes;
  bytes_ += bytes;
}

void MemorySpace::GiveKept(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  kept_ -= bytes;
}

absl::Status MemorySpace::CheckCgroup(int64_t bytes) const {
  return IsMemory(directory_) ? CheckMemory(bytes) : absl::OkStatus();
}

void MemorySpace::Expect(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  expected_ += bytes;
}

absl::Status MemorySpace::CheckMemory(int64_t bytes) const {
  const auto cgroup = OwnCgroupMemory(cgroup_root_);
  absl::MutexLock lock(&mutex_);
  if (!cgroup || bytes <= cgroup->free_bytes() - expected_) return absl::OkStatus();
  const std::string needed = absl::StrCat(bytes), limit = absl::StrCat(cgroup->limit_bytes),
                    used = absl::StrCat(cgroup->used_bytes), expected = absl::StrCat(expected_);
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("buffers of ", needed, " bytes do not fit into the memory limit of ", limit,
                   " bytes of ", cgroup->folder, ", of which ", used, " are in use and ", expected,
                   " are expected for memory that trainers lent"),
      {"CGROUP_MEMORY",
       {{"needed_bytes", needed},
        {"limit_bytes", limit},
        {"used_bytes", used},
        {"expected_bytes", expected},
        {"folder", cgroup->folder}}});
}

int64_t MemorySpace::bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_;
}

}  // namespace remesh::worker
