// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/files/buffer_file.h"
#include "worker/files/memory_space.h"

namespace remesh::worker {

// Memory of executions that have ended, kept for the next. Its pages exist already, and pages are
// what memory costs. It counts as kept, not as in use. No other process can see it. Thread-safe.
class ScratchPool {
 public:
  ScratchPool(std::shared_ptr<MemorySpace> space, std::function<absl::Time()> now)
      : space_(std::move(space)), now_(std::move(now)) {}
  ~ScratchPool() { Trim(); }

  // Memory of at least `bytes`, and about twice as much at most, which then counts as in use;
  // nullopt if there is none.
  std::optional<MappedFile> Take(int64_t bytes);
  void Keep(MappedFile file);
  // Frees what was kept before `before`; returns how many bytes.
  int64_t Trim(absl::Time before = absl::InfiniteFuture());

 private:
  static constexpr size_t kFilesMax = 8;

  struct Kept {
    MappedFile file;
    absl::Time since;
  };

  const std::shared_ptr<MemorySpace> space_;
  const std::function<absl::Time()> now_;
  absl::Mutex mutex_;
  std::vector<Kept> kept_ ABSL_GUARDED_BY(mutex_);  // the oldest first
};

// Memory of an execution, counted as in use while the object lives.
class Scratch {
 public:
  // The bytes count already. `pool` gets the memory at the end; null: it is freed.
  Scratch(MappedFile file, std::shared_ptr<ScratchPool> pool)
      : file_(std::move(file)), pool_(std::move(pool)) {}
  ~Scratch() {
    if (pool_ != nullptr) pool_->Keep(std::move(file_));
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::span<std::byte> bytes() const { return file_.bytes(); }
  // See MappedFile::ReachedBy().
  absl::StatusOr<std::shared_ptr<std::byte>> ReachedBy(Device& device) const {
    return file_.ReachedBy(device);
  }

 private:
  MappedFile file_;
  const std::shared_ptr<ScratchPool> pool_;
};

}  // namespace remesh::worker
