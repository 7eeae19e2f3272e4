// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace remesh::planner {

// The device position at each tile of an n-d grid. An immutable value in one of two forms, which
// compare equal when they mean the same:
//   list (V1): the positions, row-major over dims().
//   iota (V2): arange(n).reshape(reshape_dims).transpose(transpose_perm).reshape(dims), in numpy's
//   words.
// Example: dims {2,2}, reshape_dims {2,2}, transpose_perm {1,0} is the list 0,2,1,3.
//
// Every dimension is >= 1 and their product at most kPositionsMax. Positions are distinct and >= 0;
// an iota's are 0..n-1, and a single one is an iota's. Errors are INVALID_ARGUMENT without a field.
class TileAssignment {
 public:
  using Dims = std::vector<int64_t>;

  // Canonical: no dimension of 1 (except for {1}), and none that can be merged with its neighbour.
  struct Iota {
    Dims reshape_dims;
    Dims transpose_perm;

    friend bool operator==(const Iota&, const Iota&) = default;
  };

  // One position, 0, and no dimension.
  TileAssignment() : iota_{{1}, {0}} {}

  static absl::StatusOr<TileAssignment> FromIota(absl::Span<const int64_t> dims,
                                                 absl::Span<const int64_t> reshape_dims,
                                                 absl::Span<const int64_t> transpose_perm);
  static absl::StatusOr<TileAssignment> FromList(absl::Span<const int64_t> dims,
                                                 std::vector<int64_t> positions);

  const Dims& dims() const { return dims_; }
  int64_t size() const { return size_; }
  // nullptr for the list form.
  const Iota* iota() const { return iota_.reshape_dims.empty() ? nullptr : &iota_; }
  // All positions, row-major over dims(), in either form. O(n).
  std::vector<int64_t> Positions() const;

  // The same order of positions over other dimensions. REQUIRES: equal product, every dimension
  // >= 1.
  TileAssignment Reshape(absl::Span<const int64_t> dims) const;
  // numpy's transpose: dimension d of the result is dimension perm[d]. Stays an iota where
  // possible. REQUIRES: perm is a permutation of the dimensions.
  TileAssignment Transpose(absl::Span<const int> perm) const;
  // A copy with the positions of every group along the last dimension sorted. REQUIRES: dims() is
  // not empty.
  TileAssignment SortLastDim() const;

  friend bool operator==(const TileAssignment& a, const TileAssignment& b);
  template <typename H>
  friend H AbslHashValue(H state, const TileAssignment& t) {
    return H::combine(std::move(state), t.dims_, t.Positions());
  }

 private:
  TileAssignment(Dims dims, int64_t size, Iota iota, std::vector<int64_t> list)
      : dims_(std::move(dims)), size_(size), iota_(std::move(iota)), list_(std::move(list)) {}

  Dims dims_;
  int64_t size_ = 1;
  Iota iota_;  // without dimensions: list_ holds the positions
  std::vector<int64_t> list_;
};

}  // namespace remesh::planner
