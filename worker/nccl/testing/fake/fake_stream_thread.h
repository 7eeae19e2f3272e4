// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "worker/nccl/testing/fake/fake_stream.h"

namespace remesh::worker {

// A stream of the fake NCCL: a thread that runs what is put on it. `translate`, which is called on
// that thread only, finds the memory to work on.
class FakeStreamThread : public RemeshFakeStream {
 public:
  // Finds the bytes at a device's address; null if the device has no such bytes.
  using Translate = std::function<std::byte*(const std::byte* address, size_t bytes)>;

  explicit FakeStreamThread(Translate translate);
  // Runs all that is on the stream.
  ~FakeStreamThread();

  FakeStreamThread(const FakeStreamThread&) = delete;
  FakeStreamThread& operator=(const FakeStreamThread&) = delete;

  // Hold(true) makes all that is on the stream wait until Hold(false), as on a busy device.
  void Hold(bool hold);

 private:
  using Work = std::pair<void (*)(void*), void*>;
  static void Enqueue(RemeshFakeStream* self, void (*run)(void*), void* argument);
  static void* TranslateHere(RemeshFakeStream* self, const void* address, size_t bytes);
  void Run();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closing_ || (!held_ && !work_.empty());
  }

  const Translate translate_;
  absl::Mutex mutex_;
  std::deque<Work> work_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace remesh::worker
