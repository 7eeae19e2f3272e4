// SPDX-License-Identifier: Apache-2.0
#include "planner/plan/plan_rep.h"

namespace remesh::planner {
namespace {

template <typename T>
int64_t BytesOf(const std::vector<T>& items) {
  return static_cast<int64_t>(items.capacity() * sizeof(T));
}

}  // namespace

int64_t PlanRep::bytes() const {
  int64_t bytes = static_cast<int64_t>(sizeof(PlanRep)) + BytesOf(missing) + BytesOf(target_order) +
                  BytesOf(host_of) + BytesOf(atoms) + BytesOf(tape_begin) + BytesOf(segment_tape) +
                  BytesOf(segment_hi) + BytesOf(moves) + BytesOf(stripes) + BytesOf(round_begin) +
                  BytesOf(peak_bytes) + BytesOf(geometry.classes);
  for (const ArrayClass& one : geometry.classes) {
    bytes += BytesOf(one.arrays) + BytesOf(one.boxes);
    for (const auto& cuts : one.cuts) bytes += BytesOf(cuts);
  }
  return bytes;
}

}  // namespace remesh::planner
