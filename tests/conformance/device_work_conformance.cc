// SPDX-License-Identifier: Apache-2.0
// How work ends: once, where it should, and after an error all of it.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>

#include "base/check.h"
#include "base/error.h"
#include "tests/conformance/device_harness.h"
#include "worker/device/chunks.h"

namespace remesh::worker::conformance {
namespace {

// Twelve chunks that may be copied from one place to another, each by a work of its own.
struct Chunks {
  static constexpr int kCount = 12;

  explicit Chunks(DeviceRig& rig) {
    source = SourceSide(rig, tape);
    target = TargetSide(rig, tape);
  }
  // Queues the copy of one of them.
  WorkOutcome* Copy(DeviceRig& rig, int k, std::function<void()> then = nullptr) {
    WorkOutcome* outcome = rig.NewOutcome();
    rig.device().Copy(
        {{&source.view, &target.view, k * kChunkBits, (k + 1) * kChunkBits, 0, &digests[k]}},
        rig.Watch(outcome, std::move(then)));
    return outcome;
  }

  const std::vector<TapeBox> tape = OneBox(planner::ElementType::kU8, {kCount * kChunkBytes},
                                           planner::Box{{{0, kCount* kChunkBytes}}});
  TapeSide source, target;
  std::vector<uint64_t> digests = std::vector<uint64_t>(kCount);
};

TEST_P(DeviceConformance, EveryWorkEndsOnceInsideDrain) {
  REMESH_OPEN_DEVICE(rig);
  Chunks chunks(rig);
  std::vector<WorkOutcome*> outcomes;
  for (int k = 0; k < Chunks::kCount; ++k) outcomes.push_back(chunks.Copy(rig, k));
  EXPECT_EQ(rig.device().pending(), Chunks::kCount);
  for (const WorkOutcome* outcome : outcomes) EXPECT_EQ(outcome->calls, 0);
  ASSERT_TRUE(rig.Finish());
  for (const WorkOutcome* outcome : outcomes) EXPECT_TRUE(outcome->ok());
  EXPECT_FALSE(rig.device().Drain());
  ExpectArrived(rig, chunks.tape, chunks.target);
  EXPECT_EQ(chunks.digests, HostTape(chunks.tape).Digests(0, Chunks::kCount * kChunkBits));
}

TEST_P(DeviceConformance, ACallbackMayGiveNewWork) {
  REMESH_OPEN_DEVICE(rig);
  Chunks chunks(rig);
  int pending = -1;
  std::function<void(int)> next = [&](int k) {
    pending = rig.device().pending();
    if (k < Chunks::kCount) chunks.Copy(rig, k, [&next, k] { next(k + 1); });
  };
  next(0);
  ASSERT_TRUE(rig.Finish());
  EXPECT_EQ(pending, 0) << "a work is not pending in its own callback";
  ExpectArrived(rig, chunks.tape, chunks.target);
}

TEST_P(DeviceConformance, WorkWithoutPartsEndsToo) {
  REMESH_OPEN_DEVICE(rig);
  EXPECT_TRUE(rig.Copy({}).ok());
  EXPECT_TRUE(rig.Check({}).ok());
  const auto buffer = rig.Allocate(1);
  EXPECT_TRUE(rig.Pack({}, buffer.get()).ok());
  EXPECT_TRUE(rig.Unpack({SlicePart()}, buffer.get()).ok());
}

TEST_P(DeviceConformance, CancelledWorkEndsToo) {
  REMESH_OPEN_DEVICE(rig);
  Chunks chunks(rig);
  std::vector<WorkOutcome*> outcomes;
  for (int k = 0; k < Chunks::kCount; ++k) outcomes.push_back(chunks.Copy(rig, k));
  rig.device().CancelQueued();
  rig.device().CancelQueued();
  EXPECT_EQ(rig.device().pending(), Chunks::kCount);
  ASSERT_TRUE(rig.Finish());
  for (int k = 0; k < Chunks::kCount; ++k) {
    if (outcomes[k]->ok()) continue;
    EXPECT_EQ(outcomes[k]->result.status().code(), absl::StatusCode::kCancelled);
    chunks.Copy(rig, k);
  }
  ASSERT_TRUE(rig.Finish());
  ExpectArrived(rig, chunks.tape, chunks.target);
}

TEST_P(DeviceConformance, TellsThatThereIsSomethingToDrain) {
  std::atomic<int> told = 0;
  auto opened = GetParam().open([&] { ++told; });
  if (!opened.ok()) GTEST_SKIP() << opened.status();
  {
    DeviceRig rig(*std::move(opened));
    Chunks chunks(rig);
    told = 0;
    chunks.Copy(rig, 0);
    rig.Drain();  // starts the work, if it has not started
    for (int i = 0; i < 20000 && told == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_GT(told, 0);
    EXPECT_TRUE(rig.Finish());  // before the chunks are gone
  }
}

TEST_P(DeviceConformance, MemoryEnds) {
  REMESH_OPEN_DEVICE(rig);
  if (!GetParam().limited) GTEST_SKIP() << "its memory has no end of its own";
  const auto refused = rig.device().Allocate(int64_t{1} << 46);
  ASSERT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  const ErrorInfo info = GetErrorInfo(refused.status());
  EXPECT_EQ(info.reason, "DEVICE_MEMORY_EXHAUSTED");
  EXPECT_EQ(info.metadata.at("needed_bytes"), std::to_string(int64_t{1} << 46));
  EXPECT_GT(std::stoll(info.metadata.at("free_bytes")), 0);
  const auto memory = rig.Allocate(1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % 256, 0u);
}

void FailEverything(const DeviceKind& kind) {
  auto opened = kind.open([] {});
  REMESH_CHECK(opened.ok());
  DeviceRig rig(*std::move(opened));
  Chunks chunks(rig);
  kind.fail(rig.device());
  std::vector<WorkOutcome*> outcomes;
  for (int k = 0; k < Chunks::kCount; ++k) outcomes.push_back(chunks.Copy(rig, k));
  WorkOutcome* transfer = rig.NewOutcome();
  DeviceBytes bytes(100);
  rig.device().Transfer(bytes.data(), chunks.source.memory[0].get(), 100, rig.Watch(transfer));
  outcomes.push_back(transfer);
  ASSERT_TRUE(rig.Finish());
  for (const WorkOutcome* outcome : outcomes) {
    EXPECT_EQ(outcome->result.status().code(), absl::StatusCode::kInternal);
    EXPECT_EQ(GetErrorInfo(outcome->result.status()).reason, "DEVICE_ERROR");
  }
  EXPECT_FALSE(rig.device().Allocate(100).ok());
}

// In a process of its own: a CUDA context does not recover.
TEST_P(DeviceConformance, AfterAnErrorEverythingEndsInIt) {
  if (GetParam().fail == nullptr) GTEST_SKIP() << "it has no state of error";
  if (const auto opened = GetParam().open([] {}); !opened.ok()) GTEST_SKIP() << opened.status();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        FailEverything(GetParam());
        std::exit(HasFailure() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace remesh::worker::conformance
