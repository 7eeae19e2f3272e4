// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/nccl_windows.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace remesh::worker {

void NcclWindows::Expect(std::vector<int32_t> operations) {
  REMESH_CHECK(windows_.empty());
  windows_.resize(operations.size());
  for (size_t i = 0; i < operations.size(); ++i) {
    REMESH_CHECK(operations[i] >= 0);
    windows_[i].expected = static_cast<size_t>(operations[i]);
    windows_[i].window.window = static_cast<int32_t>(i);
  }
}

void NcclWindows::Add(uint32_t window, const NcclEntry& entry, PeerGroup::Done done) {
  REMESH_CHECK(window < windows_.size());
  Gathered& at = windows_[window];
  REMESH_CHECK(at.window.entries.size() < at.expected);
  for (const NcclEntry& other : at.window.entries) {
    REMESH_CHECK(other.local != entry.local || other.peer != entry.peer ||
                 other.send != entry.send);
  }
  at.window.entries.push_back(entry);
  at.window.done.push_back(std::move(done));
}

std::optional<NcclWindow> NcclWindows::TakeNext() {
  while (next_ < windows_.size() && windows_[next_].expected == 0) ++next_;
  if (next_ == windows_.size()) return std::nullopt;
  Gathered& at = windows_[next_];
  if (at.window.entries.size() < at.expected) return std::nullopt;
  ++next_;
  at.window.first = !std::exchange(any_taken_, true);
  return std::move(at.window);
}

bool NcclWindows::all_taken() const {
  return std::all_of(windows_.begin() + next_, windows_.end(),
                     [](const Gathered& at) { return at.expected == 0; });
}

std::vector<PeerGroup::Done> NcclWindows::TakeRest() {
  std::vector<PeerGroup::Done> rest;
  for (; next_ < windows_.size(); ++next_) {
    for (PeerGroup::Done& done : windows_[next_].window.done) rest.push_back(std::move(done));
    windows_[next_].window = {};
  }
  return rest;
}

}  // namespace remesh::worker
