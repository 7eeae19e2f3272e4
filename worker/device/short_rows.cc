// SPDX-License-Identifier: Apache-2.0
#include "worker/device/short_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "worker/device/bit_copy.h"
#include "worker/device/block_lock.h"

namespace remesh::worker {
namespace {

static_assert(std::endian::native == std::endian::little);

uint64_t LowBits(int64_t count) { return (uint64_t{1} << count) - 1; }

// Reads a row of up to 32 bits, and no byte that holds none of them.
uint64_t LoadRow(const std::byte* data, int64_t bit, int64_t row_bits) {
  const std::byte* at = data + bit / 8;
  const int64_t shift = bit % 8;
  uint64_t value = LoadSharedByte(at);
  for (int64_t read = 8; read < shift + row_bits; read += 8) {
    value |= uint64_t{LoadSharedByte(++at)} << read;
  }
  return value >> shift;
}

void StoreRow(std::byte* data, int64_t bit, int64_t row_bits, uint64_t value, BlockLock& lock) {
  while (row_bits > 0) {
    const int shift = static_cast<int>(bit % 8);
    const int count = static_cast<int>(std::min<int64_t>(8 - shift, row_bits));
    StoreSharedBits(data + bit / 8, shift, count, static_cast<uint32_t>(value & LowBits(count)),
                    lock);
    value >>= count;
    bit += count;
    row_bits -= count;
  }
}

// One nibble of every byte: words can be read and written, as every byte of them is shared by those
// who take turns, and none is written by others as a whole.
bool IsNibbleOfEveryByte(const ShortRows& rows) {
  return rows.row_bits == 4 && rows.stride == 8 && rows.bit % 4 == 0;
}

std::atomic_ref<uint64_t> SharedWord(std::byte* at) {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at));
}

constexpr uint64_t kNibbles = 0x0f0f0f0f0f0f0f0f;

// The low nibbles of 8 bytes, next to each other.
uint64_t Compress(uint64_t word) {
  word &= kNibbles;
  word = (word | word >> 4) & 0x00ff00ff00ff00ff;
  word = (word | word >> 8) & 0x0000ffff0000ffff;
  return (word | word >> 16) & 0xffffffff;
}

// The inverse.
uint64_t Spread(uint64_t bits) {
  bits = (bits | bits << 16) & 0x0000ffff0000ffff;
  bits = (bits | bits << 8) & 0x00ff00ff00ff00ff;
  return (bits | bits << 4) & kNibbles;
}

// The number of rows before the first whole word, and of the words.
std::pair<int64_t, int64_t> WordsOf(const ShortRows& rows) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(rows.data + rows.bit / 8);
  const int64_t before = std::min<int64_t>(rows.count, static_cast<int64_t>((8 - first % 8) % 8));
  return {before, (rows.count - before) / 8};
}

// The rows from row `first` on.
ShortRows From(const ShortRows& rows, int64_t first, int64_t count) {
  ShortRows some = rows;
  some.bit += first * rows.stride;
  some.count = count;
  return some;
}

// Whether every row is within one byte: then it is read and written in one step.
bool WithinBytes(const ShortRows& rows) {
  if (rows.row_bits > 8 || 8 % rows.row_bits != 0) return false;
  return rows.bit % rows.row_bits == 0 && rows.stride % rows.row_bits == 0;
}

// Collects bits and writes them 32 at a time.
class BitWriter {
 public:
  BitWriter(std::byte* packed, int64_t at) : out_(packed + at / 8), count_(at % 8) {
    if (count_ > 0) bits_ = std::to_integer<uint64_t>(*out_) & LowBits(count_);
  }

  void Write(uint64_t value, int64_t count) {
    bits_ |= (value & LowBits(count)) << count_;
    count_ += count;
    if (count_ < 32) return;
    std::memcpy(out_, &bits_, 4);
    out_ += 4;
    bits_ >>= 32;
    count_ -= 32;
  }

  void Finish() { std::memcpy(out_, &bits_, static_cast<size_t>((count_ + 7) / 8)); }

 private:
  std::byte* out_;
  uint64_t bits_ = 0;
  int64_t count_;  // of bits_, < 32 between calls
};

// Reads bits one word at a time; never beyond the byte of the last.
class BitReader {
 public:
  BitReader(const std::byte* packed, int64_t at, int64_t bits)
      : in_(packed + at / 8), left_(at % 8 + bits) {
    Fill();
    Take(at % 8);
  }

