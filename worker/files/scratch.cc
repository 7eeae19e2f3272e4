// SPDX-License-Identifier: Apache-2.0
#include "worker/files/scratch.h"

#include <algorithm>
#include <utility>

namespace remesh::worker {
namespace {

int64_t SizeOf(const MappedFile& file) { return static_cast<int64_t>(file.bytes().size()); }

}  // namespace

std::optional<MappedFile> ScratchPool::Take(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  const auto fits = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
    return SizeOf(kept.file) >= bytes && SizeOf(kept.file) / 2 <= bytes;
  });
  if (fits == kept_.end()) return std::nullopt;
  MappedFile file = std::move(fits->file);
  kept_.erase(fits);
  space_->Reuse(SizeOf(file));
  return file;
}

void ScratchPool::Keep(MappedFile file) {
  Kept oldest;  // freed without the lock: that takes time
  absl::MutexLock lock(&mutex_);
  space_->Keep(SizeOf(file));
  kept_.push_back({std::move(file), now_()});
  if (kept_.size() <= kFilesMax) return;
  space_->GiveKept(SizeOf(kept_.front().file));
  oldest = std::move(kept_.front());
  kept_.erase(kept_.begin());
}

int64_t ScratchPool::Trim(absl::Time before) {
  std::vector<Kept> old;  // freed without the lock: that takes time
  absl::MutexLock lock(&mutex_);
  const auto end = std::find_if(kept_.begin(), kept_.end(),
                                [&](const Kept& kept) { return kept.since >= before; });
  old.assign(std::make_move_iterator(kept_.begin()), std::make_move_iterator(end));
  kept_.erase(kept_.begin(), end);
  int64_t bytes = 0;
  for (const Kept& kept : old) bytes += SizeOf(kept.file);
  space_->GiveKept(bytes);
  return bytes;
}

}  // namespace remesh::worker
