// SPDX-License-Identifier: Apache-2.0
// What a device makes of its memory: every element where it should be, and nothing else changed.
#include "tests/conformance/device_harness.h"
#include "worker/device/chunks.h"

namespace remesh::worker::conformance {

using planner::Box;
using planner::ElementType;

namespace {

constexpr ElementType kTypes[] = {ElementType::kU1,  ElementType::kU2,  ElementType::kU4,
                                  ElementType::kU8,  ElementType::kU16, ElementType::kU32,
                                  ElementType::kU64, ElementType::kC128};
constexpr int kRankMax = 6;

std::vector<SlicePart> WithViews(std::vector<SlicePart> parts, const TapeView* source,
                                 const TapeView* target, bool carried = false) {
  for (SlicePart& part : parts) {
    part.source = source;
    part.target = target;
    part.carried = carried;
  }
  return parts;
}

// Calls visit(random, tape) for tapes of every type and rank.
template <typename Visit>
void ForEachTape(Visit visit) {
  std::mt19937 random(23);
  for (ElementType type : kTypes) {
    for (int rank = 0; rank <= kRankMax; ++rank) {
      for (int boxes : {1, 4}) {
        SCOPED_TRACE(::testing::Message()
                     << planner::Name(type) << ", rank " << rank << ", " << boxes);
        visit(random, RandomTape(random, type, rank, boxes));
      }
    }
  }
}

// What is behind a part is zero, whatever lay in the buffer: it goes to another host.
TEST_P(DeviceConformance, PacksAndUnpacksWhatTheOracleSays) {
  REMESH_OPEN_DEVICE(rig);
  ForEachTape([&](std::mt19937& random, const std::vector<TapeBox>& tape) {
    const TapeSide source = SourceSide(rig, tape), target = TargetSide(rig, tape);
    const HostTape host(tape);
    const int64_t end = host.view.end();
    std::vector<uint64_t> digests(static_cast<size_t>(ChunksOf(0, end)));
    const auto parts = CutIntoParts(random, 0, end, digests.data());
    const DeviceBytes before(static_cast<size_t>(BufferBytes(parts)) + 32, std::byte{0x5a});
    const auto buffer = rig.Put(before);
    ASSERT_TRUE(rig.Pack(WithViews(parts, &source.view, nullptr), buffer.get()).ok());
    DeviceBytes expected = before;
    for (const SlicePart& part : parts) {
      const DeviceBytes packed = host.Packed(part.lo, part.hi);
      const auto end_of_part =
          std::copy(packed.begin(), packed.end(), expected.begin() + part.offset);
      std::fill(end_of_part, expected.begin() + part.offset + PartBytes(part.hi - part.lo),
                std::byte{0});
    }
    ASSERT_TRUE(rig.Get(buffer.get(), before.size()) == expected);
    ASSERT_EQ(digests, host.Digests(0, end));
    const auto arriving = WithViews(parts, nullptr, &target.view, true);
    ASSERT_TRUE(rig.Unpack(arriving, buffer.get()).ok());
    ExpectArrived(rig, tape, target);
  });
}

TEST_P(DeviceConformance, PacksAStretchFromAnyBitOn) {
  REMESH_OPEN_DEVICE(rig);
  std::mt19937 random(29);
  for (ElementType type : {ElementType::kU1, ElementType::kU4, ElementType::kU16}) {
    const auto tape = RandomTape(random, type, 2, 5);
    const TapeSide source = SourceSide(rig, tape);
    const HostTape host(tape);
    const int64_t end = host.view.end();
    for (int round = 0; round < 30; ++round) {
      const int64_t lo = std::uniform_int_distribution<int64_t>(0, end - 1)(random);
      const int64_t hi = std::uniform_int_distribution<int64_t>(lo + 1, end)(random);
      std::vector<uint64_t> digests(static_cast<size_t>(ChunksOf(lo, hi)));
      const SlicePart part{.source = &source.view, .lo = lo, .hi = hi, .digests = digests.data()};
      const DeviceBytes expected = host.Packed(lo, hi);
      const auto buffer = rig.Allocate(PartBytes(hi - lo));
      ASSERT_TRUE(rig.Pack({part}, buffer.get()).ok());
      ASSERT_TRUE(rig.Get(buffer.get(), expected.size()) == expected) << lo << " to " << hi;
      ASSERT_EQ(digests, host.Digests(lo, hi));
    }
  }
}

TEST_P(DeviceConformance, CopiesWhatTheOracleSays) {
  REMESH_OPEN_DEVICE(rig);
  ForEachTape([&](std::mt19937& random, const std::vector<TapeBox>& tape) {
    const TapeSide source = SourceSide(rig, tape), target = TargetSide(rig, tape);
    const HostTape host(tape);
    const int64_t end = host.view.end();
    std::vector<uint64_t> digests(static_cast<size_t>(ChunksOf(0, end)));
    const auto parts =
        WithViews(CutIntoParts(random, 0, end, digests.data()), &source.view, &target.view);
    ASSERT_TRUE(rig.Copy(parts).ok());
    ASSERT_EQ(digests, host.Digests(0, end));
    ExpectArrived(rig, tape, target);
    ASSERT_TRUE(rig.Check(WithViews(parts, &target.view, nullptr)).ok());
  });
}

TEST_P(DeviceConformance, OneFlippedBitIsFoundInItsChunk) {
  REMESH_OPEN_DEVICE(rig);
  std::mt19937 random(31);
  const auto tape = OneBox(ElementType::kU4, {300, 501}, Box{{{0, 300}, {3, 500}}});
  const TapeSide source = SourceSide(rig, tape), target = TargetSide(rig, tape);
  const HostTape host(tape);
  const int64_t end = host.view.end();
  std::vector<uint64_t> digests = host.Digests(0, end);
  const auto parts = CutIntoParts(random, 0, end, digests.data());
  const auto sound = rig.Allocate(BufferBytes(parts));
  ASSERT_TRUE(rig.Pack(WithViews(parts, &source.view, nullptr, true), sound.get()).ok());
  ASSERT_EQ(digests, host.Digests(0, end)) << "carried digests are not written";
  DeviceBytes packed = rig.Get(sound.get(), static_cast<size_t>(BufferBytes(parts)));
  for (int round = 0; round < 20; ++round) {
    const int part = static_cast<int>(random() % parts.size());
    const int64_t bit = static_cast<int64_t>(random()) % (parts[part].hi - parts[part].lo);
    std::byte& byte = packed[parts[part].offset + bit / 8];
    byte ^= std::byte{static_cast<uint8_t>(1 << bit % 8)};
    const auto buffer = rig.Put(packed);
    byte ^= std::byte{static_cast<uint8_t>(1 << bit % 8)};
    const auto expect_found = [&](const WorkOutcome& outcome) {
      ASSERT_TRUE(outcome.result.ok()) << outcome.result.status();
      EXPECT_EQ(outcome.result->part, part);
      EXPECT_EQ(outcome.result->chunk, bit / kChunkBits);
    };
    expect_found(rig.Unpack(WithViews(parts, nullptr, &target.view, true), buffer.get()));
    // The same bits as a source of their own.
    std::vector<TapeView> views;
    std::vector<SlicePart> copies;
    views.reserve(parts.size());
    for (SlicePart copy : WithViews(parts, nullptr, &target.view, true)) {
      copy.source = &views.emplace_back(buffer.get() + copy.offset, copy.lo, copy.hi);
      copies.push_back(copy);
    }
    expect_found(rig.Copy(copies));
    expect_found(rig.Check(copies));
  }
}

TEST_P(DeviceConformance, ThousandsOfPartsAreOneWork) {
  REMESH_OPEN_DEVICE(rig);
  constexpr int kParts = 3000;
  const auto tape = OneBox(ElementType::kU16, {kParts, 60}, Box{{{0, kParts}, {5, 42}}});
  const TapeSide source = SourceSide(rig, tape), target = TargetSide(rig, tape);
  std::vector<uint64_t> digests(kParts);
  std::vector<SlicePart> parts;
  for (int i = 0; i < kParts; ++i) {
    parts.push_back({&source.view, nullptr, i * 37 * 16, (i + 1) * 37 * 16, i * 80, &digests[i]});
  }
  const auto buffer = rig.Allocate(kParts * 80);
  ASSERT_TRUE(rig.Pack(parts, buffer.get()).ok());
  ASSERT_TRUE(rig.Unpack(WithViews(parts, nullptr, &target.view, true), buffer.get()).ok());
  ExpectArrived(rig, tape, target);
}

TEST_P(DeviceConformance, OnlyDigestsWithoutABuffer) {
  REMESH_OPEN_DEVICE(rig);
  const auto tape = OneBox(ElementType::kU2, {1000, 333}, Box{{{10, 900}, {1, 330}}});
  const TapeSide source = SourceSide(rig, tape);
  const HostTape host(tape);
  const int64_t end = host.view.end();
  std::vector<uint64_t> digests(static_cast<size_t>(ChunksOf(0, end)));
  ASSERT_TRUE(
      rig.Pack({{.source = &source.view, .hi = end, .digests = digests.data()}}, nullptr).ok());
  EXPECT_EQ(digests, host.Digests(0, end));
  std::vector<uint64_t> carried(digests.size(), 7);
  ASSERT_TRUE(
      rig.Pack({{.source = &source.view, .hi = end, .digests = carried.data(), .carried = true}},
               nullptr)
          .ok());
  EXPECT_EQ(carried, std::vector<uint64_t>(digests.size(), 7));
}

// Such rows are hashed where they lie, those of odd bits excepted.
TEST_P(DeviceConformance, RowsLongerThanAPageHaveTheirDigests) {
  REMESH_OPEN_DEVICE(rig);
  for (const int64_t row : {4095, 4096, 4097, 5000, 8191, 16000, 16384, 16385, 40000}) {
    for (const ElementType type : {ElementType::kU8, ElementType::kU4}) {
      SCOPED_TRACE(::testing::Message() << planner::Name(type) << ", rows of " << row);
      const Box box{{{1, 8}, {2, 2 + row * 8 / BitWidth(type)}}};
      const auto tape = OneBox(type, {9, box.dims[1].hi + 50}, box);
      const TapeSide source = SourceSide(rig, tape);
      const HostTape host(tape);
      const int64_t end = host.view.end();
      std::vector<uint64_t> digests(static_cast<size_t>(ChunksOf(0, end)));
      const SlicePart part{.source = &source.view, .hi = end, .digests = digests.data()};
      ASSERT_TRUE(rig.Pack({part}, nullptr).ok());
      ASSERT_EQ(digests, host.Digests(0, end));
      EXPECT_TRUE(rig.Check({part}).ok());
      digests.back() ^= 1;
      EXPECT_FALSE(rig.Check({part}).ok());
    }
  }
}

TEST_P(DeviceConformance, ReadsAndWritesTheHostsMemory) {
  REMESH_OPEN_DEVICE(rig);
  const auto tape = OneBox(ElementType::kU16, {400, 300}, Box{{{7, 399}, {1, 300}}});
  const TapeBox& box = tape[0];
  const auto allocate = [](int64_t bytes) {
    return std::shared_ptr<std::byte>(new std::byte[static_cast<size_t>(bytes)],
                                      std::default_delete<std::byte[]>());
  };
  const auto host_memory = GetParam().host_memory ? GetParam().host_memory : allocate;
  const size_t bytes = testing::BoxBytes(box.array, box.source_frame);
  const auto source = host_memory(static_cast<int64_t>(bytes));
  testing::FillBox(box.array, box.source_frame, {source.get(), bytes});
  TapeView source_view;
  source_view.Add({source.get(), box.source_frame, 16}, box.box);
  const TapeSide target = TargetSide(rig, tape);
  const HostTape host(tape);
  const int64_t end = host.view.end();
  std::vector<uint64_t> digests(static_cast<size_t>(ChunksOf(0, end)));
  SlicePart part{&source_view, &target.view, 0, end, 0, digests.data()};
  ASSERT_TRUE(rig.Copy({part}).ok());
  ExpectArrived(rig, tape, target);

  const DeviceBytes expected = host.Packed(0, end);
  const auto buffer = host_memory(PartBytes(end));
  part.source = &target.view;
  part.target = nullptr;
  ASSERT_TRUE(rig.Pack({part}, buffer.get()).ok());
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), buffer.get()));
}

