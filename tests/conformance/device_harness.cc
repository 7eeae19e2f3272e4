// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/device_harness.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/int_math.h"
#include "worker/device/chunks.h"
#include "worker/device/digest.h"
#include "worker/device/tape_cursor.h"
#include "worker/device/testing/copy_reference.h"

namespace remesh::worker::conformance {

using planner::BitWidth;
using planner::Box;
using planner::ElementType;
using planner::Interval;

namespace {

using testing::OracleArray;

constexpr auto kDevicePatience = std::chrono::seconds(60);

int64_t Uniform(std::mt19937& random, int64_t lo, int64_t hi) {
  return std::uniform_int_distribution<int64_t>(lo, hi)(random);
}

// At least `inner`, at most [0, extent).
Interval Around(std::mt19937& random, Interval inner, int64_t extent) {
  switch (Uniform(random, 0, 2)) {
    case 0:
      return inner;
    case 1:
      return {0, extent};
    default:
      return {Uniform(random, 0, inner.lo), Uniform(random, inner.hi, extent)};
  }
}

TapeBox RandomBox(std::mt19937& random, ElementType type, int rank, uint64_t salt) {
  TapeBox made{.array = {.key = testing::ArrayKey("w"), .type = type, .salt = salt}};
  // Up to a few chunks.
  const double elements = 3.0 * static_cast<double>(kChunkBits) / BitWidth(type);
  const auto most = static_cast<int64_t>(std::pow(elements, 1.0 / std::max(rank, 1))) + 1;
  for (int d = 0; d < rank; ++d) {
    const int64_t extent = Uniform(random, 1, most);
    Interval inner{Uniform(random, 0, extent - 1), 0};
    inner.hi = Uniform(random, inner.lo + 1, extent);
    if (Uniform(random, 0, 3) == 0) inner = {0, extent};
    made.array.shape.push_back(extent);
    made.box.dims.push_back(inner);
    made.source_frame.dims.push_back(Around(random, inner, extent));
    made.target_frame.dims.push_back(Around(random, inner, extent));
  }
  return made;
}

DeviceBytes Filled(const OracleArray& array, const Box& box) {
  DeviceBytes bytes(testing::BoxBytes(array, box));
  testing::FillBox(array, box, absl::MakeSpan(bytes));
  return bytes;
}

void AddShard(DeviceRig& rig, const TapeBox& box, const OracleArray& array, const Box& frame,
              TapeSide& side) {
  side.content.push_back(Filled(array, frame));
  side.memory.push_back(rig.Put(side.content.back()));
  side.view.Add({side.memory.back().get(), frame, BitWidth(array.type)}, box.box);
}

}  // namespace

DeviceRig::~DeviceRig() {
  EXPECT_TRUE(Finish()) << "work does not end";
  for (const WorkOutcome& outcome : outcomes_) {
    EXPECT_EQ(outcome.calls, 1);
    EXPECT_TRUE(outcome.by_the_rules);
  }
}

Device::Done DeviceRig::Watch(WorkOutcome* outcome, std::function<void()> then) {
  return [this, outcome, then = std::move(then)](absl::StatusOr<Mismatch> result) {
    ++outcome->calls;
    outcome->by_the_rules = draining_ && std::this_thread::get_id() == owner_;
    outcome->result = std::move(result);
    if (then) then();
  };
}

bool DeviceRig::Drain() {
  draining_ = true;
  const bool any = device_->Drain();
  draining_ = false;
  return any;
}

bool DeviceRig::Finish() {
  const auto deadline = std::chrono::steady_clock::now() + kDevicePatience;
  while (device_->pending() > 0) {
    if (Drain()) continue;
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

std::shared_ptr<std::byte> DeviceRig::Allocate(int64_t bytes) {
  auto memory = device_->Allocate(bytes);
  EXPECT_TRUE(memory.ok()) << memory.status();
  REMESH_CHECK(memory.ok());
  return *memory;
}

std::shared_ptr<std::byte> DeviceRig::Put(const DeviceBytes& bytes) {
  auto memory = Allocate(static_cast<int64_t>(bytes.size()));
  Write(memory.get(), bytes);
  return memory;
}

void DeviceRig::Write(std::byte* data, const DeviceBytes& bytes) {
  WorkOutcome* outcome = NewOutcome();
  device_->Transfer(data, bytes.data(), static_cast<int64_t>(bytes.size()), Watch(outcome));
  Finish();
  EXPECT_TRUE(outcome->ok()) << outcome->result.status();
}

DeviceBytes DeviceRig::Get(const std::byte* data, size_t bytes) {
  DeviceBytes copy(bytes);
  WorkOutcome* outcome = NewOutcome();
  device_->Transfer(copy.data(), data, static_cast<int64_t>(bytes), Watch(outcome));
  Finish();
  EXPECT_TRUE(outcome->ok()) << outcome->result.status();
  return copy;
}

WorkOutcome DeviceRig::Pack(std::vector<SlicePart> parts, std::byte* buffer) {
  WorkOutcome* outcome = NewOutcome();
  device_->Pack(std::move(parts), buffer, Watch(outcome));
  Finish();
  return *outcome;
}

WorkOutcome DeviceRig::Unpack(std::vector<SlicePart> parts, const std::byte* buffer) {
  WorkOutcome* outcome = NewOutcome();
  device_->Unpack(std::move(parts), buffer, Watch(outcome));
  Finish();
  return *outcome;
}

WorkOutcome DeviceRig::Copy(std::vector<SlicePart> parts) {
  WorkOutcome* outcome = NewOutcome();
  device_->Copy(std::move(parts), Watch(outcome));
  Finish();
  return *outcome;
}

WorkOutcome DeviceRig::Check(std::vector<SlicePart> parts) {
  WorkOutcome* outcome = NewOutcome();
  device_->Check(std::move(parts), Watch(outcome));
  Finish();
  return *outcome;
}

std::vector<TapeBox> RandomTape(std::mt19937& random, ElementType type, int rank, int boxes) {
  std::vector<TapeBox> tape;
  for (int i = 0; i < boxes; ++i) {
    tape.push_back(RandomBox(random, type, rank, static_cast<uint64_t>(i)));
  }
  return tape;
}

std::vector<TapeBox> OneBox(ElementType type, const planner::Shape& shape, const Box& box) {
  const Box whole = Box::Whole(shape);
  return {{{testing::ArrayKey("w"), type, shape, 0}, box, whole, whole}};
}

TapeSide SourceSide(DeviceRig& rig, const std::vector<TapeBox>& tape) {
  TapeSide side;
  for (const TapeBox& box : tape) AddShard(rig, box, box.array, box.source_frame, side);
  return side;
}

TapeSide TargetSide(DeviceRig& rig, const std::vector<TapeBox>& tape) {
  TapeSide side;
  for (const TapeBox& box : tape) {
    OracleArray other = box.array;
    other.salt += 1000;
    AddShard(rig, box, other, box.target_frame, side);
  }
  return side;
}

HostTape::HostTape(const std::vector<TapeBox>& tape) {
  for (const TapeBox& box : tape) {
    boxes.push_back(Filled(box.array, box.box));
    view.Add({boxes.back().data(), box.box, BitWidth(box.array.type)}, box.box);
  }
}

DeviceBytes HostTape::Packed(int64_t lo, int64_t hi) const {
  DeviceBytes packed(static_cast<size_t>(BytesOfBits(hi - lo)));
  TapeCursor cursor(view, lo);
  worker::Pack(cursor, hi - lo, packed.data());
  return packed;
}

std::vector<uint64_t> HostTape::Digests(int64_t lo, int64_t hi) const {
  std::vector<uint64_t> digests;
  for (int64_t at = lo; at < hi; at += kChunkBits) {
    digests.push_back(DigestPacked(Packed(at, std::min(at + kChunkBits, hi))));
  }
  return digests;
}

void ExpectArrived(DeviceRig& rig, const std::vector<TapeBox>& tape, const TapeSide& target) {
  for (size_t i = 0; i < tape.size(); ++i) {
    const auto& [array, box, source_frame, frame] = tape[i];
    const int bits = BitWidth(array.type);
    DeviceBytes expected = target.content[i], elements = Filled(array, box);
    reference::CopyElements({elements.data(), box, bits}, box, {expected.data(), frame, bits});
    DeviceBytes found = rig.Get(target.memory[i].get(), expected.size());
    EXPECT_TRUE(found == expected) << box.DebugString() << " in " << frame.DebugString();
    elements = reference::PackElements({found.data(), frame, bits}, box);
    EXPECT_FALSE(testing::CheckBox(array, box, elements).has_value()) << box.DebugString();
  }
}

std::vector<SlicePart> CutIntoParts(std::mt19937& random, int64_t lo, int64_t hi,
                                    uint64_t* digests) {
  std::vector<SlicePart> parts;
  int64_t offset = 16 * Uniform(random, 0, 2);
  for (int64_t at = lo; at < hi;) {
    SlicePart part{.lo = at, .offset = offset, .digests = digests};
    part.hi = std::min(at + Uniform(random, 1, 4) * kChunkBits, hi);
    at = part.hi;
    digests += ChunksOf(part.lo, part.hi);
    offset += CeilDiv(BytesOfBits(part.hi - part.lo), 16) * 16 + 16 * Uniform(random, 0, 2);
    parts.push_back(part);
  }
  return parts;
}

int64_t BufferBytes(const std::vector<SlicePart>& parts) {
  return parts.back().offset + PartBytes(parts.back().hi - parts.back().lo);
}

}  // namespace remesh::worker::conformance
