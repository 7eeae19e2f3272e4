// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/device_conformance.h"
#include "tests/testing/element_oracle.h"
#include "worker/device/shard_view.h"

namespace remesh::worker::conformance {

using DeviceBytes = std::vector<std::byte>;

// How work ended, and whether it kept to the rules: once, inside Drain(), on the owning thread.
struct WorkOutcome {
  int calls = 0;
  bool by_the_rules = true;
  absl::StatusOr<Mismatch> result = absl::UnknownError("not ended");

  bool ok() const { return calls == 1 && by_the_rules && result.ok() && result->ok(); }
};

// A device, driven by the test's thread.
class DeviceRig {
 public:
  explicit DeviceRig(std::unique_ptr<Device> device) : device_(std::move(device)) {}
  // Checks that all work ended as it should.
  ~DeviceRig();

  Device& device() { return *device_; }
  WorkOutcome* NewOutcome() { return &outcomes_.emplace_back(); }
  Device::Done Watch(WorkOutcome* outcome, std::function<void()> then = nullptr);
  bool Drain();
  // Until nothing is pending or 60 s have passed; whether nothing is.
  bool Finish();

  std::shared_ptr<std::byte> Allocate(int64_t bytes);
  // Memory of the device that holds `bytes`, and the bytes of such memory.
  std::shared_ptr<std::byte> Put(const DeviceBytes& bytes);
  void Write(std::byte* data, const DeviceBytes& bytes);
  DeviceBytes Get(const std::byte* data, size_t bytes);

  // Runs one of them alone.
  WorkOutcome Pack(std::vector<SlicePart> parts, std::byte* buffer);
  WorkOutcome Unpack(std::vector<SlicePart> parts, const std::byte* buffer);
  WorkOutcome Copy(std::vector<SlicePart> parts);
  WorkOutcome Check(std::vector<SlicePart> parts);

 private:
  const std::thread::id owner_ = std::this_thread::get_id();
  std::unique_ptr<Device> device_;
  std::deque<WorkOutcome> outcomes_;
  bool draining_ = false;
};

// A rig with the device of a kind, or a skipped test.
#define REMESH_OPEN_DEVICE(rig)                      \
  auto opened = GetParam().open([] {});              \
  if (!opened.ok()) GTEST_SKIP() << opened.status(); \
  DeviceRig rig(*std::move(opened))

// A box of a test array that is in one shard and goes to another.
struct TapeBox {
  testing::OracleArray array;
  planner::Box box, source_frame, target_frame;
};

// The boxes of a tape, all of one type.
std::vector<TapeBox> RandomTape(std::mt19937& random, planner::ElementType type, int rank,
                                int boxes);
std::vector<TapeBox> OneBox(planner::ElementType type, const planner::Shape& shape,
                            const planner::Box& box);

// The shards that a tape comes from or goes to, in memory of a device.
struct TapeSide {
  std::vector<std::shared_ptr<std::byte>> memory;
  std::vector<DeviceBytes> content;  // at first
  TapeView view;
};
// With the arrays' elements.
TapeSide SourceSide(DeviceRig& rig, const std::vector<TapeBox>& tape);
// With those of arrays of another salt.
TapeSide TargetSide(DeviceRig& rig, const std::vector<TapeBox>& tape);

// The tape's bits, and the digests of the chunks of a stretch of it, made by the host.
struct HostTape {
  explicit HostTape(const std::vector<TapeBox>& tape);

  std::vector<uint64_t> Digests(int64_t lo, int64_t hi) const;
  DeviceBytes Packed(int64_t lo, int64_t hi) const;

  std::vector<DeviceBytes> boxes;
  TapeView view;
};

// The target's shards hold the source's elements in the boxes and what they held elsewhere.
void ExpectArrived(DeviceRig& rig, const std::vector<TapeBox>& tape, const TapeSide& target);

// [lo, hi) cut at multiples of chunks into a few parts, at offsets that leave gaps.
std::vector<SlicePart> CutIntoParts(std::mt19937& random, int64_t lo, int64_t hi,
                                    uint64_t* digests);
int64_t BufferBytes(const std::vector<SlicePart>& parts);

}  // namespace remesh::worker::conformance
