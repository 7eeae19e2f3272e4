// SPDX-License-Identifier: Apache-2.0
#include "worker/device/tape_view.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <string>
#include <thread>

#include "worker/device/tape_cursor.h"
#include "worker/device/testing/copy_reference.h"

namespace remesh::worker {

using planner::Box;

namespace {

using reference::Bytes;

// A tape of a few boxes with elements of one width, each in a shard of its own.
struct TestTape {
  TestTape(reference::Random& random, int rank, int bits) {
    for (int i = 0; i < 3; ++i) {
      const Box box = random.AnyBox(rank, rank == 1 ? 300 : 9);
      if (box.empty()) continue;
      const Box frame = random.Around(box);
      bytes.push_back(random.Shard(frame, bits));
      boxes.push_back(box);
      shards.push_back({bytes.back().data(), frame, bits});
      view.Add(shards.back(), box);
    }
  }

  // The bits of the tape, packed one at a time.
  std::vector<bool> Bits() const {
    std::vector<bool> all;
    for (size_t i = 0; i < boxes.size(); ++i) {
      const Bytes packed = reference::PackElements(shards[i], boxes[i]);
      const int64_t count = boxes[i].element_count() * shards[i].bits_per_element;
      for (int64_t bit = 0; bit < count; ++bit)
        all.push_back(reference::GetBit(packed.data(), bit));
    }
    return all;
  }

