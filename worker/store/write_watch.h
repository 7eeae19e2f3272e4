// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker/store/mapped_shards.h"

namespace remesh::worker {

// Tells whether another process can have written shards since the watch began. The kernel says
// whether anybody else had a file open or mapped then (the condition of a write lease) and reports
// who opens it later (inotify). So the bytes need not be read again to know that they are the
// same. Not seen: who writes into this process (ptrace), and pages that stay pinned for a device,
// RDMA or io_uring after they were unmapped. Not thread-safe.
class WriteWatch {
 public:
  // `shards` must outlive the watch.
  explicit WriteWatch(const MappedShards& shards);
  ~WriteWatch();
  WriteWatch(const WriteWatch&) = delete;
  WriteWatch& operator=(const WriteWatch&) = delete;

  // Whether it is certain that no other process wrote any of the shards since the watch began.
  // False stays false: for shards that somebody else has mapped, memory of devices or of a trainer,
  // files that are not on a tmpfs, or if the kernel has no more watches to give.
  bool NoOtherProcessWrote();

 private:
  static bool Begin(const MappedShards& shards, int watch);

  int watch_ = -1;
  bool certain_ = false;
};

}  // namespace remesh::worker
