// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/int_math.h"
#include "planner/values/box.h"

namespace remesh {

// A shard in memory: the elements of `frame` (global indices) of one array, dense and row-major
// from bit 0 of `data`. Elements of less than 8 bits are packed without padding between rows, low
// bits of a byte first; bits after the last element are zero.
struct ShardView {
  std::byte* data = nullptr;
  Box frame;
  int bits_per_element = 8;

  int64_t bytes() const { return BytesOfBits(frame.element_count() * bits_per_element); }
};

// Bytes of `box` packed row-major: rounded up to whole bytes.
int64_t PackedBytes(const Box& box, int bits_per_element);

// Copies `box` between two shards of one array. Bytes that other boxes share (sub-byte elements)
// are updated atomically, so that two threads may write neighbouring boxes. REQUIRES: both frames
// contain box; equal widths; the shards do not overlap in memory.
void CopyBox(const ShardView& source, const Box& box, const ShardView& target);

// Packs `box` row-major into `packed`, whose size is PackedBytes(); unused last bits become zero.
void PackBox(const ShardView& source, const Box& box, std::span<std::byte> packed);
// The inverse, with CopyBox's rule for shared bytes.
void UnpackBox(std::span<const std::byte> packed, const Box& box, const ShardView& target);

// The bytes of `box` where they lie, when they are contiguous, start on a byte and share none with
// other boxes; nullopt otherwise.
std::optional<std::span<std::byte>> ContiguousBytes(const ShardView& shard, const Box& box);

// XXH3-64 over the packed elements of `box`: the piece digest of the design.
uint64_t DigestBox(const ShardView& shard, const Box& box);
uint64_t DigestPacked(std::span<const std::byte> packed);

}  // namespace remesh
