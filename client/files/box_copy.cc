// SPDX-License-Identifier: Apache-2.0
#include "client/files/box_copy.h"

#include <cstring>
#include <vector>

#include "base/check.h"

namespace remesh::client {

using planner::BitWidth;
using planner::Box;
using planner::ElementType;
using planner::Shape;

namespace {

// Copies `count` elements of `bits` bits each, from one element offset to another.
void CopyElements(int bits, absl::Span<const std::byte> source, int64_t source_at,
                  absl::Span<std::byte> target, int64_t target_at, int64_t count) {
  if (bits >= 8) {
    const int64_t width = bits / 8;
    std::memcpy(target.data() + target_at * width, source.data() + source_at * width,
                count * width);
    return;
  }
  const unsigned mask = (1u << bits) - 1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t from = (source_at + i) * bits;
    const int64_t to = (target_at + i) * bits;
    const unsigned value = (std::to_integer<unsigned>(source[from / 8]) >> (from % 8)) & mask;
    target[to / 8] &= std::byte(~(mask << (to % 8)));
    target[to / 8] |= std::byte(value << (to % 8));
  }
}

// Visits the runs that are contiguous in both array and box: visit(offset in the array, offset in
// the box, count), in elements.
template <typename Visit>
void ForEachRow(const Shape& shape, const Box& box, Visit visit) {
  if (box.empty()) return;
  const int rank = box.rank();
  if (rank == 0) return visit(0, 0, 1);
  const int64_t columns = box.dims[rank - 1].size();
  std::vector<int64_t> at;
  for (const planner::Interval& d : box.dims) at.push_back(d.lo);
  for (int64_t done = 0;; done += columns) {
    int64_t offset = 0;
    for (int d = 0; d < rank; ++d) offset = offset * shape[d] + at[d];
    visit(offset, done, columns);
    int d = rank - 2;
    for (; d >= 0 && ++at[d] == box.dims[d].hi; --d) at[d] = box.dims[d].lo;
    if (d < 0) return;
  }
}

}  // namespace

size_t DenseBytes(ElementType type, int64_t elements) {
  return (static_cast<size_t>(elements) * BitWidth(type) + 7) / 8;
}

void ReadBox(ElementType type, const Shape& shape, const Box& box,
             absl::Span<const std::byte> array, absl::Span<std::byte> shard) {
  REMESH_CHECK(shard.size() == DenseBytes(type, box.element_count()));
  ForEachRow(shape, box, [&](int64_t in_array, int64_t in_box, int64_t count) {
    CopyElements(BitWidth(type), array, in_array, shard, in_box, count);
  });
}

void WriteBox(ElementType type, const Shape& shape, const Box& box,
              absl::Span<const std::byte> shard, absl::Span<std::byte> array) {
  REMESH_CHECK(shard.size() == DenseBytes(type, box.element_count()));
  ForEachRow(shape, box, [&](int64_t in_array, int64_t in_box, int64_t count) {
    CopyElements(BitWidth(type), shard, in_box, array, in_array, count);
  });
}

}  // namespace remesh::client
