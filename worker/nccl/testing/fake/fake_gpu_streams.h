// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "worker/nccl/testing/fake/fake_stream.h"
#include "worker/nccl/gpu_streams.h"

namespace remesh::worker {

// The link's view of streams that the fake NCCL can work with: one for each device, by local index.
class FakeGpuStreams : public GpuStreams {
 public:
  // The streams must outlive what was recorded on them, but not this object.
  explicit FakeGpuStreams(std::vector<RemeshFakeStream*> streams);

  absl::Status MakeCurrent(int) override { return absl::OkStatus(); }
  nccl::Stream Handle(int device) override { return devices_[device].stream; }
  absl::StatusOr<Event> Record(int device) override;
  absl::StatusOr<bool> Passed(int device, Event event) override;

 private:
  struct Device {
    RemeshFakeStream* stream = nullptr;
    Event recorded = 0;
    // Events that the stream has passed; shared with the marks on it.
    std::shared_ptr<std::atomic<Event>> passed = std::make_shared<std::atomic<Event>>(0);
  };
  std::vector<Device> devices_;
};

}  // namespace remesh::worker
