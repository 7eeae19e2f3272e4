// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "worker/nccl/fake/fake_stream.h"

namespace remesh::worker {

// A stream of the fake NCCL: a thread that does what is put on it. Whose memory it works on is for
// `translate` to say, which is called on that thread only.
class FakeStreamThread : public RemeshFakeStream {
 public:
  // Where the bytes at a device's address are; null: the device has no such bytes.
  using Translate = std::function<std::byte*(const std::byte* address, size_t bytes)>;

  explicit FakeStreamThread(Translate translate);
  // Runs what is on it.
  ~FakeStreamThread();

  FakeStreamThread(const FakeStreamThread&) = delete;
  FakeStreamThread& operator=(const FakeStreamThread&) = delete;

  // What is on the stream waits from now on, until `false` is said: a device that is busy.
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
