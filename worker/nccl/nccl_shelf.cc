// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/nccl_shelf.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace remesh::worker {
NcclShelf::NcclShelf(std::chrono::milliseconds idle, std::chrono::milliseconds abort_timeout,
                     std::function<void()> on_stuck)
    : idle_(idle), abort_timeout_(abort_timeout), on_stuck_(std::move(on_stuck)) {}

NcclShelf::~NcclShelf() { REMESH_CHECK(empty()); }

void NcclShelf::Put(const Lasting& lasting, std::unique_ptr<NcclLink> link) {
  DropAll();
  kept_.push_back({.lasting = lasting,
                   .link = std::move(link),
                   .until = std::chrono::steady_clock::now() + idle_});
}

std::unique_ptr<NcclLink> NcclShelf::Take(const Lasting& lasting) {
  for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
    if (kept->dropped || kept->lasting.name != lasting.name ||
        kept->lasting.among != lasting.among) {
      continue;
    }
    std::unique_ptr<NcclLink> link = std::move(kept->link);
    kept_.erase(kept);
    return link;
  }
  return nullptr;
}

void NcclShelf::Await(const std::string& name) {
  for (Kept& kept : kept_) kept.awaited |= kept.lasting.name == name;
}

void NcclShelf::Drop(const std::string& name) {
  for (Kept& kept : kept_) kept.dropped |= kept.lasting.name == name;
}

void NcclShelf::DropAll() {
  for (Kept& kept : kept_) kept.dropped = true;
}

bool NcclShelf::dropping() const {
  return std::any_of(kept_.begin(), kept_.end(), [](const Kept& kept) { return kept.dropped; });
}

bool NcclShelf::Progress(bool may_end) {
  const auto now = std::chrono::steady_clock::now();
  for (Kept& kept : kept_) {
    kept.dropped |= now > kept.until && !kept.awaited;
    if (kept.dropped && may_end)
      kept.link->Stop(absl::CancelledError("the communicators are not kept any longer"));
    if (kept.link->stuck(abort_timeout_) && !std::exchange(stuck_, true)) on_stuck_();
  }
  return std::erase_if(kept_, [](const Kept& kept) { return kept.link->gone(); }) > 0;
}

}  // namespace remesh::worker
