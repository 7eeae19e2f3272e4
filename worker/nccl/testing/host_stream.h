// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "worker/nccl/testing/fake/fake_stream_thread.h"

namespace remesh::worker {

// A device for tests: memory, and the stream that NCCL works on. The memory's addresses cannot be
// read or written (the process would end). Only the stream and, by host(), the test reach the bytes
// behind them.
class HostStream {
 public:
  explicit HostStream(size_t memory_bytes);
  ~HostStream();

  std::span<std::byte> memory() const { return {reserved_, host_.size()}; }  // device addresses
  std::span<std::byte> host() { return host_; }
  FakeStreamThread& stream() { return stream_; }

 private:
  std::byte* Behind(const std::byte* address, size_t bytes);

  std::vector<std::byte> host_;
  std::byte* const reserved_;
  FakeStreamThread stream_;  // last: what is on it uses the memory
};

}  // namespace remesh::worker
