// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace remesh::worker {

// Counts the bytes that a host's buffers take, and enforces their limits. Thread-safe.
class MemorySpace {
 public:
  // `limit_bytes` 0: limited only by the file system of `directory`.
  MemorySpace(std::string directory, int64_t limit_bytes, std::string cgroup_root);

  // Counts `bytes` more as in use. `taken_over` of the kept bytes will be freed or become part of
  // them. RESOURCE_EXHAUSTED (MEMORY_EXHAUSTED; needed_bytes, free_bytes, directory).
  absl::Status Take(int64_t bytes, int64_t taken_over = 0);
  // Counts bytes that exist already, without a check.
  void Adopt(int64_t bytes);
  void Give(int64_t bytes);
  // Keep() counts bytes in use as kept, for another owner to take over; GiveKept() ends that.
  void Keep(int64_t bytes);
  void GiveKept(int64_t bytes);
  // Counts kept bytes as in use again.
  void Reuse(int64_t bytes);

  // Whether `bytes` more can be filled now without the kernel killing a process for it.
  // RESOURCE_EXHAUSTED (CGROUP_MEMORY; limit_bytes, used_bytes, expected_bytes, needed_bytes,
  // folder).
  absl::Status CheckCgroup(int64_t bytes) const;
  // The same for memory that is not in `directory`.
  absl::Status CheckMemory(int64_t bytes) const;

  // Notes that accesses may fill `bytes` more outside `directory` at any time; negative: fewer.
  void Expect(int64_t bytes);

  int64_t bytes() const;  // in use

 private:
  const std::string directory_;
  const int64_t limit_bytes_;
  const std::string cgroup_root_;
  mutable absl::Mutex mutex_;
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t kept_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t expected_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace remesh::worker
