// SPDX-License-Identifier: Apache-2.0
#include "planner/sharding/tile_assignment.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "planner/sharding/limits.h"

namespace remesh::planner {
namespace {

using Dims = TileAssignment::Dims;

absl::StatusOr<int64_t> CheckedProduct(const char* what, absl::Span<const int64_t> dims) {
  if (dims.size() > kTileRankMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has ", dims.size(), " dimensions, more than ", kTileRankMax));
  }
  int64_t product = 1;
  for (int64_t dim : dims) {
    if (dim < 1) {
      return absl::InvalidArgumentError(absl::StrCat(what, " dimension ", dim, " must be >= 1"));
    }
    if (dim > kPositionsMax || product * dim > kPositionsMax) {
      return absl::InvalidArgumentError(absl::StrCat(
          what, " [", absl::StrJoin(dims, ","), "] has more than ", kPositionsMax, " devices"));
    }
    product *= dim;
  }
  return product;
}

absl::Status CheckPermutation(absl::Span<const int64_t> perm, size_t rank) {
  if (perm.size() != rank) {
    return absl::InvalidArgumentError(absl::StrCat(
        "iota_transpose_perm should have the same rank as iota_reshape_dims : expected ", rank,
        ", saw ", perm.size()));
  }
  std::vector<bool> seen(rank, false);
  for (int64_t dim : perm) {
    if (dim < 0 || dim >= static_cast<int64_t>(rank)) {
      return absl::InvalidArgumentError(
          absl::StrCat("iota_transpose_perm value ", dim,
                       " is out of range, expecting value in range [0, ", rank, ")"));
    }
    if (seen[dim]) {
      return absl::InvalidArgumentError(
          absl::StrCat("iota_transpose_perm value ", dim, " is repeated"));
    }
    seen[dim] = true;
  }
  return absl::OkStatus();
}

// Drops dimensions of 1 and joins dimensions that stay neighbours in order.
TileAssignment::Iota Canonical(absl::Span<const int64_t> reshape_dims,
                               absl::Span<const int64_t> perm) {
  // joined[r]: r also follows r - 1 in the permutation, ignoring dimensions of 1.
  std::vector<bool> joined(reshape_dims.size(), false);
  std::vector<int64_t> order;  // the permutation without dimensions of 1
  std::vector<int64_t> previous_wide(reshape_dims.size(), -1);
  int64_t last_wide = -1;
  for (size_t r = 0; r < reshape_dims.size(); ++r) {
    previous_wide[r] = last_wide;
    if (reshape_dims[r] != 1) last_wide = static_cast<int64_t>(r);
  }
  for (int64_t r : perm) {
    if (reshape_dims[r] == 1) continue;
    if (!order.empty() && previous_wide[r] == order.back()) joined[r] = true;
    order.push_back(r);
  }
  TileAssignment::Iota iota;
  std::vector<int64_t> new_index(reshape_dims.size(), -1);
  for (size_t r = 0; r < reshape_dims.size(); ++r) {
    if (reshape_dims[r] == 1) continue;
    if (joined[r]) {
      iota.reshape_dims.back() *= reshape_dims[r];
    } else {
      new_index[r] = static_cast<int64_t>(iota.reshape_dims.size());
      iota.reshape_dims.push_back(reshape_dims[r]);
    }
  }
  for (int64_t r : order) {
    if (!joined[r]) iota.transpose_perm.push_back(new_index[r]);
  }
  if (iota.reshape_dims.empty()) return {{1}, {0}};
  return iota;
}

// The values of a row-major walk over dims, in which dimension d advances the value by strides[d].
std::vector<int64_t> Walk(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides,
                          int64_t size) {
  std::vector<int64_t> values;
  values.reserve(size);
  std::vector<int64_t> index(dims.size(), 0);
  int64_t value = 0;
  for (int64_t i = 0; i < size; ++i) {
    values.push_back(value);
    for (size_t d = dims.size(); d-- > 0;) {
      value += strides[d];
      if (++index[d] < dims[d]) break;
      value -= strides[d] * dims[d];
      index[d] = 0;
    }
  }
  return values;
}

std::vector<int64_t> RowMajorStrides(absl::Span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return strides;
}

// A factor that a tile dimension and a (transposed) reshape dimension have in common.
struct Piece {
  int64_t size;
  size_t tile_dim;
  int64_t reshape_dim;
};

// Cuts the tile dimensions and the transposed reshape dimensions into common pieces, major to
// minor; nullopt where their boundaries do not nest. Example: tiles {2,3,4} over {6,4}: 2, 3 | 4.
std::optional<std::vector<Piece>> CommonPieces(const Dims& dims, const TileAssignment::Iota& iota) {
  std::vector<Piece> pieces;
  size_t i = iota.transpose_perm.size();
  int64_t source = 1;  // the rest of the reshape dimension
  for (size_t d = dims.size(); d-- > 0;) {
    int64_t tile = dims[d];
    while (tile > 1) {
      if (source == 1) source = iota.reshape_dims[iota.transpose_perm[--i]];
      const int64_t size = std::min(tile, source);
      if (tile % size != 0 || source % size != 0) return std::nullopt;
      pieces.push_back({size, d, iota.transpose_perm[i]});
      tile /= size;
      source /= size;
    }
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

// The iota whose transposed dimensions are the pieces in the order `order`. `pieces` are in the
// order of the old iota.
TileAssignment::Iota Rearranged(const std::vector<Piece>& pieces,
                                const std::vector<size_t>& order) {
  std::vector<size_t> by_reshape(pieces.size());
  for (size_t i = 0; i < by_reshape.size(); ++i) by_reshape[i] = i;
  std::stable_sort(by_reshape.begin(), by_reshape.end(), [&](size_t a, size_t b) {
    return pieces[a].reshape_dim < pieces[b].reshape_dim;
  });
  std::vector<int64_t> reshape_dims;
  std::vector<int64_t> index_of(pieces.size());
  for (size_t i : by_reshape) {
    index_of[i] = static_cast<int64_t>(reshape_dims.size());
    reshape_dims.push_back(pieces[i].size);
  }
  std::vector<int64_t> perm;
  for (size_t i : order) perm.push_back(index_of[i]);
  return Canonical(reshape_dims, perm);
}

}  // namespace

absl::StatusOr<TileAssignment> TileAssignment::FromIota(absl::Span<const int64_t> dims,
                                                        absl::Span<const int64_t> reshape_dims,
                                                        absl::Span<const int64_t> transpose_perm) {
  ASSIGN_OR_RETURN(const int64_t size, CheckedProduct("tile assignment", dims));
  ASSIGN_OR_RETURN(const int64_t iota_size, CheckedProduct("iota_reshape_dims", reshape_dims));
  RETURN_IF_ERROR(CheckPermutation(transpose_perm, reshape_dims.size()));
  if (size != iota_size) {
    return absl::InvalidArgumentError(absl::StrCat("the list after <= makes ", iota_size,
                                                   " devices, but the tile dimensions before it ",
                                                   "make ", size, ": the two must match"));
  }
  return TileAssignment(Dims(dims.begin(), dims.end()), size,
                        Canonical(reshape_dims, transpose_perm), {});
}

absl::StatusOr<TileAssignment> TileAssignment::FromList(absl::Span<const int64_t> dims,
                                                        std::vector<int64_t> positions) {
  ASSIGN_OR_RETURN(const int64_t size, CheckedProduct("tile assignment", dims));
  if (static_cast<int64_t>(positions.size()) != size) {
    return absl::InvalidArgumentError(
        absl::StrCat("number of devices ", positions.size(),
                     " does not match the tile assignment dimensions product ", size));
  }
  std::vector<int64_t> sorted = positions;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.front() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("device ", sorted.front(), " is negative in tile assignment"));
  }
  if (size == 1) {
    if (sorted[0] == 0)
      return TileAssignment(Dims(dims.begin(), dims.end()), 1, Iota{{1}, {0}}, {});
    return absl::InvalidArgumentError(absl::StrCat("device ", sorted[0], " >= num_devices (1)"));
  }
  const auto twin = std::adjacent_find(sorted.begin(), sorted.end());
  if (twin != sorted.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("device ", *twin, " is not unique in tile assignment"));
  }
  return TileAssignment(Dims(dims.begin(), dims.end()), size, Iota{}, std::move(positions));
}

