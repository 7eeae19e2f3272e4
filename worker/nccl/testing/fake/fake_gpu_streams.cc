// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/testing/fake/fake_gpu_streams.h"

#include "base/check.h"

namespace remesh::worker {
namespace {

using PassedCount = std::shared_ptr<std::atomic<GpuStreams::Event>>;

void CountPassed(void* argument) {
  const std::unique_ptr<PassedCount> passed(static_cast<PassedCount*>(argument));
  ++**passed;
}

}  // namespace

FakeGpuStreams::FakeGpuStreams(std::vector<RemeshFakeStream*> streams) {
  for (RemeshFakeStream* stream : streams) {
    REMESH_CHECK(stream->magic == REMESH_FAKE_STREAM_MAGIC);
    devices_.push_back({.stream = stream});
  }
}

absl::StatusOr<GpuStreams::Event> FakeGpuStreams::Record(int device) {
  Device& at = devices_.at(device);
  at.stream->enqueue(at.stream, &CountPassed, new PassedCount(at.passed));
  return ++at.recorded;
}

absl::StatusOr<bool> FakeGpuStreams::Passed(int device, Event event) {
  return *devices_.at(device).passed >= event;
}

}  // namespace remesh::worker
