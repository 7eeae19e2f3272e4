// SPDX-License-Identifier: Apache-2.0
#include "worker/device/testing/sim_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "worker/device/chunks.h"
#include "worker/device/device_error.h"
#include "worker/device/kernels/run_chunk.h"

namespace remesh::worker {
namespace {

using kernels::DigestUse;
using kernels::LanesInTurn;

constexpr int kNoise = 0xA5;
constexpr uint64_t kNoiseDigest = 0xA5A5A5A5A5A5A5A5;

absl::Status SimError(const SimOptions& options) {
  return DeviceError(options.device, "SIMULATED", "a fault that a test asked for");
}

// Fills the memory that the work will write with noise.
void SpoilTargets(WorkTable& table) {
  kernels::Stage noise;
  std::memset(noise.words, kNoise, sizeof(noise.words));
  for (int64_t index = 0; index < table.chunks(); ++index) {
    const kernels::ChunkPlace chunk = kernels::ChunkAt(table.View(), index);
    if (chunk.target == nullptr) continue;
    kernels::MoveRange<kernels::MoveKind::kScatter, LanesInTurn>(chunk.target, chunk.lo,
                                                                 chunk.target_hi, noise);
  }
}

void SpoilDigests(WorkKind kind, const std::vector<SlicePart>& parts) {
  if (kind != WorkKind::kPack && kind != WorkKind::kCopy) return;
  for (const SlicePart& part : parts) {
    if (part.carried || part.digests == nullptr) continue;
    std::fill_n(part.digests, ChunksOf(part.lo, part.hi), kNoiseDigest);
  }
}

void RunChunks(WorkTable& table, std::mt19937& random) {
  std::vector<int64_t> order(static_cast<size_t>(table.chunks()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  kernels::Stage stage;
  for (int64_t index : order) kernels::RunChunk<LanesInTurn>(table.View(), index, stage);
}

}  // namespace

SimDevice::SimDevice(SimOptions options, Notify on_finished)
    : options_(std::move(options)),
      on_finished_(std::move(on_finished)),
      memory_(options_.device, options_.memory_bytes),
      random_(options_.seed),
      thread_([this] { RunThread(); }) {}

SimDevice::~SimDevice() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

absl::StatusOr<std::shared_ptr<std::byte>> SimDevice::Allocate(int64_t bytes) {
  {
    absl::MutexLock lock(&mutex_);
    if (works_left_ == 0) return SimError(options_);
  }
  return memory_.Allocate(bytes);
}

void SimDevice::RunTable(WorkKind kind, std::vector<SlicePart> parts, std::byte* buffer,
                         Done done) {
  WorkTable table = MakeWorkTable(kind, parts, buffer);
  for (kernels::PieceEntry& piece : table.pieces) {
    piece.data = reinterpret_cast<unsigned char*>(
        SimMemory::Behind(reinterpret_cast<std::byte*>(piece.data)));
  }
  SpoilTargets(table);
  SpoilDigests(kind, parts);
  Give(
      [parts = std::move(parts), table = std::move(table)](std::mt19937& random) mutable {
        RunChunks(table, random);
        return FinishWork(parts, table, table.digests.data(), table.first_wrong);
      },
      std::move(done));
}

void SimDevice::Transfer(std::byte* to, const std::byte* from, int64_t bytes, Done done) {
  std::byte* const target = SimMemory::Behind(to);
  const std::byte* const source = SimMemory::Behind(from);
  std::memset(target, kNoise, static_cast<size_t>(bytes));
  Give(
      [=](std::mt19937&) {
        std::memcpy(target, source, static_cast<size_t>(bytes));
        return Mismatch();
      },
      std::move(done));
}

void SimDevice::Give(absl::AnyInvocable<Mismatch(std::mt19937&)> run, Done done) {
  ++pending_;
  absl::MutexLock lock(&mutex_);
  queued_.push_back({std::move(run), std::move(done)});
}

void SimDevice::CancelQueued() {
  {
    absl::MutexLock lock(&mutex_);
    if (queued_.empty()) return;
    for (Work& work : queued_) {
      work.result = absl::CancelledError("cancelled before it began");
      ended_.push_back(std::move(work));
    }
    queued_.clear();
  }
  on_finished_();
}

bool SimDevice::Drain() {
  std::deque<Work> ended;
  {
    absl::MutexLock lock(&mutex_);
    ended.swap(ended_);
  }
  for (Work& work : ended) {
    --pending_;
    work.done(std::move(work.result));
  }
  return !ended.empty();
}

void SimDevice::FailAfter(int64_t works) {
  absl::MutexLock lock(&mutex_);
  works_left_ = works;
}

void SimDevice::Linger() {
  if (!options_.delays || random_() % 2 == 0) return;
  const uint32_t most_us = random_() % 64 == 0 ? 3000 : 200;
  std::this_thread::sleep_for(std::chrono::microseconds(random_() % most_us));
}

SimDevice::Work SimDevice::Next() {
  Work work;
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &SimDevice::HasWork));
  if (stopping_) return work;
  const auto chosen = queued_.begin() + static_cast<int64_t>(random_() % queued_.size());
  work = std::move(*chosen);
  queued_.erase(chosen);
  if (works_left_ > 0) {
    --works_left_;
  } else {
    work.result = SimError(options_);
  }
  return work;
}

void SimDevice::RunThread() {
  while (true) {
    Linger();
    Work work = Next();
    if (!work.run) return;
    Linger();
    const bool failed = !work.result.ok();
    if (!failed) work.result = work.run(random_);
    work.run = nullptr;  // destroys its captures here, not on the owning thread
    {
      absl::MutexLock lock(&mutex_);
      ended_.push_back(std::move(work));
    }
    if (!failed) on_finished_();
  }
}

}  // namespace remesh::worker
