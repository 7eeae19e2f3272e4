// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/network/links.h"
#include "planner/schedule/rounds.h"
#include "planner/values/rational.h"

namespace remesh::planner {

// The share of time for which pairs occupy the links at their two ends: NICs for pairs across
// hosts, the fabric of devices for pairs inside one. The unit is the time of the busiest link: a
// link that is busy all that time has the share kWhole. Ignores uplinks.
class Shares {
 public:
  static constexpr int64_t kWhole = int64_t{1} << 30;

  Shares(const std::vector<PairWork>& pairs, const Links& links);

  const Links& links() const { return links_; }
  // Bits that the link can carry in the time of the busiest link.
  int64_t BitsOf(int32_t link) const { return whole_[link]; }

  // The sender's and the receiver's share for `bits` from one device to another; 0 in place.
  int64_t OfSender(int32_t from, int32_t to, int64_t bits) const {
    return from == to ? 0 : MulDiv(bits, kWhole, whole_[links_.Sender(from, to)]);
  }
  int64_t OfReceiver(int32_t from, int32_t to, int64_t bits) const {
    return from == to ? 0 : MulDiv(bits, kWhole, whole_[links_.Receiver(from, to)]);
  }

 private:
  const Links& links_;
  std::vector<int64_t> whole_;
};

}  // namespace remesh::planner
