// SPDX-License-Identifier: Apache-2.0
#include "worker/device/pieces.h"

#include <gtest/gtest.h>

#include "worker/device/testing/copy_reference.h"

namespace remesh {
namespace {

TEST(SplitIntoPiecesTest, PiecesFollowEachOtherInThePackedBox) {
  reference::Random random(3);
  for (int bits : {1, 2, 4, 8, 16, 32, 64, 128}) {
    for (int round = 0; round < 300; ++round) {
      const Box box = random.AnyBox(static_cast<int>(random.Uniform(0, 4)), 12);
      const int64_t max_bytes = random.Uniform(1, 200);
      SCOPED_TRACE(box.DebugString() + " x " + std::to_string(bits) + " / " +
                   std::to_string(max_bytes));
      int64_t next = 0;  // elements so far
      for (const Box& piece : SplitIntoPieces(box, bits, max_bytes)) {
        ASSERT_FALSE(piece.empty());
        ASSERT_TRUE(piece.element_count() == 1 || PackedBytes(piece, bits) <= max_bytes)
            << piece.DebugString();
        reference::ForEachElement(piece, [&](const std::vector<int64_t>& at) {
          ASSERT_EQ(reference::BitOf(box, at, 1), next++);
        });
      }
      ASSERT_EQ(next, box.element_count());
    }
  }
}

TEST(SplitIntoPiecesTest, CutsTheOutermostDimensionIntoEqualParts) {
  // 10 MiB in rows of 1 KiB: three parts, not two full ones and a rest.
  const auto pieces = SplitIntoPieces(Box{{{0, 10240}, {0, 256}}}, 32);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].DebugString(), "[0:3414,0:256]");
  EXPECT_EQ(pieces[2].DebugString(), "[6828:10240,0:256]");
}

TEST(SplitIntoPiecesTest, SubByteCutsFallOnBytes) {
  for (const Box& piece : SplitIntoPieces(Box{{{0, 1001}}}, 4, 100))
    EXPECT_EQ(piece.dims[0].lo % 2, 0);
  for (const Box& piece : SplitIntoPieces(Box{{{0, 99}, {0, 3}}}, 1, 7))
    EXPECT_EQ(piece.dims[0].lo % 8, 0);
}

TEST(SplitIntoPiecesTest, SmallBoxesStayWhole) {
  EXPECT_EQ(SplitIntoPieces(Box{}, 32).size(), 1u);
  EXPECT_TRUE(SplitIntoPieces(Box{{{0, 0}, {0, 5}}}, 32).empty());
  EXPECT_EQ(SplitIntoPieces(Box{{{7, 9}}}, 32), std::vector<Box>{(Box{{{7, 9}}})});
}

}  // namespace
}  // namespace remesh
