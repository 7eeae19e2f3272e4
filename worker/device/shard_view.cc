// SPDX-License-Identifier: Apache-2.0
#include "worker/device/shard_view.h"

#include "base/check.h"
#include "worker/device/strided_runs.h"

namespace remesh {

int64_t PackedBytes(const Box& box, int bits_per_element) {
  return BytesOfBits(box.element_count() * bits_per_element);
}

void CopyBox(const ShardView& source, const Box& box, const ShardView& target) {
  REMESH_CHECK(source.bits_per_element == target.bits_per_element);
  CopyRuns(MakeRuns(source.frame, target.frame, box, source.bits_per_element), source.data,
           target.data);
}

void PackBox(const ShardView& source, const Box& box, std::span<std::byte> packed) {
  REMESH_CHECK(static_cast<int64_t>(packed.size()) == PackedBytes(box, source.bits_per_element));
  if (packed.empty()) return;
  packed.back() = std::byte{0};  // the bits after the last element; the rest of the byte is copied
  CopyRuns(MakeRuns(source.frame, box, box, source.bits_per_element), source.data, packed.data());
}

void UnpackBox(std::span<const std::byte> packed, const Box& box, const ShardView& target) {
  REMESH_CHECK(static_cast<int64_t>(packed.size()) == PackedBytes(box, target.bits_per_element));
  CopyRuns(MakeRuns(box, target.frame, box, target.bits_per_element), packed.data(), target.data);
}

std::optional<std::span<std::byte>> ContiguousBytes(const ShardView& shard, const Box& box) {
  const StridedRuns runs = MakeRuns(shard.frame, box, box, shard.bits_per_element);
  if (!runs.loops.empty() || runs.source_bit % 8 != 0) return std::nullopt;
  const int64_t end = runs.source_bit + runs.run_bits;
  // A last byte in part is nobody else's when the shard ends in it.
  if (end % 8 != 0 && end != shard.frame.element_count() * shard.bits_per_element) {
    return std::nullopt;
  }
  if (runs.run_bits == 0) return std::span<std::byte>();
  return std::span<std::byte>(shard.data + runs.source_bit / 8,
                              static_cast<size_t>(BytesOfBits(runs.run_bits)));
}

}  // namespace remesh
