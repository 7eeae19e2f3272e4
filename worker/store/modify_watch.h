// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "worker/store/mapped_shards.h"

namespace remesh::worker {

// Tells whether another process changed by a system call what files hold.
// write(), ftruncate() and fallocate() count (inotify, IN_MODIFY); opening or
// mapping a file does not, nor do stores into a mapping. Whoever reads a page
// that was cut off makes it again, of zeros, so that later only the kernel's
// report shows that it was missing. Thread-safe.
class ModifyWatch {
 public:
  enum class Side { kSource, kTarget };

  ModifyWatch();
  ~ModifyWatch();
  ModifyWatch(const ModifyWatch&) = delete;
  ModifyWatch& operator=(const ModifyWatch&) = delete;

  // Watches the files of `shards` from now on. Memory of devices, and what
  // trainers lend, is in no file of the worker and is not watched.
  // RESOURCE_EXHAUSTED (WATCHES_EXHAUSTED; path, limit) if a limit leaves none
  // for a file, whose changes would go unseen. On a kernel without inotify all
  // go unseen, and this is OK.
  absl::Status Add(const MappedShards& shards, Side side);

  // ABORTED if a file was modified since it was added: SOURCE_MODIFIED or
  // TARGET_MODIFIED, with the file's path. An error stays. If the kernel had
  // too much to report, any file counts.
  absl::Status Check();
  // Whether a file of the source was modified.
  bool source_modified();

 private:
  struct File {
    std::string path;
    Side side = Side::kSource;
  };

  absl::Status Watch(const MappedFile& file, Side side) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int inotify_;  // of its own, so that other files cannot fill its queue; -1: there is none
  const int error_;    // why there is none
  absl::Mutex mutex_;
  std::map<int, File> files_ ABSL_GUARDED_BY(mutex_);   // by watch
  std::optional<File> source_ ABSL_GUARDED_BY(mutex_);  // the first that was modified
  std::optional<File> target_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remesh::worker