  uint64_t Read(int64_t count) {
    if (count_ < count) Fill();
    const uint64_t value = bits_ & LowBits(count);
    Take(count);
    return value;
  }

 private:
  void Fill() {
    const int64_t bytes = std::min<int64_t>(4, (left_ + 7) / 8);
    uint32_t word = 0;
    if (bytes == 4) {  // a constant size is a move, not a call
      std::memcpy(&word, in_, 4);
    } else {
      std::memcpy(&word, in_, static_cast<size_t>(bytes));
    }
    bits_ |= uint64_t{word} << count_;
    in_ += bytes;
    count_ += 8 * bytes;
    left_ -= 8 * bytes;
  }

  void Take(int64_t count) {
    bits_ >>= count;
    count_ -= count;
  }

  const std::byte* in_;
  int64_t left_;  // bits that were not read from memory
  uint64_t bits_ = 0;
  int64_t count_ = 0;
};

void PackRows(const ShortRows& rows, BitWriter& writer) {
  const int64_t row_bits = rows.row_bits;
  int64_t bit = rows.bit;
  if (WithinBytes(rows)) {
    for (int64_t i = 0; i < rows.count; ++i, bit += rows.stride) {
      writer.Write(LoadSharedByte(rows.data + bit / 8) >> (bit % 8), row_bits);
    }
  } else {
    for (int64_t i = 0; i < rows.count; ++i, bit += rows.stride) {
      writer.Write(LoadRow(rows.data, bit, row_bits), row_bits);
    }
  }
}

void PackNibbles(const ShortRows& rows, BitWriter& writer) {
  const auto [before, words] = WordsOf(rows);
  PackRows(From(rows, 0, before), writer);
  std::byte* at = rows.data + rows.bit / 8 + before;
  for (int64_t i = 0; i < words; ++i, at += 8) {
    const uint64_t word = SharedWord(at).load(std::memory_order_relaxed);
    writer.Write(Compress(word >> (rows.bit % 8)), 32);
  }
  const int64_t done = before + 8 * words;
  PackRows(From(rows, done, rows.count - done), writer);
}

void UnpackRows(BitReader& reader, const ShortRows& rows, BlockLock& lock) {
  const int64_t row_bits = rows.row_bits;
  int64_t bit = rows.bit;
  if (WithinBytes(rows)) {
    for (int64_t i = 0; i < rows.count; ++i, bit += rows.stride) {
      StoreSharedBits(rows.data + bit / 8, static_cast<int>(bit % 8), static_cast<int>(row_bits),
                      static_cast<uint32_t>(reader.Read(row_bits)), lock);
    }
  } else {
    for (int64_t i = 0; i < rows.count; ++i, bit += rows.stride) {
      StoreRow(rows.data, bit, row_bits, reader.Read(row_bits), lock);
    }
  }
}

void UnpackNibbles(BitReader& reader, const ShortRows& rows, BlockLock& lock) {
  const auto [before, words] = WordsOf(rows);
  UnpackRows(reader, From(rows, 0, before), lock);
  std::byte* at = rows.data + rows.bit / 8 + before;
  const int64_t shift = rows.bit % 8;
  for (int64_t i = 0; i < words; ++i, at += 8) {
    lock.Hold(at);
    const uint64_t bits = Spread(reader.Read(32)) << shift;
    const uint64_t others = SharedWord(at).load(std::memory_order_relaxed) & ~(kNibbles << shift);
    SharedWord(at).store(others | bits, std::memory_order_relaxed);
  }
  const int64_t done = before + 8 * words;
  UnpackRows(reader, From(rows, done, rows.count - done), lock);
}

}  // namespace

void PackShortRows(const ShortRows& rows, std::byte* packed, int64_t at) {
  BitWriter writer(packed, at);
  if (IsNibbleOfEveryByte(rows)) {
    PackNibbles(rows, writer);
  } else {
    PackRows(rows, writer);
  }
  writer.Finish();
}

void UnpackShortRows(const std::byte* packed, int64_t at, const ShortRows& rows) {
  BitReader reader(packed, at, rows.row_bits * rows.count);
  BlockLock lock;
  if (IsNibbleOfEveryByte(rows)) {
    UnpackNibbles(reader, rows, lock);
  } else {
    UnpackRows(reader, rows, lock);
  }
}

}  // namespace remesh::worker
