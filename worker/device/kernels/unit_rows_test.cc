// SPDX-License-Identifier: Apache-2.0
#include "worker/device/kernels/unit_rows.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "worker/device/kernels/run_chunk.h"
#include "xxhash.h"

namespace remesh::worker::kernels {
namespace {

// Compares the place of each unit with that by a division.
void ExpectPlaces(uint64_t row_units, uint64_t within) {
  UnitRows rows;
  rows.first = reinterpret_cast<unsigned char*>(uintptr_t{1} << 60);
  rows.gap = int64_t{1} << 40;
  rows.SetRow(row_units, within);
  for (uint32_t unit = 0; unit < kChunkUnits; ++unit) {
    const int64_t row = static_cast<int64_t>((within + unit) / row_units);
    ASSERT_EQ(rows.At(unit) - rows.first, unit * kUnitBytes + row * rows.gap)
        << "unit " << unit << " in rows of " << row_units << " from " << within;
  }
}

TEST(UnitRowsTest, AUnitIsInTheRowThatADivisionSays) {
  for (uint64_t row_units = 1; row_units <= 2 * kChunkUnits + 1; ++row_units) {
    for (uint64_t within : {uint64_t{0}, row_units / 3, row_units - 1}) {
      ExpectPlaces(row_units, within);
    }
  }
  for (uint64_t row_units : {uint64_t{1} << 20, (uint64_t{1} << 40) + 1}) {
    for (uint64_t left : {uint64_t{1}, uint64_t{700}, uint64_t{kChunkUnits}, row_units / 2}) {
      ExpectPlaces(row_units, row_units - left);
    }
  }
}

// A piece of `loops` in order from the innermost one, long enough for any chunk of a test.
PieceEntry Piece(unsigned char* data, int64_t run_bits, std::vector<PieceEntry::Loop> loops) {
  PieceEntry piece{.data = data, .end = 1 << 28, .first_bit = 0, .run_bits = run_bits};
  for (PieceEntry::Loop& loop : piece.loops) loop = {1, 0};
  for (size_t i = 0; i < loops.size(); ++i) piece.loops[i] = loops[i];
  return piece;
}

bool HasRows(const PieceEntry& piece, int64_t lo) {
  return RowsOfChunk(piece, lo).first != nullptr;
}

TEST(UnitRowsTest, OnlyAlignedRunsOfOneLoopAreRows) {
  alignas(16) unsigned char byte[16];
  constexpr int64_t kRow = 4096 * 8;  // four of them are a chunk
  EXPECT_TRUE(HasRows(Piece(byte, kRow, {{8, 2 * kRow}, {4, 64 * kRow}}), 0));
  EXPECT_TRUE(HasRows(Piece(byte, kRow, {{8, 2 * kRow}, {4, 64 * kRow}}), 12 * kRow));
  EXPECT_FALSE(HasRows(Piece(byte, kRow, {{8, 2 * kRow}, {4, 64 * kRow}}), 6 * kRow));
  EXPECT_TRUE(HasRows(Piece(byte, kRow, {{8, 2 * kRow}}), 256));
  EXPECT_FALSE(HasRows(Piece(byte, kRow, {{8, 2 * kRow}}), 64));
  EXPECT_FALSE(HasRows(Piece(byte + 8, kRow, {{8, 2 * kRow}}), 0));
  EXPECT_FALSE(HasRows(Piece(byte, kRow, {{8, 2 * kRow + 64}}), 0));
  EXPECT_FALSE(HasRows(Piece(byte, kRow + 64, {{8, 2 * kRow}}), 0));
  // What is in one run needs no aligned stride.
  EXPECT_TRUE(HasRows(Piece(byte, 9 * kRow + 8, {{8, 20 * kRow + 8}}), 3 * kRow));
  PieceEntry end = Piece(byte, kRow, {{8, 2 * kRow}});
  end.end = 7 * kRow;
  EXPECT_TRUE(HasRows(end, 3 * kRow));
  EXPECT_FALSE(HasRows(end, 4 * kRow));
}

TEST(UnitRowsTest, AWholeChunksDigestIsTheLibrarys) {
  std::mt19937_64 random(11);
  std::vector<uint64_t> words(kChunkBits / 64), copy(words.size());
  for (int round = 0; round < 50; ++round) {
    for (uint64_t& word : words) word = random();
    const UnitRows source = OneRow(reinterpret_cast<unsigned char*>(words.data()));
    const UnitRows target = OneRow(reinterpret_cast<unsigned char*>(copy.data()));
    EXPECT_EQ(MoveChunkUnits<LanesInTurn>(source, target, true),
              XXH3_64bits(words.data(), kChunkBits / 8));
    EXPECT_EQ(copy, words);
  }
}

}  // namespace
}  // namespace remesh::worker::kernels
