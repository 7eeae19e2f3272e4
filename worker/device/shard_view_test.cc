// SPDX-License-Identifier: Apache-2.0
#include "worker/device/shard_view.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "worker/device/testing/copy_reference.h"
#include "xxhash.h"

namespace remesh {
namespace {

using reference::Bytes;

// One random pair of shards of an array with a box that both hold.
struct Case {
  Case(reference::Random& random, int rank, int bits, int64_t extent_max)
      : box(random.AnyBox(rank, extent_max)), bits(bits) {
    source.frame = random.Around(box);
    target.frame = random.Around(box);
    source.bits_per_element = target.bits_per_element = bits;
    source_bytes = random.Shard(source.frame, bits);
    target_bytes = random.Shard(target.frame, bits);
    source.data = source_bytes.data();
    target.data = target_bytes.data();
  }

  std::string Describe() const {
    return source.frame.DebugString() + box.DebugString() + target.frame.DebugString() + " x " +
           std::to_string(bits);
  }

  Box box;
  int bits;
  ShardView source, target;
  Bytes source_bytes, target_bytes;
};

class ShardViewTest : public testing::TestWithParam<int> {
 protected:
  template <typename Check>
  void ForRandomCases(Check check) {
    reference::Random random(17 + GetParam());
    for (int rank = 0; rank <= 4; ++rank) {
      for (int round = 0; round < (rank == 0 ? 3 : 60); ++round) {
        Case c(random, rank, GetParam(), rank == 1 ? 300 : 9);
        SCOPED_TRACE(c.Describe());
        ASSERT_NO_FATAL_FAILURE(check(c));
      }
    }
  }
};

TEST_P(ShardViewTest, CopyMovesExactlyTheBox) {
  ForRandomCases([](Case& c) {
    Bytes expected = c.target_bytes;
    reference::CopyElements(c.source, c.box, {expected.data(), c.target.frame, c.bits});
    CopyBox(c.source, c.box, c.target);
    ASSERT_EQ(c.target_bytes, expected);
  });
}

TEST_P(ShardViewTest, PackIsRowMajorWithZeroedLastBits) {
  ForRandomCases([](Case& c) {
    Bytes packed(static_cast<size_t>(PackedBytes(c.box, c.bits)), std::byte{0xff});
    PackBox(c.source, c.box, packed);
    ASSERT_EQ(packed, reference::PackElements(c.source, c.box));
  });
}

TEST_P(ShardViewTest, UnpackWritesExactlyTheBox) {
  ForRandomCases([](Case& c) {
    Bytes expected = c.target_bytes;
    reference::CopyElements(c.source, c.box, {expected.data(), c.target.frame, c.bits});
    UnpackBox(reference::PackElements(c.source, c.box), c.box, c.target);
    ASSERT_EQ(c.target_bytes, expected);
  });
}

TEST_P(ShardViewTest, DigestIsThatOfThePackedBox) {
  ForRandomCases([](Case& c) {
    const Bytes packed = reference::PackElements(c.source, c.box);
    ASSERT_EQ(DigestBox(c.source, c.box), XXH3_64bits(packed.data(), packed.size()));
    ASSERT_EQ(DigestPacked(packed), XXH3_64bits(packed.data(), packed.size()));
  });
}

TEST_P(ShardViewTest, ContiguousBytesAreThePackedBox) {
  int found = 0;
  ForRandomCases([&](Case& c) {
    const auto bytes = ContiguousBytes(c.source, c.box);
    if (!bytes.has_value()) return;
    ++found;
    ASSERT_EQ(Bytes(bytes->begin(), bytes->end()), reference::PackElements(c.source, c.box));
  });
  EXPECT_GT(found, 10);
}

INSTANTIATE_TEST_SUITE_P(Widths, ShardViewTest, testing::Values(1, 2, 4, 8, 16, 32, 64, 128),
                         testing::PrintToStringParamName());

TEST(DigestTest, StreamsBoxesLargerThanItsBuffer) {
  reference::Random random(5);
  for (int bits : {1, 4, 8, 32}) {
    for (int64_t columns : {3, 257, 4099}) {
      const Box frame{{{0, 300}, {0, columns + 5}}};
      const Box box{{{1, 299}, {2, 2 + columns}}};
      Bytes bytes = random.Shard(frame, bits);
      const ShardView shard{bytes.data(), frame, bits};
      Bytes packed(static_cast<size_t>(PackedBytes(box, bits)));
      PackBox(shard, box, packed);
      EXPECT_EQ(DigestBox(shard, box), DigestPacked(packed)) << bits << " x " << columns;
    }
  }
}

TEST(ContiguousBytesTest, SharedBytesAreNotContiguous) {
  Bytes bytes(8);
  const ShardView shard{bytes.data(), Box{{{0, 15}}}, 4};
  EXPECT_EQ(ContiguousBytes(shard, Box{{{0, 4}}})->size(), 2u);
  EXPECT_FALSE(ContiguousBytes(shard, Box{{{0, 5}}}).has_value());  // ends inside a byte
  EXPECT_FALSE(ContiguousBytes(shard, Box{{{1, 5}}}).has_value());  // begins inside one
  EXPECT_EQ(ContiguousBytes(shard, Box{{{4, 15}}})->size(),
            6u);  // the half byte at the shard's end is nobody's
  EXPECT_EQ(ContiguousBytes(shard, Box{{{4, 15}}})->data(), bytes.data() + 2);
  EXPECT_EQ(ContiguousBytes(shard, Box{{{3, 3}}})->size(), 0u);
}

// Two threads flip their own boxes, which share a byte, and look whether the other's write undid
// theirs.
TEST(CopyBoxTest, ConcurrentNeighboursKeepTheirBits) {
  Bytes zeros(3), ones(3, std::byte{0xff}), target_bytes(3);
  const Box frame{{{0, 24}}};
  const ShardView target{target_bytes.data(), frame, 1};
  std::atomic<int> undone = 0;
  std::latch both(2);
  auto flip = [&](int64_t lo, int64_t hi) {
    const Box box{{{lo, hi}}};
    both.arrive_and_wait();
    for (int i = 0; i < 1000000; ++i) {
      Bytes& source = i % 2 == 0 ? ones : zeros;
      CopyBox({source.data(), frame, 1}, box, target);
      std::byte back[2] = {};
      PackBox(target, box, std::span(back, static_cast<size_t>(PackedBytes(box, 1))));
      const Bytes expected = i % 2 == 0 ? Bytes{std::byte{0x0f}} : Bytes{std::byte{0}};
      if (back[0] != expected[0]) ++undone;
    }
  };
  std::thread left(flip, 8, 12), right(flip, 12, 16);
  left.join();
  right.join();
  EXPECT_EQ(undone, 0);
}

}  // namespace
}  // namespace remesh