// Every second bit of a byte is another work's.
TEST_P(DeviceConformance, NeighboursInAByteDoNotDisturbEachOther) {
  REMESH_OPEN_DEVICE(rig);
  for (ElementType type : {ElementType::kU1, ElementType::kU2, ElementType::kU4}) {
    const planner::Shape shape{211, 97};
    const auto whole = OneBox(type, shape, Box::Whole(shape));
    const TapeSide source = SourceSide(rig, whole), target = TargetSide(rig, whole);
    std::vector<TapeView> from(97), to(97);
    std::vector<std::vector<uint64_t>> digests(97);
    for (int64_t column = 0; column < 97; ++column) {
      const Box box{{{0, 211}, {column, column + 1}}};
      from[column].Add({source.memory[0].get(), whole[0].box, planner::BitWidth(type)}, box);
      to[column].Add({target.memory[0].get(), whole[0].box, planner::BitWidth(type)}, box);
      digests[column].resize(1);
      rig.device().Copy(
          {{&from[column], &to[column], 0, from[column].end(), 0, digests[column].data()}},
          rig.Watch(rig.NewOutcome()));
    }
    ASSERT_TRUE(rig.Finish());
    ExpectArrived(rig, whole, target);
  }
}

}  // namespace
}  // namespace remesh::worker::conformance
