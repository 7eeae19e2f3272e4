// SPDX-License-Identifier: Apache-2.0
#include "worker/store/buffer_pool.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace remesh::worker {
namespace fs = std::filesystem;

KeptFiles::KeptFiles(std::string folder, ShardPlaces places, std::shared_ptr<MappedShards> shards,
                     std::shared_ptr<RecyclingCounts> counts, std::shared_ptr<MemorySpace> space)
    : folder_(std::move(folder)),
      places_(std::move(places)),
      shards_(std::move(shards)),
      counts_(std::move(counts)),
      space_(std::move(space)) {}

KeptFiles::~KeptFiles() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
  space_->GiveKept(places_.file_bytes);
}

// Whether no other process holds the file at `path`. Counts the reason if not.
bool KeptFiles::Free(const MappedFile& file, const std::string& path) {
  const absl::StatusOr<bool> alone = file.HeldByNoOther();
  if (!alone.ok()) ++counts_->no_lease_support;
  if (!alone.ok()) return false;
  const bool free = *alone && file.IsOnlyAt(path);
  if (!free) ++counts_->still_mapped;
  return free;
}

std::optional<MappedFile> KeptFiles::Take(const std::string& name, int64_t bytes,
                                          const std::string& path) {
  // A thread that still reads the generation keeps its files. The fence orders all that earlier
  // threads did to them before what follows.
  if (shards_.use_count() != 1) return std::nullopt;
  std::atomic_thread_fence(std::memory_order_acquire);
  const std::string here = absl::StrCat(folder_, "/", name);
  for (size_t i = 0; i < places_.files.size(); ++i) {
    MappedFile& file = shards_->files[i];
    if (places_.files[i].name != name || places_.files[i].bytes != bytes) continue;
    if (file.bytes().empty() || !file.CheckWhole().ok() || !file.IsExact()) return std::nullopt;
    if (!Free(file, here) || !file.Move(here, path).ok()) return std::nullopt;
    // A process that was about to open the file when its folder moved may have done so by now. It
    // cannot come back later: no process knows the new name.
    if (!Free(file, path)) {
      unlink(path.c_str());
      return std::nullopt;
    }
    ++counts_->recycled;
    return std::move(file);
  }
  return std::nullopt;
}

BufferPool::BufferPool(const std::string& directory, std::shared_ptr<MemorySpace> space)
    : folder_(directory + "/.pool"), space_(std::move(space)) {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

bool BufferPool::Keep(const std::string& state_uid, const std::string& folder, ShardPlaces places,
                      std::shared_ptr<MappedShards> shards, absl::Time now) {
  Kept before;  // freed without the lock: that takes time
  absl::MutexLock lock(&mutex_);
  mkdir(folder_.c_str(), 0700);
  std::string place = absl::StrCat(folder_, "/", ++next_);
  std::error_code error;
  fs::rename(folder, place, error);
  if (error) return false;
  space_->Keep(places.file_bytes);
  before = std::exchange(kept_[state_uid],
                         {std::make_unique<KeptFiles>(std::move(place), std::move(places),
                                                      std::move(shards), counts_, space_),
                          now});
  return true;
}

std::unique_ptr<KeptFiles> BufferPool::Take(const std::string& state_uid) {
  absl::MutexLock lock(&mutex_);
  auto found = kept_.extract(state_uid);
  return found.empty() ? nullptr : std::move(found.mapped().files);
}

int64_t BufferPool::Trim(absl::Time before) {
  std::vector<Kept> old;  // freed without the lock
  int64_t freed = 0;
  absl::MutexLock lock(&mutex_);
  for (auto it = kept_.begin(); it != kept_.end();) {
    if (it->second.since >= before) {
      ++it;
      continue;
    }
    freed += it->second.files->bytes();
    old.push_back(std::move(it->second));
    it = kept_.erase(it);
  }
  return freed;
}

void ZeroGaps(const ShardPlaces& places, int file, std::span<std::byte> bytes) {
  size_t end = 0;  // of the shard before
  const auto zero_to = [&](size_t begin) {
    if (begin > end) std::memset(bytes.data() + end, 0, begin - end);
  };
  for (const ShardPlaces::Shard& shard : places.shards) {
    if (shard.file != file) continue;
    zero_to(static_cast<size_t>(shard.offset));
    // Zeroes a last byte that is not full as a whole: the shard's bits in it are written later.
    const int64_t bits = shard.box.element_count() * shard.bits_per_element;
    end = static_cast<size_t>(shard.offset + bits / 8);
  }
  zero_to(bytes.size());
}

}  // namespace remesh::worker
