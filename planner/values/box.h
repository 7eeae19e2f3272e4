// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace remesh::planner {

// Extent of an array per dimension, in elements; empty for a scalar. Every extent is >= 0.
using Shape = absl::InlinedVector<int64_t, 4>;

// Number of elements of `shape` (1 for a scalar). Shapes that passed ValidateShape() never
// overflow.
int64_t ElementCount(absl::Span<const int64_t> shape);

// INVALID_ARGUMENT (field "shape") unless every extent is >= 0, the rank is <= 32 and elements x
// bits_per_element, with extents of 0 counted as 1, is below 2^62.
absl::Status ValidateShape(absl::Span<const int64_t> shape, int bits_per_element);

// The half-open interval [lo, hi) of indices; empty when lo == hi.
struct Interval {
  int64_t lo = 0;
  int64_t hi = 0;

  int64_t size() const { return hi - lo; }
  friend auto operator<=>(const Interval&, const Interval&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const Interval& i) {
    return H::combine(std::move(state), i.lo, i.hi);
  }
};

// A half-open n-d index interval: dimension d spans [dims[d].lo, dims[d].hi). A value; rank 0 holds
// one element.
struct Box {
  absl::InlinedVector<Interval, 4> dims;

  // The box of a whole array: [0, shape[d]) in every dimension.
  static Box Whole(absl::Span<const int64_t> shape);

  int rank() const { return static_cast<int>(dims.size()); }
  int64_t element_count() const;
  bool empty() const { return element_count() == 0; }
  Shape shape() const;
  // REQUIRES: equal ranks.
  bool Contains(const Box& other) const;
  std::string DebugString() const;  // "[0:2,3:5]", "[]" for rank 0

  friend bool operator==(const Box&, const Box&) = default;
  friend auto operator<=>(const Box& a, const Box& b) {
    return std::lexicographical_compare_three_way(a.dims.begin(), a.dims.end(), b.dims.begin(),
                                                  b.dims.end());
  }
  template <typename H>
  friend H AbslHashValue(H state, const Box& box) {
    return H::combine(std::move(state), box.dims);
  }
};

// The common part, or nullopt when it holds no element. REQUIRES: equal ranks.
std::optional<Box> Intersect(const Box& a, const Box& b);

// `box` in coordinates relative to the low corner of `frame`. REQUIRES: frame.Contains(box).
Box RelativeTo(const Box& box, const Box& frame);

}  // namespace remesh::planner