  std::vector<Bytes> bytes;
  std::vector<Box> boxes;
  std::vector<ShardView> shards;
  TapeView view;
};

class TapeViewTest : public testing::TestWithParam<int> {
 protected:
  // check(tape, lo, hi) for ranges that begin and end anywhere.
  template <typename Check>
  void ForRandomRanges(Check check) {
    reference::Random random(17 + GetParam());
    for (int rank = 0; rank <= 4; ++rank) {
      for (int round = 0; round < 60; ++round) {
        TestTape tape(random, rank, GetParam());
        if (tape.view.end() == 0) continue;
        const int64_t lo = random.Uniform(0, tape.view.end() - 1);
        const int64_t hi = random.Uniform(lo + 1, tape.view.end());
        SCOPED_TRACE(std::to_string(lo) + ".." + std::to_string(hi));
        ASSERT_NO_FATAL_FAILURE(check(tape, lo, hi));
      }
    }
  }
};

TEST_P(TapeViewTest, PackIsTheTapesBitsWithZeroedLastOnes) {
  ForRandomRanges([](TestTape& tape, int64_t lo, int64_t hi) {
    const std::vector<bool> bits = tape.Bits();
    Bytes expected(static_cast<size_t>(BytesOfBits(hi - lo)));
    for (int64_t i = 0; i < hi - lo; ++i) reference::SetBit(expected.data(), i, bits[lo + i]);
    Bytes packed(expected.size(), std::byte{0xff});
    TapeCursor cursor(tape.view, lo);
    Pack(cursor, hi - lo, packed.data());
    ASSERT_EQ(packed, expected);
  });
}

TEST_P(TapeViewTest, UnpackWritesExactlyTheRange) {
  ForRandomRanges([](TestTape& tape, int64_t lo, int64_t hi) {
    const std::vector<bool> before = tape.Bits();
    Bytes packed(static_cast<size_t>(BytesOfBits(hi - lo)));
    for (int64_t i = 0; i < hi - lo; ++i) reference::SetBit(packed.data(), i, !before[lo + i]);
    const std::vector<Bytes> memory = tape.bytes;
    TapeCursor cursor(tape.view, lo);
    Unpack(packed.data(), hi - lo, cursor);
    const std::vector<bool> after = tape.Bits();
    for (int64_t i = 0; i < tape.view.end(); ++i)
      ASSERT_EQ(after[i], before[i] != (i >= lo && i < hi)) << i;
    // And back: nothing beside the tape was touched.
    for (int64_t i = 0; i < hi - lo; ++i) reference::SetBit(packed.data(), i, before[lo + i]);
    TapeCursor again(tape.view, lo);
    Unpack(packed.data(), hi - lo, again);
    ASSERT_EQ(tape.bytes, memory);
  });
}

TEST_P(TapeViewTest, ContiguousBytesAreThePackedRange) {
  int found = 0;
  ForRandomRanges([&](TestTape& tape, int64_t lo, int64_t hi) {
    const std::byte* bytes = tape.view.Contiguous(lo, hi);
    if (bytes == nullptr) return;
    ++found;
    ASSERT_EQ((hi - lo) % 8, 0);
    Bytes packed(static_cast<size_t>((hi - lo) / 8));
    TapeCursor cursor(tape.view, lo);
    Pack(cursor, hi - lo, packed.data());
    ASSERT_EQ(Bytes(bytes, bytes + packed.size()), packed);
  });
  if (GetParam() >= 8) EXPECT_GT(found, 0);  // narrower ones hardly ever begin and end on bytes
}

INSTANTIATE_TEST_SUITE_P(Widths, TapeViewTest, testing::Values(1, 2, 4, 8, 16, 32, 64, 128),
                         testing::PrintToStringParamName());

TEST(TapeViewTest, BytesThatAreSharedAreNotContiguous) {
  Bytes bytes(8);
  TapeView view;
  view.Add({bytes.data(), Box{{{0, 15}}}, 4}, Box{{{0, 15}}});
  EXPECT_EQ(view.Contiguous(0, 16), bytes.data());
  EXPECT_EQ(view.Contiguous(16, 56), bytes.data() + 2);
  EXPECT_EQ(view.Contiguous(0, 20), nullptr);  // ends inside a byte
  EXPECT_EQ(view.Contiguous(4, 20), nullptr);  // begins inside one
}

// Two threads fill the columns of nibbles that share every byte, again and again.
TEST(TapeViewTest, ConcurrentColumnsKeepTheirBits) {
  constexpr int64_t kRows = 10000;
  Bytes target(kRows);
  const Box frame{{{0, kRows}, {0, 2}}};
  std::atomic<int> undone = 0;
  std::latch both(2);
  const auto fill = [&](int64_t column) {
    TapeView view;
    view.Add({target.data(), frame, 4}, Box{{{0, kRows}, {column, column + 1}}});
    both.arrive_and_wait();
    for (int i = 0; i < 200; ++i) {
      const Bytes wanted(kRows / 2, static_cast<std::byte>(i));
      TapeCursor to(view, 0), from(view, 0);
      Unpack(wanted.data(), 4 * kRows, to);
      Bytes back(kRows / 2);
      Pack(from, 4 * kRows, back.data());
      if (back != wanted) ++undone;
    }
  };
  std::thread left(fill, 0), right(fill, 1);
  left.join();
  right.join();
  EXPECT_EQ(undone, 0);
}

// Two threads flip bits in their own ranges, which share a byte, and check that the other's write
// did not undo theirs.
TEST(TapeViewTest, ConcurrentNeighboursKeepTheirBits) {
  Bytes target(3);
  TapeView view;
  view.Add({target.data(), Box{{{0, 24}}}, 1}, Box{{{0, 24}}});
  std::atomic<int> undone = 0;
  std::latch both(2);
  const auto flip = [&](int64_t lo, int64_t hi) {
    both.arrive_and_wait();
    for (int i = 0; i < 1000000; ++i) {
      const std::byte wanted{static_cast<uint8_t>(i % 2 == 0 ? 0x0f : 0)};
      TapeCursor to(view, lo), from(view, lo);
      Unpack(&wanted, hi - lo, to);
      std::byte back{};
      Pack(from, hi - lo, &back);
      if (back != wanted) ++undone;
    }
  };
  std::thread left(flip, 8, 12), right(flip, 12, 16);
  left.join();
  right.join();
  EXPECT_EQ(undone, 0);
}

}  // namespace
}  // namespace remesh::worker
