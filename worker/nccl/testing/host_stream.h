// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "worker/nccl/fake/fake_stream.h"

namespace remesh {

// A stream of the fake NCCL, and the memory of its device: a thread that does what is put on it.
// Addresses of the memory cannot be read or written (the process would end); only translate(),
// inside what runs on the stream, and the test by host() know the bytes behind them.
class HostStream : public RemeshFakeStream {
 public:
  explicit HostStream(size_t memory_bytes);
  // Runs what is on it.
  ~HostStream();

  std::span<std::byte> memory() const { return {reserved_, host_.size()}; }  // device addresses
  std::span<std::byte> host() { return host_; }

  // What is on the stream waits from now on, until `false` is said.
  void Hold(bool hold);

 private:
  using Work = std::pair<void (*)(void*), void*>;
  static void Enqueue(RemeshFakeStream* self, void (*run)(void*), void* argument);
  static void* Translate(RemeshFakeStream* self, const void* address, size_t bytes);
  void Run();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::vector<std::byte> host_;
  std::byte* reserved_ = nullptr;
  absl::Mutex mutex_;
  std::deque<Work> work_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace remesh
