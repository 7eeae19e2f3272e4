// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/first_fit.h"

#include <algorithm>
#include <iterator>

namespace remesh::planner {

int64_t FirstFit::Take(int64_t bytes) {
  auto hole = holes_.begin();
  int left = kHolesTried;
  while (hole != holes_.end() && left > 0 && hole->second < bytes) {
    ++hole;
    --left;
  }
  if (hole == holes_.end() || left == 0) {
    const int64_t at = top_;
    if (bytes > kMost - top_) return most_ = kMost;
    top_ += bytes;
    most_ = std::max(most_, top_);
    return at;
  }
  const auto [at, room] = *hole;
  holes_.erase(hole);
  if (room > bytes) holes_[at + bytes] = room - bytes;
  return at;
}

void FirstFit::Give(int64_t at, int64_t bytes) {
  if (bytes == 0 || at >= kMost) return;
  const auto after = holes_.lower_bound(at);
  if (after != holes_.end() && after->first == at + bytes) {
    bytes += after->second;
    holes_.erase(after);
  }
  const auto next = holes_.lower_bound(at);
  if (next != holes_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == at) {
      at = before->first;
      bytes += before->second;
      holes_.erase(before);
    }
  }
  if (at + bytes == top_) {
    top_ = at;
  } else {
    holes_[at] = bytes;
  }
}

}  // namespace remesh::planner
