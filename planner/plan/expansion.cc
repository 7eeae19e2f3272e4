// SPDX-License-Identifier: Apache-2.0
#include "planner/plan/expansion.h"

#include "planner/schedule/segment_parts.h"

namespace remesh::planner {

Interval PartOf(const Work& work, const Schedule& schedule, int32_t turn) {
  const SegmentParts parts(schedule, work.segment, work.segment_number, work.tape->unit_bits);
  const int64_t part = parts.PartIn(turn);
  return part < 0 ? Interval{0, 0} : parts.RangeOf(work.stripe, part);
}

int64_t StagedAt(const Work& work, const Schedule& schedule, int32_t turn) {
  if (work.staged == nullptr) return -1;
  const SegmentParts parts(schedule, work.segment, work.segment_number, work.tape->unit_bits);
  return work.staged->AddressOf(parts.PartIn(turn));
}

void Expansion::ForEachTransfer(absl::FunctionRef<bool(const Transfer&)> visit,
                                int32_t first_window) const {
  const auto visit_boxes = [&](int32_t window, const Work& work, Interval range) {
    bool wanted = true;
    geometry_.ForEachBox(*work.tape, range.lo, range.hi, schedule_.slack_bits,
                         [&](int32_t array, const Box& box) {
                           wanted = visit({.window = window,
                                           .array = array,
                                           .box = box,
                                           .from_device = work.from_device,
                                           .to_device = work.to_device,
                                           .from_space = work.from_space,
                                           .to_space = work.to_space,
                                           .tape = work.segment.tape});
                         });
    return wanted;
  };
  ForEachPart(visit_boxes, first_window);
}

}  // namespace remesh::planner
