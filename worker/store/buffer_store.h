// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "remesh/v1/worker.pb.h"
#include "worker/device/shard_view.h"
#include "worker/files/buffer_file.h"
#include "worker/files/memory_space.h"
#include "worker/files/scratch.h"
#include "worker/manifest.pb.h"
#include "worker/store/begun_writes.h"
#include "worker/store/buffer_pool.h"
#include "worker/store/device_segments.h"
#include "worker/store/generation.h"
#include "worker/store/lent_shards.h"
#include "worker/store/mapped_shards.h"
#include "worker/store/trash.h"

namespace remesh::worker {

// The buffers of a host: files in one directory, best on a tmpfs, and memory of devices. Trainers
// map both, too. When a call returns, everything that it changed is on file, and a later life of
// the worker on the same boot of the machine finds it again. Not thread-safe.
class BufferStore {
 public:
  struct Options {
    std::string directory;           // made if absent
    int64_t memory_limit_bytes = 0;  // 0: what the file system has
    std::string boot_id;
    int devices = 1;
    std::string cgroup_root = "/sys/fs/cgroup";
    // Where shards of memory kind "device" go; null: into files, too. Must outlive the store.
    DeviceSegments* segments = nullptr;
    // Memory that trainers brought to lend; null: none. Must outlive the store.
    HandleTable* handles = nullptr;
    // How long Recycle() keeps memory; 0: not at all.
    absl::Duration recycle_idle = absl::Seconds(60);
    std::function<absl::Time()> now = absl::Now;
  };

  // Adopts what an earlier life left, as AdoptGenerations(), and says in notes() what it did not.
  // Errors: an unusable directory; UNAVAILABLE (KEEPER_UNREACHABLE), which leaves all as it was.
  static absl::StatusOr<std::unique_ptr<BufferStore>> Open(Options options);

  // Sets the cluster whose planner assigns the generations that are made from now on.
  void SetCluster(const std::string& cluster_uid) { cluster_uid_ = cluster_uid; }

  // nullptr if the generation is not here.
  const Generation* Find(const std::string& state, int64_t generation) const;
  // By state, then generation.
  std::vector<const Generation*> List() const;
  std::vector<const Generation*> ListOf(const std::string& state) const;

  // Makes a generation: reserves its buffers, and the space of every later manifest. In phase
  // BUILDING its content is zero. Phase PREPARED is for an execution that writes every element;
  // until then the content may be what Recycle() kept of the state. Errors: as PlaceShards();
  // ALREADY_EXISTS; RESOURCE_EXHAUSTED as MemorySpace. An error leaves nothing behind.
  absl::Status Create(const v1::Assignment& assignment, v1::ShardPhase phase,
                      const v1::AttemptId& attempt = {});

  // Adds a generation whose shards lie in memory that a trainer lends. It is READY at once, and
  // ends with this process. REQUIRES: lent.places are of the assignment's shards. Errors: as
  // Create(); RESOURCE_EXHAUSTED (CGROUP_MEMORY) for pages that do not exist yet.
  absl::Status Lend(const v1::Assignment& assignment, LentShards lent);

  // Create() in three steps, for callers that must not wait while the kernel finds the memory:
  // Begin() promises it, Fill() does the work, Finish() keeps or frees what was made. Fill() may
  // run on any thread beside all other calls, and returns CANCELLED if `cancelled` becomes true.
  // Between Begin() and Finish() the generation is not here, and no other of its number can be
  // made.
  absl::StatusOr<Generation> Begin(const v1::Assignment& assignment, v1::ShardPhase phase,
                                   const v1::AttemptId& attempt);
  absl::Status Fill(const Generation& generation, const std::atomic<bool>* cancelled) const;
  absl::Status Finish(Generation generation, const absl::Status& filled);

  // Changes PREPARED to VERIFIED, or VERIFIED to READY with every shard sealed, of no write.
  // REQUIRES: the generation is here and pending().
  absl::Status SetPhase(const std::string& state, int64_t generation, v1::ShardPhase phase);

  // Seals or unseals shards. The generation becomes READY if all are sealed, else BUILDING.
  // REQUIRES: it is here, not pending() and not lent; indices in range. `write` names its write;
  // nullopt: as before.
  absl::Status SetSealed(const std::string& state, int64_t generation, absl::Span<const int> shards,
                         bool sealed, const std::optional<std::string>& write = std::nullopt);

  // Names the write of a generation that is lent. REQUIRES: it is here and lent.
  void SetLentWrite(const std::string& state, int64_t generation, const std::string& write);

  // Makes the assignment in the manifest committed. REQUIRES: the generation is here, with all
  // shards sealed.
  absl::Status NoteCommitted(const std::string& state, int64_t generation);

  // Makes the generation modified(), for this life and later ones, if it is
  // here. If that cannot be written, only for this life.
  absl::Status NoteModified(const std::string& state, int64_t generation);

  // Removes a generation, if it is here.
  void Drop(const std::string& state, int64_t generation);
  // Like Drop(), but what was mapped of the generation may serve the state's next one (BufferPool).
  void Recycle(const std::string& state, int64_t generation);
  // Free memory that is kept: TrimPool() what was kept for long enough, EmptyPool() all of it,
  // ForgetKept() that of a state that no longer exists.
  void TrimPool() {
    pool_.Trim(options_.now() - options_.recycle_idle);
    scratch_->Trim(options_.now() - options_.recycle_idle);
  }
  void EmptyPool() { FreeKept(); }
  void ForgetKept(const std::string& state_uid) { pool_.Take(state_uid); }
  const RecyclingCounts& recycling() const { return pool_.counts(); }

  // Maps the generation's shards. All callers share one mapping until the generation goes, or one
  // of its files is found truncated or replaced. FAILED_PRECONDITION (SOURCE_LOST) if the lender of
  // its memory is gone. REQUIRES: the generation is here.
  absl::StatusOr<std::shared_ptr<const MappedShards>> Map(const std::string& state,
                                                          int64_t generation);

  // Reserves memory for an execution, which returns to the store with its last owner. bytes > 0.
  // May run on any thread beside all other calls; CANCELLED if `cancelled` becomes true.
  absl::StatusOr<std::shared_ptr<Scratch>> ReserveScratch(
      int64_t bytes, const std::atomic<bool>* cancelled = nullptr) const;

  // Makes memory of devices; null: none is used.
  DeviceSegments* segments() const { return options_.segments; }
  int devices() const { return options_.devices; }
  HandleTable* handles() const { return options_.handles; }
  BegunWrites& begun_writes() { return begun_writes_; }

  // Bytes in use now, scratch included.
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
  // Frees all that is kept for later; returns how many bytes.
  int64_t FreeKept() const;
  absl::Status MakeFiles(const Generation& generation, const std::atomic<bool>* cancelled) const;

  absl::Status Adopt();
  absl::Status Write(const Generation& generation) const;

  const Options options_;
  Trash trash_;
  std::string cluster_uid_;
  std::map<Key, Generation> generations_;
  std::set<Key> begun_;  // Begin() without Finish() yet
  std::map<Key, std::shared_ptr<MappedShards>> mapped_;
  const std::shared_ptr<MemorySpace> space_;
  mutable BufferPool pool_;  // thread-safe
  const std::shared_ptr<ScratchPool> scratch_;
  BegunWrites begun_writes_;
  std::vector<std::string> notes_;
};

}  // namespace remesh::worker
