// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace remesh::server::coordination {

// Divides what there is `most` of among jobs that come and go. A job may take more while it does not
// have more than is free: one takes half at most, two a third each, so that something is left for
// whoever comes next. A value. Not thread-safe.
class FairShare {
 public:
  explicit FairShare(size_t most) : most_(most) {}

  size_t most() const { return most_; }
  size_t used() const { return used_; }
  size_t UsedBy(std::string_view job) const {
    const auto at = by_job_.find(job);
    return at == by_job_.end() ? 0 : at->second;
  }
  size_t Free() const { return most_ - std::min(used_, most_); }
  // How much more the job may take.
  size_t RoomFor(std::string_view job) const {
    const size_t own = UsedBy(job);
    return Free() - std::min(own, Free());
  }

  // Whether there is room is for the caller to ask.
  void Take(std::string_view job, size_t amount) {
    if (amount == 0) return;
    by_job_[std::string(job)] += amount;
    used_ += amount;
  }
  void Give(std::string_view job, size_t amount) {
    if (amount == 0) return;
    const auto at = by_job_.find(job);
    at->second -= amount;
    used_ -= amount;
    if (at->second == 0) by_job_.erase(at);
  }

 private:
  size_t most_;
  size_t used_ = 0;
  std::map<std::string, size_t, std::less<>> by_job_;  // none is 0
};

}  // namespace remesh::server::coordination
