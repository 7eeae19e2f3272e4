// SPDX-License-Identifier: Apache-2.0
#include "worker/device/pieces.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/int_math.h"

namespace remesh {
namespace {

// Indices of the cut dimension in each piece but the last, where one index is `slab_bits`.
int64_t SlabsPerPiece(int64_t extent, int64_t slab_bits, int64_t max_bits) {
  const int64_t fit = std::max<int64_t>(max_bits / slab_bits, 1);
  const int64_t pieces = CeilDiv(extent, fit);
  int64_t slabs = CeilDiv(extent, pieces);
  // So many slabs are whole bytes. Where rounding up would not fit, pieces get smaller.
  const int64_t whole_byte = 8 / std::gcd(slab_bits, int64_t{8});
  const int64_t rounded = (slabs + whole_byte - 1) / whole_byte * whole_byte;
  if (rounded <= fit) return rounded;
  return slabs >= whole_byte ? slabs / whole_byte * whole_byte : slabs;
}

// Steps the outer dimensions [0, rank) of `piece` to the next index inside `box`; false after the
// last.
bool Advance(const Box& box, int rank, Box& piece) {
  for (int d = rank - 1; d >= 0; --d) {
    if (piece.dims[d].hi < box.dims[d].hi) {
      ++piece.dims[d].lo;
      ++piece.dims[d].hi;
      return true;
    }
    piece.dims[d] = {box.dims[d].lo, box.dims[d].lo + 1};
  }
  return false;
}

}  // namespace

std::vector<Box> SplitIntoPieces(const Box& box, int bits_per_element, int64_t max_bytes) {
  REMESH_CHECK(bits_per_element > 0 && max_bytes > 0);
  if (box.empty()) return {};
  // Beyond 2^59 bytes nothing is ever cut; the bound keeps the bits from overflowing.
  const int64_t max_bits = std::min(max_bytes, int64_t{1} << 59) * 8;
  int64_t slab_bits = box.element_count() * bits_per_element;
  if (slab_bits <= max_bits || box.rank() == 0) return {box};
  // The outermost dimension whose slabs fit; the innermost if even one element does not.
  int cut = 0;
  for (;; ++cut) {
    slab_bits /= box.dims[cut].size();
    if (slab_bits <= max_bits || cut == box.rank() - 1) break;
  }
  const Interval extent = box.dims[cut];
  const int64_t step = SlabsPerPiece(extent.size(), slab_bits, max_bits);
  Box piece = box;
  for (int d = 0; d < cut; ++d) piece.dims[d].hi = piece.dims[d].lo + 1;
  std::vector<Box> pieces;
  do {
    for (int64_t lo = extent.lo; lo < extent.hi; lo += step) {
      piece.dims[cut] = {lo, std::min(lo + step, extent.hi)};
      pieces.push_back(piece);
    }
  } while (Advance(box, cut, piece));
  return pieces;
}

}  // namespace remesh
