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
#include "worker/store/mapped_shards.h"
#include "worker/store/memory_space.h"
#include "worker/store/shard_places.h"

namespace remesh::worker {

// How often files were asked for and what came of it.
struct RecyclingCounts {
  std::atomic<int64_t> recycled = 0;
  std::atomic<int64_t> still_mapped = 0;      // by a trainer that reads the generation that is gone
  std::atomic<int64_t> no_lease_support = 0;  // the kernel or file system cannot tell
};

// Files of a generation that is gone, mapped and out of everybody's reach: a later generation of
// the same state may have them. Removed with the object, but for those that were taken. For one
// thread at a time.
class KeptFiles {
 public:
  KeptFiles(std::string folder, ShardPlaces places, std::shared_ptr<MappedShards> shards,
            std::shared_ptr<RecyclingCounts> counts, std::shared_ptr<MemorySpace> space);
  ~KeptFiles();
  KeptFiles(const KeptFiles&) = delete;
  KeptFiles& operator=(const KeptFiles&) = delete;

  int64_t bytes() const { return places_.file_bytes; }

  // Moves the file of that name to `path`, its old content in it. nullopt unless it is exactly as
  // long, whole, without another link, and held by nobody else: no thread of this process uses the
  // shards any more, and no other process has it open or mapped, before the move nor after it.
  std::optional<MappedFile> Take(const std::string& name, int64_t bytes, const std::string& path);

 private:
  bool Free(const MappedFile& file, const std::string& path);

  const std::string folder_;
  const ShardPlaces places_;
  const std::shared_ptr<MappedShards> shards_;
  const std::shared_ptr<RecyclingCounts> counts_;
  const std::shared_ptr<MemorySpace> space_;
};

// Memory for the next generations of states. Making and mapping fresh pages costs the kernel more
// than copying the bytes into them (huge_pages.h), and pages that were never mapped elsewhere need
// neither. What it keeps counts as free memory: whoever is short of it calls Trim(). A later life
// of the worker keeps nothing of it. Thread-safe.
class BufferPool {
 public:
  // `directory`: of the buffers; the pool is a folder in it that only this user may enter. `space`
  // counts what is kept.
  BufferPool(const std::string& directory, std::shared_ptr<MemorySpace> space);

  // Takes over the folder of a generation, whose bytes `space` counts as in use. One of a state is
  // kept: the last. False: it could not be, and everything is as it was.
  bool Keep(const std::string& state_uid, const std::string& folder, ShardPlaces places,
            std::shared_ptr<MappedShards> shards, absl::Time now);
  // What was kept of the state; null: nothing.
  std::unique_ptr<KeptFiles> Take(const std::string& state_uid);
  // Frees what was kept before `before`. Returns its bytes.
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

// Makes zero what of a file's bytes belongs to no shard: gaps, and bits after a shard's last
// element. `file`: index into places.files.
void ZeroGaps(const ShardPlaces& places, int file, std::span<std::byte> bytes);

}  // namespace remesh::worker
