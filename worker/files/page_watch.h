// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "absl/synchronization/mutex.h"

namespace remesh::worker {

// Tells whether files may have other pages than before, because some process cut them, freed a part
// of them or wrote them by a system call (inotify, IN_MODIFY; stores into mappings change no pages
// and do not count). One for the whole process, as the kernel gives few of them to a user.
// Thread-safe.
class PageWatch {
 public:
  static PageWatch& Get();

  // Begins to watch an open file, and names the watch. nullopt if the kernel has no more watches to
  // give.
  std::optional<int64_t> Watch(int fd);
  // Whether the file may have other pages than when its watch began, or the last call said so.
  bool TakeChanged(int64_t watch);
  void End(int64_t watch);

 private:
  PageWatch();
  void Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int inotify_;  // -1: there is none
  absl::Mutex mutex_;
  int64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int64_t, int> files_ ABSL_GUARDED_BY(mutex_);  // by watch, as the kernel names them
  std::map<int, std::set<int64_t>> watches_ ABSL_GUARDED_BY(mutex_);  // of each file
  std::set<int64_t> changed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remesh::worker
