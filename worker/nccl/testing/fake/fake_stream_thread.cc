// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/testing/fake/fake_stream_thread.h"

#include "base/check.h"

namespace remesh::worker {

FakeStreamThread::FakeStreamThread(Translate translate)
    : RemeshFakeStream{REMESH_FAKE_STREAM_MAGIC, 0, &Enqueue, &TranslateHere},
      translate_(std::move(translate)),
      thread_([this] { Run(); }) {}

FakeStreamThread::~FakeStreamThread() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  thread_.join();
}

void FakeStreamThread::Hold(bool hold) {
  absl::MutexLock lock(&mutex_);
  held_ = hold;
}

void FakeStreamThread::Enqueue(RemeshFakeStream* self, void (*run)(void*), void* argument) {
  auto* stream = static_cast<FakeStreamThread*>(self);
  absl::MutexLock lock(&stream->mutex_);
  stream->work_.emplace_back(run, argument);
}

void* FakeStreamThread::TranslateHere(RemeshFakeStream* self, const void* address, size_t bytes) {
  auto* stream = static_cast<FakeStreamThread*>(self);
  REMESH_CHECK(std::this_thread::get_id() == stream->thread_.get_id());
  return stream->translate_(static_cast<const std::byte*>(address), bytes);
}

void FakeStreamThread::Run() {
  while (true) {
    Work work;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &FakeStreamThread::HasWork));
      if (work_.empty()) return;
      work = work_.front();
      work_.pop_front();
    }
    work.first(work.second);
  }
}

}  // namespace remesh::worker
