// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "worker/nccl/testing/fake/fake_world.h"

namespace remesh::worker::fake_nccl {

// One ncclSend or ncclRecv as the kernel carries it out, a piece at a time. A send is done only
// when all its bytes were taken, so that none runs ahead of its receive.
class FakeTransfer {
 public:
  FakeTransfer(FakeChannel* channel, bool send, std::byte* memory, size_t bytes)
      : channel_(channel), send_(send), memory_(memory), left_(bytes) {}

  // Does what can be done now; returns whether that was anything.
  bool Step();
  bool done() const { return done_; }

 private:
  bool StepSend();
  bool StepReceive();

  FakeChannel* channel_;
  bool send_;
  std::byte* memory_;
  size_t left_;
  bool done_ = false;
};

}  // namespace remesh::worker::fake_nccl
