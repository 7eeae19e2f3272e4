// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/files/memory_space.h"
#include "worker/store/mapped_shards.h"
#include "worker/store/shard_places.h"

namespace remesh::worker {

// How often files were asked for, by outcome.
struct RecyclingCounts {
  std::atomic<int64_t> recycled = 0;
  std::atomic<int64_t> still_mapped = 0;  // by a trainer that still reads the retired generation
  std::atomic<int64_t> no_lease_support = 0;  // the kernel or file system cannot tell
};

// Files of a generation that is gone, mapped and out of everybody's reach. A later generation of
// the same state may take them. The destructor removes those that were not taken. For one thread at
// a time.
class KeptFiles {
 public:
  KeptFiles(std::string folder, ShardPlaces places, std::shared_ptr<MappedShards> shards,
            std::shared_ptr<RecyclingCounts> counts, std::shared_ptr<MemorySpace> space);
  ~KeptFiles();
  KeptFiles(const KeptFiles&) = delete;
  KeptFiles& operator=(const KeptFiles&) = delete;

  int64_t bytes() const { return places_.file_bytes; }

  // Moves the file `name` to `path`, with its old content. nullopt unless the file is exactly
  // `bytes` long, whole, without another link, and held by no other process before and after the
  // move: no thread of this process uses the shards any more, and no other process has the file
  // open or mapped.
  std::optional<MappedFile> Take(const std::string& name, int64_t bytes, const std::string& path);

 private:
  bool Free(const MappedFile& file, const std::string& path);

  const std::string folder_;
  const ShardPlaces places_;
  const std::shared_ptr<MappedShards> shards_;
  const std::shared_ptr<RecyclingCounts> counts_;
  const std::shared_ptr<MemorySpace> space_;
};

// Keeps memory for the next generations of states. Making and mapping fresh pages costs the kernel
// more than copying the bytes into them (huge_pages.h); kept files are made and mapped already.
// What the pool keeps counts as free memory: a caller that is short of memory calls Trim(). A later
// life of the worker keeps nothing of it. Thread-safe.
class BufferPool {
 public:
  // The pool is a folder in `directory`, that of the buffers, which only this user may enter.
  // `space` counts what is kept.
  BufferPool(const std::string& directory, std::shared_ptr<MemorySpace> space);

  // Takes over the folder of a generation, whose bytes `space` counts as in use. Of each state only
  // the last generation is kept. Returns false if the folder could not be taken over; nothing has
  // changed then.
  bool Keep(const std::string& state_uid, const std::string& folder, ShardPlaces places,
            std::shared_ptr<MappedShards> shards, absl::Time now);
  // Gives out what was kept of the state; null if there is nothing.
  std::unique_ptr<KeptFiles> Take(const std::string& state_uid);
  // Frees what was kept before `before`, and returns its bytes.
  int64_t Trim(absl::Time before = absl::InfiniteFuture());

  const RecyclingCounts& counts() const { return *counts_; }

 private:
  struct Kept {
    std::unique_ptr<KeptFiles> files;
    absl::Time since;
  };

  const std::string folder_;
  const std::shared_ptr<MemorySpace> space_;
  const std::shared_ptr<RecyclingCounts> counts_ = std::make_shared<RecyclingCounts>();
  mutable absl::Mutex mutex_;
  std::map<std::string, Kept> kept_ ABSL_GUARDED_BY(mutex_);  // by state uid
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Zeroes the bytes of a file that belong to no shard: gaps, and bits after a shard's last element.
// `file`: index into places.files.
void ZeroGaps(const ShardPlaces& places, int file, std::span<std::byte> bytes);

}  // namespace remesh::worker
