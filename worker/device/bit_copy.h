// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "worker/device/block_lock.h"

namespace remesh::worker {

// A byte that may have other writers.
inline uint32_t LoadSharedByte(const std::byte* at) {
  // atomic_ref takes no pointer to const; nothing is written.
  std::atomic_ref<std::byte> byte(*const_cast<std::byte*>(at));
  return std::to_integer<uint32_t>(byte.load(std::memory_order_relaxed));
}

// Writes the `count` low bits of `value`, which has no others, at bit `shift` of a byte whose other
// bits may have other writers. REQUIRES: shift + count <= 8.
inline void StoreSharedBits(std::byte* at, int shift, int count, uint32_t value, BlockLock& lock) {
  lock.Hold(at);
  const uint32_t mask = ((1u << count) - 1) << shift;
  const uint32_t bits = (LoadSharedByte(at) & ~mask) | (value << shift);
  std::atomic_ref<std::byte> byte(*at);
  byte.store(static_cast<std::byte>(bits), std::memory_order_relaxed);
}

// Copies `bits` bits from bit `source_bit` of `source` to bit `target_bit` of `target`; bit i is
// bit i%8 (low first) of byte i/8. Bytes that the run only partly covers may have other writers
// too, with which it takes turns (BlockLock). Bytes outside the run are not touched.
// REQUIRES: bits >= 0; the two runs do not overlap.
void CopyBits(const std::byte* source, int64_t source_bit, std::byte* target, int64_t target_bit,
              int64_t bits);

}  // namespace remesh::worker
