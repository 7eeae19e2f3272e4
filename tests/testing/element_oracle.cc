// SPDX-License-Identifier: Apache-2.0
#include "tests/testing/element_oracle.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace remesh::testing {

using planner::BitWidth;
using planner::Box;

namespace {

constexpr uint64_t kHighHalfSalt = uint64_t{1} << 32;

// Visits the box's elements in row-major order as (position in the box, global index); false stops.
template <typename Visit>
void ForEachElement(const OracleArray& array, const Box& box, Visit visit) {
  if (box.empty()) return;
  std::vector<int64_t> at;
  for (const planner::Interval& d : box.dims) at.push_back(d.lo);
  for (uint64_t position = 0;; ++position) {
    uint64_t index = 0;
    for (int d = 0; d < box.rank(); ++d) index = index * array.shape[d] + at[d];
    if (!visit(position, index)) return;
    int d = box.rank() - 1;
    for (; d >= 0 && ++at[d] == box.dims[d].hi; --d) at[d] = box.dims[d].lo;
    if (d < 0) return;
  }
}

void Store(const OracleBits& bits, int width, uint64_t position, absl::Span<std::byte> buffer) {
  if (width >= 8) {
    const uint64_t words[2] = {bits.low, bits.high};
    std::memcpy(buffer.data() + position * (width / 8), words, width / 8);
    return;
  }
  const uint64_t bit = position * width;
  buffer[bit / 8] |= std::byte(bits.low << (bit % 8));
}

OracleBits Load(int width, uint64_t position, absl::Span<const std::byte> buffer) {
  uint64_t words[2] = {0, 0};
  if (width >= 8) {
    std::memcpy(words, buffer.data() + position * (width / 8), width / 8);
    return {words[0], words[1]};
  }
  const uint64_t bit = position * width;
  const uint64_t byte = std::to_integer<uint64_t>(buffer[bit / 8]);
  return {(byte >> (bit % 8)) & ((uint64_t{1} << width) - 1), 0};
}

std::vector<int64_t> Unflatten(uint64_t index, const planner::Shape& shape) {
  std::vector<int64_t> result(shape.size());
  for (int d = static_cast<int>(shape.size()) - 1; d >= 0; --d) {
    result[d] = static_cast<int64_t>(index % shape[d]);
    index /= shape[d];
  }
  return result;
}

}  // namespace

uint64_t ArrayKey(std::string_view name) {
  uint64_t key = 0xCBF29CE484222325;
  for (unsigned char byte : name) key = (key ^ byte) * 0x100000001B3;
  return key;
}

uint64_t Mix64(uint64_t salt, uint64_t key, uint64_t index) {
  uint64_t z = key + salt * 0xD1342543DE82EF95 + index * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

int SaltCount(planner::ElementType type) {
  const int bits = BitWidth(type);
  return (64 + bits - 1) / bits;
}

OracleBits ElementBits(const OracleArray& array, uint64_t index) {
  const int bits = BitWidth(array.type);
  const uint64_t low = Mix64(array.salt, array.key, index);
  if (bits < 64) return {low & ((uint64_t{1} << bits) - 1), 0};
  if (bits == 64) return {low, 0};
  return {low, Mix64(array.salt + kHighHalfSalt, array.key, index)};
}

size_t BoxBytes(const OracleArray& array, const Box& box) {
  return (box.element_count() * BitWidth(array.type) + 7) / 8;
}

void FillBox(const OracleArray& array, const Box& box, absl::Span<std::byte> buffer) {
  REMESH_CHECK(buffer.size() == BoxBytes(array, box));
  std::fill(buffer.begin(), buffer.end(), std::byte{0});
  const int width = BitWidth(array.type);
  ForEachElement(array, box, [&](uint64_t position, uint64_t index) {
    Store(ElementBits(array, index), width, position, buffer);
    return true;
  });
}

std::optional<OracleMismatch> CheckBox(const OracleArray& array, const Box& box,
                                       absl::Span<const std::byte> buffer) {
  REMESH_CHECK(buffer.size() == BoxBytes(array, box));
  const int width = BitWidth(array.type);
  std::optional<OracleMismatch> wrong;
  ForEachElement(array, box, [&](uint64_t position, uint64_t index) {
    const OracleBits expected = ElementBits(array, index);
    const OracleBits found = Load(width, position, buffer);
    if (found != expected) {
      wrong = OracleMismatch{Unflatten(index, array.shape), expected, found};
    }
    return !wrong.has_value();
  });
  return wrong;
}

}  // namespace remesh::testing
