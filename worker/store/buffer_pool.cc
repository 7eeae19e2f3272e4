// SPDX-License-Identifier: Apache-2.0
#include "worker/store/buffer_pool.h"

#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace remesh {
namespace fs = std::filesystem;

KeptFiles::KeptFiles(std::string folder, ShardPlaces places, std::shared_ptr<MappedShards> shards,
                     std::shared_ptr<RecyclingCounts> counts)
    : folder_(std::move(folder)),
      places_(std::move(places)),
      shards_(std::move(shards)),
      counts_(std::move(counts)) {}

KeptFiles::~KeptFiles() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::optional<MappedFile> KeptFiles::Take(const std::string& name, int64_t bytes,
                                          const std::string& path) {
  // A thread that still reads the generation keeps them; what it did to them happened before.
  if (shards_.use_count() != 1) return std::nullopt;
  std::atomic_thread_fence(std::memory_order_acquire);
  for (size_t i = 0; i < places_.files.size(); ++i) {
    MappedFile& file = shards_->files[i];
    if (places_.files[i].name != name || places_.files[i].bytes != bytes) continue;
    if (file.bytes().empty() || !file.CheckWhole().ok()) return std::nullopt;
    const absl::StatusOr<bool> sole = file.HeldByNobodyElse();
    if (!sole.ok()) ++counts_->no_lease_support;
    if (sole.ok() && !*sole) ++counts_->still_mapped;
    if (!sole.ok() || !*sole) return std::nullopt;
    if (!file.Move(absl::StrCat(folder_, "/", name), path).ok()) return std::nullopt;
    ++counts_->recycled;
    return std::move(file);
  }
  return std::nullopt;
}

BufferPool::BufferPool(const std::string& directory) : folder_(directory + "/.pool") {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void BufferPool::Keep(const std::string& state_uid, const std::string& folder, ShardPlaces places,
                      std::shared_ptr<MappedShards> shards, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  mkdir(folder_.c_str(), 0700);
  std::string place = absl::StrCat(folder_, "/", ++next_);
  std::error_code error;
  fs::rename(folder, place, error);
  if (error) {
    fs::remove_all(folder, error);
    return;
  }
  kept_[state_uid] = {
      std::make_unique<KeptFiles>(std::move(place), std::move(places), std::move(shards), counts_),
      now};
}

std::unique_ptr<KeptFiles> BufferPool::Take(const std::string& state_uid) {
  absl::MutexLock lock(&mutex_);
  auto found = kept_.extract(state_uid);
  return found.empty() ? nullptr : std::move(found.mapped().files);
}

int64_t BufferPool::Trim(absl::Time before) {
  absl::MutexLock lock(&mutex_);
  int64_t freed = 0;
  std::erase_if(kept_, [&](const auto& entry) {
    const bool old = entry.second.since < before;
    if (old) freed += entry.second.files->bytes();
    return old;
  });
  return freed;
}

int64_t BufferPool::bytes() const {
  absl::MutexLock lock(&mutex_);
  int64_t bytes = 0;
  for (const auto& [uid, kept] : kept_) bytes += kept.files->bytes();
  return bytes;
}

void ZeroGaps(const ShardPlaces& places, int file, std::span<std::byte> bytes) {
  size_t end = 0;  // of the shard before
  const auto zero_to = [&](size_t begin) {
    if (begin > end) std::memset(bytes.data() + end, 0, begin - end);
  };
  for (const ShardPlaces::Shard& shard : places.shards) {
    if (shard.file != file) continue;
    zero_to(static_cast<size_t>(shard.offset));
    // A last byte that is not full is zeroed whole: what lies in it is written after this.
    const int64_t bits = shard.box.element_count() * shard.bits_per_element;
    end = static_cast<size_t>(shard.offset + bits / 8);
  }
  zero_to(bytes.size());
}

}  // namespace remesh