std::vector<int64_t> TileAssignment::Positions() const {
  if (iota() == nullptr) return list_;
  const std::vector<int64_t> strides = RowMajorStrides(iota_.reshape_dims);
  std::vector<int64_t> dims;
  std::vector<int64_t> transposed;
  for (int64_t r : iota_.transpose_perm) {
    dims.push_back(iota_.reshape_dims[r]);
    transposed.push_back(strides[r]);
  }
  return Walk(dims, transposed, size_);
}

TileAssignment TileAssignment::Reshape(absl::Span<const int64_t> dims) const {
  int64_t product = 1;
  for (int64_t dim : dims) {
    REMESH_CHECK(dim >= 1 && product <= size_);
    product *= dim;
  }
  REMESH_CHECK(product == size_);
  return TileAssignment(Dims(dims.begin(), dims.end()), size_, iota_, list_);
}

TileAssignment TileAssignment::Transpose(absl::Span<const int> perm) const {
  REMESH_CHECK(perm.size() == dims_.size());
  Dims dims;
  std::vector<int> wide;  // dimensions that hold more than one tile, in their new order
  for (int d : perm) {
    dims.push_back(dims_[d]);
    if (dims_[d] > 1) wide.push_back(d);
  }
  if (std::is_sorted(wide.begin(), wide.end())) return Reshape(dims);
  if (iota() != nullptr) {
    if (const auto pieces = CommonPieces(dims_, iota_)) {
      std::vector<size_t> order;
      for (int d : perm) {
        for (size_t i = 0; i < pieces->size(); ++i) {
          if ((*pieces)[i].tile_dim == static_cast<size_t>(d)) order.push_back(i);
        }
      }
      return TileAssignment(std::move(dims), size_, Rearranged(*pieces, order), {});
    }
  }
  const std::vector<int64_t> positions = Positions();
  const std::vector<int64_t> strides = RowMajorStrides(dims_);
  std::vector<int64_t> transposed;
  for (int d : perm) transposed.push_back(strides[d]);
  std::vector<int64_t> list = Walk(dims, transposed, size_);
  for (int64_t& entry : list) entry = positions[entry];
  return TileAssignment(std::move(dims), size_, Iota{}, std::move(list));
}

