// SPDX-License-Identifier: Apache-2.0
#include "server/planning/read_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "remesh/v1/program.pb.h"

namespace remesh::server {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

// An answer whose pieces can be made only from the first one on.
class ReadAheadTest : public ::testing::Test {
 protected:
  using Pieces = ReadAhead<v1::HostProgram>;

  Pieces MakePieces(int count) {
    return {
        kept_, "a",
        [this, count](Pieces::Emit emit) {
          ++expansions_;
          for (; made_ < count; ++made_) {
            v1::HostProgram piece;
            piece.set_fingerprint(std::string(kPieceBytes, static_cast<char>('a' + made_ % 26)));
            if (!emit(std::move(piece))) {
              ++made_;
              return absl::OkStatus();
            }
          }
          return absl::DataLossError("the end");
        },
        [this] { return gone_; }};
  }

  // Reads as a slow reader, who takes `at_once` pieces of each call. Returns how many came in all.
  int Read(Pieces& pieces, int at_once) {
    int count = 0;
    for (bool stopped = true; stopped;) {
      stopped = false;
      int taken = 0;
      const absl::Status end = pieces([&](v1::HostProgram piece) {
        EXPECT_FALSE(stopped);
        EXPECT_EQ(piece.fingerprint()[0], 'a' + count % 26);
        ++count;
        stopped = ++taken == at_once;
        return !stopped;
      });
      EXPECT_EQ(end.message(), stopped ? "" : "the end");
    }
    return count;
  }

  KeptBytes kept_{8 * Pieces::kBytes};
  int expansions_ = 0;
  int made_ = 0;
  bool gone_ = false;
};

// Regression: as many pieces were made for a reader that had gone as for a slow one.
TEST_F(ReadAheadTest, NothingMoreIsMadeForAReaderThatHasGone) {
  Pieces pieces = MakePieces(12);
  gone_ = true;
  EXPECT_TRUE(pieces([](const v1::HostProgram&) { return false; }).ok());
  EXPECT_EQ(made_, 1);
}

// Regression: it was made again for each piece.
TEST_F(ReadAheadTest, AnAnswerIsMadeOnceForASlowReader) {
  for (const int at_once : {1, 3}) {
    expansions_ = made_ = 0;
    Pieces pieces = MakePieces(12);
    EXPECT_EQ(Read(pieces, at_once), 12);
    EXPECT_EQ(expansions_, 1);
  }
}

TEST_F(ReadAheadTest, ALongAnswerIsMadeOnceForEverySixteenPieces) {
  Pieces pieces = MakePieces(100);
  EXPECT_EQ(Read(pieces, 1), 100);
  EXPECT_EQ(expansions_, 7);
}

TEST_F(ReadAheadTest, AReaderThatKeepsUpNeedsNothingKept) {
  auto full = kept_.Keep("a", 2 * Pieces::kBytes);
  ASSERT_TRUE(full.ok());
  Pieces pieces = MakePieces(100);
  EXPECT_EQ(Read(pieces, 1000), 100);
  EXPECT_EQ(expansions_, 1);
}

TEST_F(ReadAheadTest, WithoutRoomTheAnswerIsMadeAgainForEachPiece) {
  auto full = kept_.Keep("a", 2 * Pieces::kBytes);
  ASSERT_TRUE(full.ok());
  Pieces pieces = MakePieces(12);
  EXPECT_EQ(Read(pieces, 1), 12);
  EXPECT_EQ(expansions_, 13);
}

TEST_F(ReadAheadTest, WhatIsReadIsNotKept) {
  Pieces first = MakePieces(12);
  (void)first([](const v1::HostProgram&) { return false; });
  EXPECT_TRUE(kept_.Keep("a", Pieces::kBytes).ok());
  EXPECT_FALSE(kept_.Keep("a", 2 * Pieces::kBytes).ok());
  (void)first([](const v1::HostProgram&) { return true; });
  EXPECT_TRUE(kept_.Keep("a", 2 * Pieces::kBytes).ok());
}

}  // namespace
}  // namespace remesh::server
