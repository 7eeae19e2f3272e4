// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "worker/nccl/fake/fake_world.h"

namespace remesh::fake_nccl {

// One ncclSend or ncclRecv as the kernel carries it out, a piece at a time. The k-th send of a pair
// begins when its k-th receive has, and ends when all its bytes were taken: nothing runs ahead.
class FakeTransfer {
 public:
  // `number`: of the transfers between the two, in this direction, how many were before it.
  FakeTransfer(FakeChannel* channel, bool send, uint64_t number, std::byte* memory, size_t bytes)
      : channel_(channel), send_(send), number_(number), memory_(memory), left_(bytes) {}

  // What it can do now; whether that was anything.
  bool Step();
  bool done() const { return done_; }

 private:
  bool StepSend();
  bool StepReceive();

  FakeChannel* channel_;
  bool send_;
  uint64_t number_;
  std::byte* memory_;
  size_t left_;
  bool begun_ = false;
  bool done_ = false;
};

}  // namespace remesh::fake_nccl
