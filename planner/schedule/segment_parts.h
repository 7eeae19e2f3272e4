// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "planner/schedule/timeline.h"
#include "planner/values/box.h"

namespace remesh::planner {

// A segment cut into parts, each of which moves in one turn. Unit u of its N units counts for part
// u mod P, so part p is ceil((N - p) / P) units long. A stripe of n units takes n / P units from
// every part, give or take less than one, and n in all, so rounding does not add up over the parts.
// The remainder of a size that is not a multiple of the unit belongs to the end of the last part.
class SegmentParts {
 public:
  // `unit_bits` of the segment's tape; `index` is the segment's number.
  SegmentParts(const Schedule& schedule, const Segment& segment, int32_t index, int32_t unit_bits)
      : segment_(segment),
        unit_(unit_bits),
        units_(segment.size() / unit_bits),
        turns_(schedule.parts),
        count_(schedule.PartsOf(segment.size())),
        phase_(index * 7919LL % schedule.parts) {}

  int64_t count() const { return count_; }

  // The turn in which `part` moves. Turns rise with parts, and no two parts share one. A segment
  // with fewer parts than turns rests in the other turns, which differ from segment to segment.
  int64_t TurnOf(int64_t part) const {
    return ((part + 1) * turns_ - phase_ + count_ - 1) / count_ - 1;
  }
  // The part that moves in `turn`, or -1.
  int64_t PartIn(int64_t turn) const {
    const int64_t part = (count_ * turn + phase_) / turns_;
    return (count_ * (turn + 1) + phase_) / turns_ == part ? -1 : part;
  }

  // The number of parts that move in turns before `turn`.
  int64_t PartsBefore(int64_t turn) const {
    if (turn >= turns_) return count_;
    return turn <= 0 ? 0 : (count_ * turn + phase_) / turns_;
  }

  // The range of the tape that the stripe (in the segment's coordinates) takes of `part`. Parts of
  // a segment, and stripes within a part, adjoin without gaps.
  Interval RangeOf(Interval stripe, int64_t part) const {
    const int64_t begin =
        segment_.lo + (part * (units_ / count_) + std::min(part, units_ % count_)) * unit_;
    const auto cut = [&](int64_t at) {
      if (at == segment_.size() && part + 1 == count_) return segment_.hi;
      const int64_t units = at / unit_;  // of these, some are of this part
      return begin + (units / count_ + (part < units % count_ ? 1 : 0)) * unit_;
    };
    return {cut(stripe.lo), cut(stripe.hi)};
  }

 private:
  Segment segment_;
  int64_t unit_;
  int64_t units_;
  int64_t turns_;
  int64_t count_;
  int64_t phase_;
};

}  // namespace remesh::planner
