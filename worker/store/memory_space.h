// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace remesh::worker {

// Counts the bytes that a host's buffers take, and knows what they may. Thread-safe.
class MemorySpace {
 public:
  // `limit_bytes` 0: what the file system of `directory` has.
  MemorySpace(std::string directory, int64_t limit_bytes, std::string cgroup_root);

  // Promises so many more; `taken_over` of those that are kept will be freed or become part of them.
  // RESOURCE_EXHAUSTED (MEMORY_EXHAUSTED; needed_bytes, free_bytes, directory).
  absl::Status Take(int64_t bytes, int64_t taken_over = 0);
  // The same for what is there already.
  void Adopt(int64_t bytes);
  void Give(int64_t bytes);
  // What is in use is from now on only kept, for whoever may take it over; and is not any more.
  void Keep(int64_t bytes);
  void GiveKept(int64_t bytes);
  // What was kept is in use again.
  void Reuse(int64_t bytes);

  // Whether so much more can be filled now without the kernel killing somebody for it.
  // RESOURCE_EXHAUSTED (CGROUP_MEMORY; limit_bytes, used_bytes, expected_bytes, needed_bytes, folder).
  absl::Status CheckCgroup(int64_t bytes) const;
  // The same for memory that is not in `directory`.
  absl::Status CheckMemory(int64_t bytes) const;

  // So much that is not in `directory` may be filled at any time, by accesses; less, if negative.
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
