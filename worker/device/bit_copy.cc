// SPDX-License-Identifier: Apache-2.0
#include "worker/device/bit_copy.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace remesh::worker {
namespace {

static_assert(std::endian::native == std::endian::little);

// Loads `count` <= 8 bits, from `bit` on. Reads only bytes that hold some of these bits.
uint32_t LoadBits(const std::byte* source, int64_t bit, int count) {
  const std::byte* at = source + bit / 8;
  const int shift = static_cast<int>(bit % 8);
  uint32_t value = LoadSharedByte(at);
  if (shift + count > 8) value |= LoadSharedByte(at + 1) << 8;
  return (value >> shift) & ((1u << count) - 1);
}

// Writes the `count` low bits of `value` at bit `shift` of a byte. REQUIRES: shift + count <= 8.
void StoreBits(std::byte* at, int shift, int count, uint32_t value) {
  if (count == 8) {
    *at = static_cast<std::byte>(value);
    return;
  }
  BlockLock lock;
  StoreSharedBits(at, shift, count, value, lock);
}

// Copies whole target bytes from a source that starts at bit `shift` (1..7) of a byte. It reads
// whole words only where the run covers every byte of them; LoadBits reads bytes with other
// writers.
void CopyShifted(const std::byte* source, int shift, std::byte* target, int64_t bytes) {
  auto one = [&](int64_t i) { target[i] = static_cast<std::byte>(LoadBits(source + i, shift, 8)); };
  int64_t i = 0;
  if (i < bytes) one(i++);
  for (; i + 9 <= bytes; i += 8) {
    uint64_t word;
    std::memcpy(&word, source + i, sizeof(word));
    const uint64_t next = std::to_integer<uint64_t>(source[i + 8]);
    word = (word >> shift) | (next << (64 - shift));
    std::memcpy(target + i, &word, sizeof(word));
  }
  while (i < bytes) one(i++);
}

}  // namespace

void CopyBits(const std::byte* source, int64_t source_bit, std::byte* target, int64_t target_bit,
              int64_t bits) {
  if (bits == 0) return;
  std::byte* at = target + target_bit / 8;
  if (const int shift = static_cast<int>(target_bit % 8); shift != 0 || bits < 8) {
    const int head = static_cast<int>(std::min<int64_t>(8 - shift, bits));
    StoreBits(at++, shift, head, LoadBits(source, source_bit, head));
    source_bit += head;
    bits -= head;
  }
  const std::byte* from = source + source_bit / 8;
  const int shift = static_cast<int>(source_bit % 8);
  const int64_t bytes = bits / 8;
  if (shift == 0) {
    std::memcpy(at, from, static_cast<size_t>(bytes));
  } else {
    CopyShifted(from, shift, at, bytes);
  }
  if (const int tail = static_cast<int>(bits % 8); tail > 0) {
    StoreBits(at + bytes, 0, tail, LoadBits(from + bytes, shift, tail));
  }
}

}  // namespace remesh::worker
