// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "planner/values/box.h"
#include "planner/values/element_type.h"

namespace remesh::testing {

// The element oracle: what every element of a test array holds, as a function of its array and its
// global index alone. All arithmetic is modulo 2^64.
//
//   key(name)               = FNV-1a, 64 bits, over the name's bytes
//   mix64(salt, key, index) = finalise(key + salt * 0xD1342543DE82EF95 + index *
//   0x9E3779B97F4A7C15) finalise(z): z ^= z >> 30; z *= 0xBF58476D1CE4E5B9; z ^= z >> 27; z *=
//   0x94D049BB133111EB;
//                z ^= z >> 31
//
// `index` is the row-major index in the whole array. An element of b <= 64 bits holds the low b
// bits of mix64(salt, key, index); one of 128 bits holds mix64(salt, ...) in its low and mix64(salt
// + 2^32, ...) in its high half. A type of b < 64 bits cannot tell all elements apart by one salt:
// a test that must runs SaltCount(type) salts.
//
// client/python/remesh/oracle.py is the same function; tests/data/element_oracle.txt holds vectors
// for both. The finaliser is splitmix64's (Steele, Lea, Flood 2014), a bijection.

uint64_t ArrayKey(std::string_view name);
uint64_t Mix64(uint64_t salt, uint64_t key, uint64_t index);

// ceil(64 / bits).
int SaltCount(planner::ElementType type);

// A test array.
struct OracleArray {
  uint64_t key = 0;  // ArrayKey(name)
  planner::ElementType type = planner::ElementType::kU8;
  planner::Shape shape;
  uint64_t salt = 0;
};

// Bits of the element with row-major global index `index`, in the low bits of the pair (low, high).
struct OracleBits {
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const OracleBits&, const OracleBits&) = default;
};
OracleBits ElementBits(const OracleArray& array, uint64_t index);

// Bytes of a dense buffer of a box of `array`.
size_t BoxBytes(const OracleArray& array, const planner::Box& box);

// Writes `box`: dense row-major over the box, packed below a byte, low bits first, padding zero.
// REQUIRES: buffer.size() == BoxBytes(array, box).
void FillBox(const OracleArray& array, const planner::Box& box, absl::Span<std::byte> buffer);

// A wrong element.
struct OracleMismatch {
  std::vector<int64_t> index;  // global, per dimension
  OracleBits expected;
  OracleBits found;
};

// The first wrong element of a buffer as FillBox writes it, or nullopt. Padding is not looked at.
std::optional<OracleMismatch> CheckBox(const OracleArray& array, const planner::Box& box,
                                       absl::Span<const std::byte> buffer);

}  // namespace remesh::testing