TileAssignment TileAssignment::SortLastDim() const {
  REMESH_CHECK(!dims_.empty());
  if (iota() != nullptr) {
    // Only the boundary of the last dimension has to nest.
    if (const auto pieces = CommonPieces({size_ / dims_.back(), dims_.back()}, iota_)) {
      std::vector<size_t> order(pieces->size());
      std::iota(order.begin(), order.end(), size_t{0});
      const auto group = std::find_if(order.begin(), order.end(),
                                      [&](size_t i) { return (*pieces)[i].tile_dim == 1; });
      // Larger strides first: an earlier reshape dimension has the larger stride.
      std::stable_sort(group, order.end(), [&](size_t a, size_t b) {
        return (*pieces)[a].reshape_dim < (*pieces)[b].reshape_dim;
      });
      return TileAssignment(dims_, size_, Rearranged(*pieces, order), {});
    }
  }
  std::vector<int64_t> list = Positions();
  const auto width = static_cast<std::ptrdiff_t>(dims_.back());
  for (auto group = list.begin(); group != list.end(); group += width)
    std::sort(group, group + width);
  return TileAssignment(dims_, size_, Iota{}, std::move(list));
}

bool operator==(const TileAssignment& a, const TileAssignment& b) {
  if (a.dims_ != b.dims_) return false;
  if (a.iota() != nullptr && b.iota() != nullptr) return a.iota_ == b.iota_;
  return a.Positions() == b.Positions();
}

}  // namespace remesh::planner
