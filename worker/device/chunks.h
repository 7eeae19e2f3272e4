// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/int_math.h"

namespace remesh::worker {

// The unit of verification: 16 KiB of a stretch, counted from its begin (the last chunk may be
// shorter), with the XXH3-64 of its packed bits. A stretch is a range of a tape that no hop cuts, so
// that what a relay passes on has the very chunks that the origin hashed.
inline constexpr int64_t kChunkBytes = int64_t{16} << 10;
inline constexpr int64_t kChunkBits = kChunkBytes * 8;

// Packed parts of a buffer begin at multiples of so many bytes.
inline constexpr int64_t kPartAlignment = 16;

inline int64_t PartBytes(int64_t bits) {
  return CeilDiv(bits, kPartAlignment * 8) * kPartAlignment;
}

inline int64_t ChunksOf(int64_t lo, int64_t hi) { return CeilDiv(hi - lo, kChunkBits); }

}  // namespace remesh::worker
