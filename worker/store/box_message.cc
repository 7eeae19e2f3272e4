// SPDX-License-Identifier: Apache-2.0
#include "worker/store/box_message.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::worker {

using planner::Box;

absl::StatusOr<Box> BoxInArray(const v1::Box& message, absl::Span<const int64_t> shape) {
  const int rank = static_cast<int>(shape.size());
  if (message.lo_size() != rank || message.hi_size() != rank) {
    return InvalidField(
        message.lo_size() != rank ? "lo" : "hi",
        absl::StrCat(message.lo_size() != rank ? message.lo_size() : message.hi_size(), " entries"),
        absl::StrCat("must have ", rank, " entries"));
  }
  Box box;
  for (int d = 0; d < rank; ++d) {
    const int64_t lo = message.lo(d), hi = message.hi(d);
    if (lo < 0 || lo >= shape[d]) {
      return InvalidField(absl::StrCat("lo[", d, "]"), absl::StrCat(lo),
                          absl::StrCat("must be in [0, ", shape[d], ")"));
    }
    if (hi <= lo || hi > shape[d]) {
      return InvalidField(absl::StrCat("hi[", d, "]"), absl::StrCat(hi),
                          absl::StrCat("must be in (", lo, ", ", shape[d], "]"));
    }
    box.dims.push_back({lo, hi});
  }
  return box;
}

v1::Box BoxMessage(const Box& box) {
  v1::Box message;
  for (const planner::Interval& dim : box.dims) {
    message.add_lo(dim.lo);
    message.add_hi(dim.hi);
  }
  return message;
}

}  // namespace remesh::worker
