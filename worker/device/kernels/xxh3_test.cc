// SPDX-License-Identifier: Apache-2.0
#include "worker/device/kernels/xxh3.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "worker/device/kernels/move.h"
#include "worker/device/kernels/run_chunk.h"
#include "xxhash.h"

namespace remesh::worker::kernels {
namespace {

class Xxh3Test : public testing::Test {
 protected:
  Xxh3Test() : noise_(kNoiseBytes) {
    std::mt19937 random(7);
    for (unsigned char& byte : noise_) byte = static_cast<unsigned char>(random());
  }

  // Bytes that begin anywhere, packed as a chunk is.
  void ExpectTheLibrarys(int start, int bytes) {
    PieceEntry piece{.data = noise_.data(),
                     .end = bytes * int64_t{8},
                     .first_bit = start * int64_t{8},
                     .run_bits = std::max(bytes, 1) * int64_t{8}};
    for (PieceEntry::Loop& loop : piece.loops) loop = {1, 0};
    MoveRange<MoveKind::kGather, LanesInTurn>(&piece, 0, piece.end, stage_);
    ASSERT_EQ(std::memcmp(stage_.words, noise_.data() + start, static_cast<size_t>(bytes)), 0);
    ASSERT_EQ(HashOf<LanesInTurn>(stage_.words, bytes),
              XXH3_64bits(noise_.data() + start, static_cast<size_t>(bytes)))
        << bytes << " bytes from " << start;
  }

  static constexpr size_t kNoiseBytes = 17000;
  std::vector<unsigned char> noise_;
  Stage stage_;
};

TEST_F(Xxh3Test, IsTheLibrarysForEveryShortLength) {
  for (int bytes = 0; bytes <= 2048; ++bytes) {
    for (int start : {0, bytes % 16, 8 + bytes % 7}) ExpectTheLibrarys(start, bytes);
  }
}

TEST_F(Xxh3Test, IsTheLibrarysUpToAChunk) {
  for (int bytes = 2048; bytes <= 16384; bytes += 61) ExpectTheLibrarys(bytes % 32, bytes);
  for (int bytes = 16384 - 130; bytes <= 16384; ++bytes) ExpectTheLibrarys(bytes % 32, bytes);
}

}  // namespace
}  // namespace remesh::worker::kernels
