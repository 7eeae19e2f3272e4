// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <memory>

#include "base/check.h"
#include "worker/device/bit_copy.h"
#include "worker/device/shard_view.h"
#include "worker/device/strided_runs.h"
#include "xxhash.h"
// XXH3 with the widest vectors that the processor has: the library's own functions use SSE2 alone.
#if defined(__x86_64__)
#include "xxh_x86dispatch.h"
#endif

namespace remesh {
namespace {

// Hashes runs of bits as if they had been packed one after the other, through a buffer that stays
// in the cache.
class DigestStream {
 public:
  DigestStream() : state_(XXH3_createState(), XXH3_freeState) {
    REMESH_CHECK(state_ != nullptr && XXH3_64bits_reset(state_.get()) == XXH_OK);
  }

  // Whole rows; only while what came before is whole bytes.
  void AppendRows(const std::byte* source, int64_t stride, int64_t count, int64_t row_bytes) {
    if (row_bytes >= kDirectBytes) {
      Flush();
      for (int64_t i = 0; i < count; ++i) Update(source + i * stride, row_bytes);
      return;
    }
    while (count > 0) {
      const int64_t rows = std::min(count, (kBufferBytes - used_bits_ / 8) / row_bytes);
      CopyRows(source, stride, buffer_.data() + used_bits_ / 8, row_bytes, rows, row_bytes);
      used_bits_ += rows * row_bytes * 8;
      source += rows * stride;
      count -= rows;
      if (count > 0) Flush();
    }
  }

  void AppendBits(const std::byte* source, int64_t bit, int64_t bits) {
    while (bits > 0) {
      const int64_t now = std::min(bits, kBufferBytes * 8 - used_bits_);
      CopyBits(source, bit, buffer_.data(), used_bits_, now);
      used_bits_ += now;
      bit += now;
      bits -= now;
      if (bits > 0) Flush();
    }
  }

  uint64_t Finish() {
    if (const int tail = static_cast<int>(used_bits_ % 8); tail != 0) {
      buffer_[used_bits_ / 8] &= std::byte{static_cast<uint8_t>((1u << tail) - 1)};
      used_bits_ += 8 - tail;
    }
    Flush();
    return XXH3_64bits_digest(state_.get());
  }

 private:
  static constexpr int64_t kBufferBytes = 16 << 10;
  static constexpr int64_t kDirectBytes =
      512;  // shorter rows are gathered first: an update costs ~20 ns

  // Hands the whole bytes on; bits of a byte begun move to the front.
  void Flush() {
    const int64_t bytes = used_bits_ / 8;
    Update(buffer_.data(), bytes);
    used_bits_ %= 8;
    if (used_bits_ != 0) buffer_[0] = buffer_[bytes];
  }

  void Update(const std::byte* data, int64_t bytes) {
    XXH3_64bits_update(state_.get(), data, static_cast<size_t>(bytes));
  }

  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
  int64_t used_bits_ = 0;
  std::array<std::byte, kBufferBytes> buffer_;
};

}  // namespace

uint64_t DigestPacked(std::span<const std::byte> packed) {
  return XXH3_64bits(packed.data(), packed.size());
}

uint64_t DigestBox(const ShardView& shard, const Box& box) {
  const StridedRuns runs = MakeRuns(shard.frame, box, box, shard.bits_per_element);
  if (runs.run_bits == 0) return DigestPacked({});
  if (runs.loops.empty() && runs.byte_aligned()) {
    return DigestPacked({shard.data + runs.source_bit / 8, static_cast<size_t>(runs.run_bits / 8)});
  }
  DigestStream stream;
  if (runs.byte_aligned()) {
    const size_t outer = runs.loops.size() - 1;
    const StridedRuns::Loop& rows = runs.loops.back();
    ForEachStart(runs, outer, [&](int64_t bit, int64_t) {
      stream.AppendRows(shard.data + bit / 8, rows.source_stride / 8, rows.count,
                        runs.run_bits / 8);
    });
  } else {
    ForEachStart(runs, runs.loops.size(),
                 [&](int64_t bit, int64_t) { stream.AppendBits(shard.data, bit, runs.run_bits); });
  }
  return stream.Finish();
}

}  // namespace remesh
