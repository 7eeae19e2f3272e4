// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/int_math.h"

namespace remesh::planner {

// The number of bytes that bits take in memory and in messages. The planner predicts the memory of
// hosts with these functions, and hosts lay out their memory with them.

// Shards and staged stretches begin at multiples of this many bytes.
inline constexpr int64_t kShardAlignment = 64;

// The unit of verification: 16 KiB of a stretch, counted from its begin (the last chunk may be
// shorter), with the XXH3-64 of its packed bits. A stretch is a range of a tape that no hop cuts,
// so that a relay passes on exactly the chunks that the origin hashed.
inline constexpr int64_t kChunkBytes = int64_t{16} << 10;
inline constexpr int64_t kChunkBits = kChunkBytes * 8;
inline constexpr int64_t kDigestBytes = 8;

// Stretches begin at multiples of this many bytes of their message.
inline constexpr int64_t kPartAlignment = 16;
// Between GPUs, messages begin at multiples of this many bytes, which suits GPUs and NCCL.
inline constexpr int64_t kMessageAlignment = 256;

inline int64_t RoundedUp(int64_t bytes, int64_t unit) { return CeilDiv(bytes, unit) * unit; }

// Bytes of a box of a shard, or of a stretch that is staged.
inline int64_t StoredBytes(int64_t bits) { return RoundedUp(BytesOfBits(bits), kShardAlignment); }

// Bytes of a stretch in its message.
inline int64_t PartBytes(int64_t bits) { return RoundedUp(BytesOfBits(bits), kPartAlignment); }
inline int64_t ChunksOf(int64_t lo, int64_t hi) { return CeilDiv(hi - lo, kChunkBits); }

// PartBytes() plus the stretch's digests, which follow all stretches of the message.
inline int64_t TravellingBytes(int64_t bits) {
  return PartBytes(bits) + ChunksOf(0, bits) * kDigestBytes;
}

// Bytes of a message between GPUs whose stretches take `travelling` bytes.
inline int64_t MessageBytes(int64_t travelling) { return RoundedUp(travelling, kMessageAlignment); }

}  // namespace remesh::planner
