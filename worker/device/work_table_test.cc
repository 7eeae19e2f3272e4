// SPDX-License-Identifier: Apache-2.0
#include "worker/device/work_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <span>
#include <utility>
#include <vector>

#include "worker/device/chunks.h"
#include "worker/device/digest.h"
#include "worker/device/kernels/run_chunk.h"
#include "worker/device/testing/copy_reference.h"

namespace remesh::worker {

using planner::Box;

namespace {

using kernels::LanesInTurn;
using reference::Bytes;

// The code under test reads whole words of 4 bytes.
Bytes Padded(Bytes bytes) {
  bytes.resize((bytes.size() + 3) / 4 * 4);
  return bytes;
}

void RunAll(WorkTable& table) {
  kernels::Stage stage;
  for (int64_t i = 0; i < table.chunks(); ++i) {
    kernels::RunChunk<LanesInTurn>(table.View(), i, stage);
  }
}

// A tape of a few boxes of a few arrays, each in a shard around it.
struct Tape {
  Tape(reference::Random& random, int bits) {
    const int boxes = static_cast<int>(random.Uniform(1, 6));
    for (int i = 0; i < boxes; ++i) {
      const int rank = static_cast<int>(random.Uniform(0, 6));
      const Box box = random.AnyBox(rank, rank == 2 ? 60 : 5);
      if (box.empty()) continue;
      const Box frame = random.Around(box);
      shards.push_back(Padded(random.Shard(frame, bits)));
      const ShardView shard{shards.back().data(), frame, bits};
      view.Add(shard, box);
      const Bytes packed = reference::PackElements(shard, box);
      for (int64_t bit = 0; bit < box.element_count() * bits; ++bit) {
        expected.push_back(reference::GetBit(packed.data(), bit));
      }
    }
  }
  std::vector<Bytes> shards;
  TapeView view;
  std::vector<bool> expected;  // the tape's bits
};

class WorkTableTest : public testing::TestWithParam<int> {};

// Runs the table of one part and returns what it found.
Mismatch RunPart(WorkKind kind, const SlicePart& part, Bytes* buffer) {
  WorkTable table = MakeWorkTable(kind, {part}, buffer != nullptr ? buffer->data() : nullptr);
  RunAll(table);
  return FinishWork({part}, table, table.digests.data(), table.first_wrong);
}

// Number of bits of the shards that changed.
int64_t ChangedBits(const std::vector<Bytes>& before, const std::vector<Bytes>& after) {
  int64_t changed = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    for (size_t byte = 0; byte < before[i].size(); ++byte) {
      changed += std::popcount(std::to_integer<unsigned>(before[i][byte] ^ after[i][byte]));
    }
  }
  return changed;
}

// The bits of `part`, which was packed from the shards, replace other bits there; nothing else
// changes. `unpack` unpacks the part that it is given.
template <typename Unpack>
void ExpectUnpacked(std::vector<Bytes>& shards, SlicePart part, Unpack unpack) {
  for (Bytes& shard : shards) {
    for (std::byte& byte : shard) byte = ~byte;
  }
  const std::vector<Bytes> inverted = shards;
  part.target = std::exchange(part.source, nullptr);
  ASSERT_TRUE(unpack(part).ok());
  ASSERT_EQ(ChangedBits(inverted, shards), part.hi - part.lo);
  part.source = std::exchange(part.target, nullptr);
  ASSERT_TRUE(RunPart(WorkKind::kCheck, part, nullptr).ok());
}

TEST_P(WorkTableTest, PacksAndUnpacksAnyRangeOfAnyTape) {
  reference::Random random(17);
  for (int round = 0; round < 300; ++round) {
    Tape tape(random, GetParam());
    const int64_t end = tape.view.end();
    if (end == 0) continue;
    SCOPED_TRACE(testing::Message() << "round " << round << ", " << end << " bits");
    SlicePart part{.source = &tape.view, .lo = random.Uniform(0, end - 1), .offset = 16};
    part.hi = random.Uniform(part.lo + 1, end);
    const int64_t bits = part.hi - part.lo;
    std::vector<uint64_t> digests(static_cast<size_t>(ChunksOf(part.lo, part.hi)));
    part.digests = digests.data();
    Bytes buffer(static_cast<size_t>(16 + PartBytes(bits)), std::byte{0xff});
    ASSERT_TRUE(RunPart(WorkKind::kPack, part, &buffer).ok());
    for (int64_t bit = 0; bit < PartBytes(bits) * 8; ++bit) {
      ASSERT_EQ(reference::GetBit(buffer.data() + 16, bit),
                bit < bits && tape.expected[part.lo + bit])
          << bit;
    }
    for (size_t k = 0; k < digests.size(); ++k) {
      const int64_t at = static_cast<int64_t>(k) * kChunkBytes;
      const int64_t bytes = std::min(kChunkBytes, BytesOfBits(bits) - at);
      ASSERT_EQ(digests[k], DigestPacked({buffer.data() + 16 + at, static_cast<size_t>(bytes)}));
    }
    const auto unpack = [&](const SlicePart& arriving) {
      return RunPart(WorkKind::kUnpack, arriving, &buffer);
    };
    ASSERT_NO_FATAL_FAILURE(ExpectUnpacked(tape.shards, part, unpack));
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, WorkTableTest, testing::Values(1, 2, 4, 8, 16, 32, 64, 128));

// How whole chunks moved: with both sides in rows of units, or one of them, or none.
struct RowsSeen {
  int both = 0, source = 0, target = 0, none = 0;

  void Count(const kernels::Stage& stage) {
    if (stage.chunk.hi - stage.chunk.lo < kChunkBits) return;
    const bool from_rows = stage.rows[0].first != nullptr;
    const bool to_rows = stage.rows[1].first != nullptr;
    ++(from_rows ? (to_rows ? both : source) : (to_rows ? target : none));
  }
};

// Boxes of two dimensions of rows, most often of whole units of 16 bytes with a whole number of
// them between.
struct RowsTape {
  RowsTape(reference::Random& random, int64_t row_bytes) {
    for (int64_t left = random.Uniform(1, 3); left > 0; --left) {
      const int64_t rows = random.Uniform(1, 40000 / row_bytes + 2);
      const Box box{{{0, random.Uniform(1, 3)}, {0, rows}, {0, row_bytes}}};
      Box frame = box;
      frame.dims[1].hi += random.Uniform(0, 1);
      frame.dims[2].hi += 16 * random.Uniform(0, 2) + (random.Uniform(0, 5) == 0 ? 8 : 0);
      shards.push_back(Padded(random.Shard(frame, 8)));
      const ShardView shard{shards.back().data(), frame, 8};
      view.Add(shard, box);
      const Bytes bytes = reference::PackElements(shard, box);
      expected.insert(expected.end(), bytes.begin(), bytes.end());
    }
  }
  std::vector<Bytes> shards;
  TapeView view;
  Bytes expected;  // the tape's bytes
};

// Runs the table of one part, counts its whole chunks, and returns what it found.
Mismatch RunAndCount(WorkKind kind, const SlicePart& part, Bytes& buffer, RowsSeen& seen) {
  WorkTable table = MakeWorkTable(kind, {part}, buffer.data());
  kernels::Stage stage;
  for (int64_t i = 0; i < table.chunks(); ++i) {
    kernels::RunChunk<LanesInTurn>(table.View(), i, stage);
    seen.Count(stage);
  }
  return FinishWork({part}, table, table.digests.data(), table.first_wrong);
}

void PackRows(const RowsTape& tape, const SlicePart& part, Bytes& buffer, RowsSeen& seen) {
  ASSERT_TRUE(RunAndCount(WorkKind::kPack, part, buffer, seen).ok());
  const std::span<const std::byte> packed = std::span(buffer).subspan(part.offset);
  const std::span<const std::byte> expected =
      std::span(tape.expected).subspan(part.lo / 8, (part.hi - part.lo) / 8);
  ASSERT_TRUE(std::equal(expected.begin(), expected.end(), packed.begin()));
  for (int64_t k = 0; k < ChunksOf(part.lo, part.hi); ++k) {
    const size_t at = static_cast<size_t>(k * kChunkBytes);
    const size_t bytes = std::min<size_t>(kChunkBytes, expected.size() - at);
    ASSERT_EQ(part.digests[k], DigestPacked(expected.subspan(at, bytes)));
  }
}

TEST(WorkTableRowsTest, WholeChunksOfRowsMovePastTheStageOrThroughIt) {
  reference::Random random(29);
  RowsSeen packed, unpacked;
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    const int64_t units = random.Uniform(1, round % 2 == 0 ? 8 : 2000);
    RowsTape tape(random, units * 16 + (random.Uniform(0, 3) == 0 ? random.Uniform(0, 15) : 0));
    SlicePart part{.source = &tape.view, .hi = tape.view.end(), .offset = 16};
    part.lo = std::min(kernels::kUnitBits * random.Uniform(0, 5), part.hi - 8);
    std::vector<uint64_t> digests(static_cast<size_t>(ChunksOf(part.lo, part.hi)));
    part.digests = digests.data();
    Bytes buffer(static_cast<size_t>(16 + PartBytes(part.hi - part.lo)));
    ASSERT_NO_FATAL_FAILURE(PackRows(tape, part, buffer, packed));
    const auto unpack = [&](const SlicePart& arriving) {
      return RunAndCount(WorkKind::kUnpack, arriving, buffer, unpacked);
    };
    ASSERT_NO_FATAL_FAILURE(ExpectUnpacked(tape.shards, part, unpack));
  }
  EXPECT_GT(packed.both, 20);
  EXPECT_GT(packed.target, 20);
  EXPECT_GT(unpacked.both, 20);
  EXPECT_GT(unpacked.source, 20);
}

TEST(WorkTablePartsTest, ATableGrowsWithPartsAndNotWithBytes) {
  std::byte nowhere;
  for (const int64_t chunks : {1, 1000}) {
    const TapeView view(&nowhere, 0, chunks * kChunkBits);
    std::vector<uint64_t> digests(static_cast<size_t>(chunks));
    const SlicePart part{.source = &view, .hi = chunks * kChunkBits, .digests = digests.data()};
    const WorkTable table = MakeWorkTable(WorkKind::kPack, {part, part, part}, nullptr);
    EXPECT_EQ(table.parts.size(), 3u);
    EXPECT_EQ(table.pieces.size(), 3u);
    EXPECT_EQ(table.chunks(), 3 * chunks);
  }
}

TEST(WorkTablePartsTest, EveryChunkIsFoundByItsNumber) {
  // Parts of one chunk and of many, some empty; boxes from less than a chunk to many.
  reference::Random random(5);
  std::byte nowhere;
  for (int round = 0; round < 50; ++round) {
    TapeView view;
    for (int64_t piece = random.Uniform(1, 9), at = 0; piece > 0; --piece) {
      const int64_t bytes = random.Uniform(1, 5 * kChunkBytes / 2);
      const Box box{{{at, at + bytes}}};
      view.Add({&nowhere, box, 8}, box);
      at += bytes;
    }
    std::vector<SlicePart> parts;
    for (int64_t at = 0; at < view.end();) {
      const int64_t hi = std::min(at + random.Uniform(0, 3) * kChunkBits, view.end());
      parts.push_back({.source = &view, .lo = at, .hi = hi});
      at = hi;
    }
    WorkTable table = MakeWorkTable(WorkKind::kCheck, parts, nullptr);
    int64_t index = 0;
    for (const SlicePart& part : parts) {
      for (int64_t lo = part.lo; lo < part.hi; lo += kChunkBits, ++index) {
        const kernels::ChunkPlace chunk = kernels::ChunkAt(table.View(), index);
        ASSERT_EQ(chunk.lo, lo);
        ASSERT_EQ(chunk.hi, std::min(lo + kChunkBits, part.hi));
        ASSERT_LE(chunk.source->begin, lo);
        ASSERT_GT(chunk.source->end, lo);
        ASSERT_EQ(chunk.target, nullptr);
      }
    }
    ASSERT_EQ(table.chunks(), index);
  }
}

TEST(WorkTableDepthTest, ABoxOfMoreLoopsThanAnEntryHasBecomesSeveral) {
  // Eight dimensions, none of which spans the frame.
  Box box, frame;
  for (int d = 0; d < 8; ++d) {
    box.dims.push_back({0, 2});
    frame.dims.push_back({0, 3});
  }
  reference::Random random(3);
  Bytes bytes = random.Shard(frame, 16);
  const ShardView shard{bytes.data(), frame, 16};
  TapeView view;
  view.Add(shard, box);
  Bytes packed(static_cast<size_t>(PackedBytes(box, 16)));
  const SlicePart part{.source = &view, .hi = view.end()};
  WorkTable table = MakeWorkTable(WorkKind::kPack, {part}, packed.data());
  EXPECT_EQ(table.pieces.size(), 4u + 1);  // and the buffer
  RunAll(table);
  EXPECT_EQ(packed, reference::PackElements(shard, box));
}

TEST(WorkTableMismatchTest, NamesTheFirstWrongChunk) {
  Bytes bytes(static_cast<size_t>(5 * kChunkBytes));
  const TapeView view(bytes.data(), 0, 5 * kChunkBits);
  std::vector<uint64_t> digests(5);
  const SlicePart whole{.source = &view, .hi = 5 * kChunkBits, .digests = digests.data()};
  WorkTable make = MakeWorkTable(WorkKind::kPack, {whole}, nullptr);
  RunAll(make);
  FinishWork({whole}, make, make.digests.data(), make.first_wrong);
  bytes[3 * kChunkBytes + 5] ^= std::byte{1};
  bytes[4 * kChunkBytes] ^= std::byte{1};
  SlicePart first = whole, second = whole;
  first.hi = second.lo = 2 * kChunkBits;
  second.digests += 2;
  WorkTable check = MakeWorkTable(WorkKind::kCheck, {first, {.source = &view}, second}, nullptr);
  RunAll(check);
  const Mismatch found =
      FinishWork({first, {}, second}, check, check.digests.data(), check.first_wrong);
  EXPECT_EQ(found.part, 2);
  EXPECT_EQ(found.chunk, 1);
}

// Halves the work until each half has one chunk, and combines their results.
Mismatch CheckInHalves(const std::vector<SlicePart>& parts) {
  WorkTable table = MakeWorkTable(WorkKind::kCheck, parts, nullptr);
  if (parts.size() == 1 && table.chunks() <= 1) {
    RunAll(table);
    return FinishWork(parts, table, table.digests.data(), table.first_wrong);
  }
  WorkHalves halves(parts);
  return halves.Whole(CheckInHalves(halves.first()), CheckInHalves(halves.second()));
}

TEST(WorkHalvesTest, FindWhatTheWholeFinds) {
  constexpr int kChunks = 9;
  Bytes bytes(static_cast<size_t>(kChunks * kChunkBytes));
  const TapeView view(bytes.data(), 0, kChunks * kChunkBits);
  std::vector<uint64_t> digests(kChunks, DigestPacked({bytes.data(), kChunkBytes}));
  std::vector<SlicePart> parts;
  for (int64_t begin : {0, 2, 3, 8}) {
    const int64_t end = begin == 0 ? 2 : begin == 2 ? 3 : begin == 3 ? 8 : kChunks;
    parts.push_back({.source = &view,
                     .lo = begin * kChunkBits,
                     .hi = end * kChunkBits,
                     .digests = &digests[begin]});
  }
  EXPECT_TRUE(CheckInHalves(parts).ok());
  for (int chunk = kChunks - 1; chunk >= 0; --chunk) {
    digests[chunk] ^= 1;  // with it, this chunk and all after it are wrong
    const Mismatch found = CheckInHalves(parts);
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(parts[found.part].lo / kChunkBits + found.chunk, chunk);
  }
}

}  // namespace
}  // namespace remesh::worker
