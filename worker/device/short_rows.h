// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace remesh::worker {

// Rows of a few bits at one stride, as single elements of packed 4-bit arrays: row i is at bit
// `bit` + i * `stride` of `data`. Bits are counted as in bit_copy.h.
struct ShortRows {
  static constexpr int64_t kBitsMax = 32;

  std::byte* data = nullptr;
  int64_t bit = 0;
  int64_t stride = 0;
  int64_t row_bits = 0;  // in [1, kBitsMax]
  int64_t count = 0;
};

// Packs the rows, one after the other, from bit `at` of `packed` on, which has no other writer.
// Bits of the last byte that come after them become zero; bits before `at` stay.
void PackShortRows(const ShortRows& rows, std::byte* packed, int64_t at);

// The inverse. Bytes that a row covers only in part may have other writers too (CopyBits() and this
// function): they take turns. Other bytes are not touched.
void UnpackShortRows(const std::byte* packed, int64_t at, const ShortRows& rows);

}  // namespace remesh::worker
