// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "worker/device/shard_view.h"

// The simplest reference implementations of copies, one bit at a time, and random cases to compare
// them on.
namespace remesh::worker::reference {

using Bytes = std::vector<std::byte>;

inline bool GetBit(const std::byte* data, int64_t bit) {
  return (std::to_integer<int>(data[bit / 8]) >> (bit % 8) & 1) != 0;
}

inline void SetBit(std::byte* data, int64_t bit, bool value) {
  const std::byte mask{static_cast<uint8_t>(1 << (bit % 8))};
  data[bit / 8] = value ? data[bit / 8] | mask : data[bit / 8] & ~mask;
}

// Where the element at global index `at` begins in a shard of `frame`, in bits.
inline int64_t BitOf(const planner::Box& frame, const std::vector<int64_t>& at, int bits) {
  int64_t element = 0;
  for (int d = 0; d < frame.rank(); ++d)
    element = element * frame.dims[d].size() + at[d] - frame.dims[d].lo;
  return element * bits;
}

// Calls visit(index) for every element of `box`, row-major.
template <typename Visit>
void ForEachElement(const planner::Box& box, Visit visit) {
  if (box.empty()) return;
  std::vector<int64_t> at;
  for (const planner::Interval& dim : box.dims) at.push_back(dim.lo);
  while (true) {
    visit(at);
    int d = box.rank() - 1;
    while (d >= 0 && ++at[d] == box.dims[d].hi) {
      at[d] = box.dims[d].lo;
      --d;
    }
    if (d < 0) return;
  }
}

inline void CopyElements(const ShardView& source, const planner::Box& box,
                         const ShardView& target) {
  const int bits = source.bits_per_element;
  ForEachElement(box, [&](const std::vector<int64_t>& at) {
    const int64_t from = BitOf(source.frame, at, bits), to = BitOf(target.frame, at, bits);
    for (int b = 0; b < bits; ++b) SetBit(target.data, to + b, GetBit(source.data, from + b));
  });
}

inline Bytes PackElements(const ShardView& source, const planner::Box& box) {
  Bytes packed(static_cast<size_t>(PackedBytes(box, source.bits_per_element)));
  if (!packed.empty()) CopyElements(source, box, {packed.data(), box, source.bits_per_element});
  return packed;
}

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}

  int64_t Uniform(int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(engine_);
  }

  // A box that may be empty now and then.
  planner::Box AnyBox(int rank, int64_t extent_max) {
    planner::Box box;
    for (int d = 0; d < rank; ++d) {
      const int64_t lo = Uniform(0, 5);
      box.dims.push_back({lo, lo + Uniform(Uniform(0, 20) == 0 ? 0 : 1, extent_max)});
    }
    return box;
  }

  // A frame around `box`; in each dimension it is tight half of the time.
  planner::Box Around(const planner::Box& box) {
    planner::Box frame = box;
    for (planner::Interval& dim : frame.dims) {
      if (Uniform(0, 1) == 0) dim = {dim.lo - Uniform(0, 3), dim.hi + Uniform(0, 3)};
    }
    return frame;
  }

  // Noise for a shard of `frame`, with the zero bits that end a shard.
  Bytes Shard(const planner::Box& frame, int bits) {
    Bytes bytes(static_cast<size_t>(PackedBytes(frame, bits)));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(Uniform(0, 255));
    const int64_t end = frame.element_count() * bits;
    for (int64_t bit = end; bit < static_cast<int64_t>(bytes.size()) * 8; ++bit)
      SetBit(bytes.data(), bit, false);
    return bytes;
  }

 private:
  std::mt19937 engine_;
};

}  // namespace remesh::worker::reference
