// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/testing/host_stream.h"

#include <sys/mman.h>

#include "base/check.h"

namespace remesh {

HostStream::HostStream(size_t memory_bytes)
    : RemeshFakeStream{REMESH_FAKE_STREAM_MAGIC, 0, &Enqueue, &Translate}, host_(memory_bytes) {
  void* reserved =
      mmap(nullptr, memory_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REMESH_CHECK(reserved != MAP_FAILED);
  reserved_ = static_cast<std::byte*>(reserved);
  thread_ = std::thread([this] { Run(); });
}

HostStream::~HostStream() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    held_ = false;
  }
  thread_.join();
  munmap(reserved_, host_.size());
}

void HostStream::Hold(bool hold) {
  absl::MutexLock lock(&mutex_);
  held_ = hold;
}

void HostStream::Enqueue(RemeshFakeStream* self, void (*run)(void*), void* argument) {
  auto* stream = static_cast<HostStream*>(self);
  absl::MutexLock lock(&stream->mutex_);
  stream->work_.emplace_back(run, argument);
}

void* HostStream::Translate(RemeshFakeStream* self, const void* address, size_t bytes) {
  auto* stream = static_cast<HostStream*>(self);
  REMESH_CHECK(std::this_thread::get_id() == stream->thread_.get_id());
  const auto begin = reinterpret_cast<uintptr_t>(stream->reserved_),
             at = reinterpret_cast<uintptr_t>(address);
  const size_t size = stream->host_.size();
  if (at < begin || at - begin > size || bytes > size - (at - begin)) return nullptr;
  return stream->host_.data() + (at - begin);
}

bool HostStream::HasWork() const { return closing_ || (!held_ && !work_.empty()); }

void HostStream::Run() {
  while (true) {
    Work work;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &HostStream::HasWork));
      if (work_.empty()) return;
      work = work_.front();
      work_.pop_front();
    }
    work.first(work.second);
  }
}

}  // namespace remesh
