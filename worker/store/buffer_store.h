// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "remesh/v1/worker.pb.h"
#include "worker/device/shard_view.h"
#include "worker/manifest.pb.h"
#include "worker/store/buffer_file.h"
#include "worker/store/buffer_pool.h"
#include "worker/store/device_segments.h"
#include "worker/store/generation.h"
#include "worker/store/lent_shards.h"
#include "worker/store/mapped_shards.h"
#include "worker/store/memory_space.h"
#include "worker/store/scratch.h"
#include "worker/store/shard_places.h"

namespace remesh::worker {

// The buffers of a host: files in one directory, best a tmpfs, and memory of devices; trainers map
// both too. Whatever a call changed is on file when it returns; a later life of the worker on the same boot of the
// machine finds it again. Not thread-safe.
// The life of a generation in steps, some of them for another thread: it has more than 25 methods.
class BufferStore {
 public:
  struct Options {
    std::string directory;           // made if absent
    int64_t memory_limit_bytes = 0;  // 0: what the file system has
    std::string boot_id;
    int devices = 1;
    std::string cgroup_root = "/sys/fs/cgroup";
    // Where shards of memory kind "device" go; null: into files, too. Outlives the store.
    DeviceSegments* segments = nullptr;
    // What trainers brought to lend; null: nothing. Outlives the store.
    HandleTable* handles = nullptr;
    // How long Recycle() keeps memory; 0: it does not.
    absl::Duration recycle_idle = absl::Seconds(60);
    std::function<absl::Time()> now = absl::Now;
  };

  // Adopts what is there: READY, BUILDING and VERIFIED generations of this boot. PREPARED ones and
  // those of another boot are removed; what cannot be understood is moved to the folder ".aside",
  // and said in notes(). Errors: an unusable directory; UNAVAILABLE (KEEPER_UNREACHABLE), before
  // anything is moved or removed.
  static absl::StatusOr<std::unique_ptr<BufferStore>> Open(Options options);

  // Whose planner assigns what is made from now on.
  void SetCluster(const std::string& cluster_uid) { cluster_uid_ = cluster_uid; }

  // nullptr when it is not here.
  const Generation* Find(const std::string& state, int64_t generation) const;
  // By state, then generation.
  std::vector<const Generation*> List() const;
  std::vector<const Generation*> ListOf(const std::string& state) const;

  // Reserves buffers, and the space of every later manifest. Phase BUILDING, whose content is zero,
  // or PREPARED, for an execution to write every element: what Recycle() kept of the state may be
  // in it until then. Errors: as PlaceShards(); ALREADY_EXISTS; RESOURCE_EXHAUSTED as MemorySpace,
  // nothing left behind.
  absl::Status Create(const v1::Assignment& assignment, v1::ShardPhase phase,
                      const v1::AttemptId& attempt = {});

  // The assignment's shards, in memory that a trainer lends: READY at once, and gone with this
  // process. REQUIRES: lent.places are of the assignment's shards. Errors: as Create();
  // RESOURCE_EXHAUSTED (CGROUP_MEMORY) for pages that are not there yet.
  absl::Status Lend(const v1::Assignment& assignment, LentShards lent);

  // Create() in three steps, for those who must not be held up while the kernel finds the memory:
  // Begin() promises it, Fill() does the work, Finish() keeps or frees what was made. Fill() may
  // run on any thread beside all other calls; CANCELLED when `cancelled` becomes true. Between the
  // first and the last the generation is not here, and no other of its number can be made.
  absl::StatusOr<Generation> Begin(const v1::Assignment& assignment, v1::ShardPhase phase,
                                   const v1::AttemptId& attempt);
  absl::Status Fill(const Generation& generation, const std::atomic<bool>* cancelled) const;
  absl::Status Finish(Generation generation, const absl::Status& filled);

  // PREPARED -> VERIFIED, or VERIFIED -> READY, with every shard sealed. REQUIRES: it is here and
  // pending().
  absl::Status SetPhase(const std::string& state, int64_t generation, v1::ShardPhase phase);

  // Seals or unseals, but not what is lent; READY when all are sealed, else BUILDING. REQUIRES: it is here, not
  // pending(); indices in range.
  absl::Status SetSealed(const std::string& state, int64_t generation, absl::Span<const int> shards,
                         bool sealed);

  // Removes a generation, if it is here.
  void Drop(const std::string& state, int64_t generation);
  // The same, but what was mapped of it may serve the state's next generation (BufferPool).
  void Recycle(const std::string& state, int64_t generation);
  // Frees what was kept for long enough, all, or all of a state that is no more.
  void TrimPool() {
    pool_.Trim(options_.now() - options_.recycle_idle);
    scratch_->Trim(options_.now() - options_.recycle_idle);
  }
  void EmptyPool() { FreeKept(); }
  void ForgetKept(const std::string& state_uid) { pool_.Take(state_uid); }
  const RecyclingCounts& recycling() const { return pool_.counts(); }

  // The same shards for all, until the generation goes. REQUIRES: it is here.
  absl::StatusOr<std::shared_ptr<const MappedShards>> Map(const std::string& state,
                                                          int64_t generation);

  // Memory that is gone with its owner. bytes > 0. On any thread beside all other calls; CANCELLED
  // when `cancelled` becomes true.
  absl::StatusOr<std::shared_ptr<Scratch>> ReserveScratch(
      int64_t bytes, const std::atomic<bool>* cancelled = nullptr) const;

  // Where memory of devices comes from; null: nowhere.
  DeviceSegments* segments() const { return options_.segments; }
  int devices() const { return options_.devices; }
  HandleTable* handles() const { return options_.handles; }

  // Held now, scratch included.
  int64_t bytes() const { return space_->bytes(); }
  // What was removed or set aside while opening, one line each.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  using Key = std::pair<std::string, int64_t>;

  explicit BufferStore(Options options);

  absl::Status CheckAbsent(const Generation& generation) const;
  absl::Status TakeSpace(int64_t bytes, int64_t taken_over) const;
  absl::Status CheckCgroup(int64_t bytes) const;
  absl::Status CheckLent(int64_t missing_bytes) const;
  // All that is kept for later; returns how many bytes.
  int64_t FreeKept() const;
  absl::Status MakeFiles(const Generation& generation, const std::atomic<bool>* cancelled) const;

  // UNAVAILABLE: not now; nothing was moved or removed for it.
  absl::Status Adopt();
  absl::Status AdoptFolder(const std::string& folder);
  // Those of a folder; what cannot be listed is noted, and left out.
  std::vector<std::string> Folders(const std::string& folder);
  // Frees what the keeper has of generations that are no more, or were never made to their end.
  void DropUnknownSegments();
  void SetAside(const std::string& folder, const std::string& why);
  void Remove(const std::string& folder);
  absl::Status Write(const Generation& generation) const;

  const Options options_;
  std::string cluster_uid_;
  std::map<Key, Generation> generations_;
  std::set<Key> begun_;  // and not finished
  std::map<Key, std::shared_ptr<MappedShards>> mapped_;
  const std::shared_ptr<MemorySpace> space_;
  mutable BufferPool pool_;  // thread-safe
  const std::shared_ptr<ScratchPool> scratch_;
  std::vector<std::string> notes_;
  bool all_known_ = true;  // nothing that lies here was left out when it was opened
  int64_t removed_ = 0;
};

}  // namespace remesh::worker
