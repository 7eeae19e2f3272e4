// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/testing/fake/fake_transfer.h"

#include <algorithm>
#include <cstring>

namespace remesh::worker::fake_nccl {
namespace {

// Calls copy(place in the ring, offset, bytes) for [at, at + bytes) of the stream of bytes.
template <typename Copy>
void ForRing(FakeChannel& channel, uint64_t at, size_t bytes, const Copy& copy) {
  const size_t begin = at % FakeChannel::kBytes;
  const size_t first = std::min(bytes, FakeChannel::kBytes - begin);
  copy(channel.ring + begin, size_t{0}, first);
  if (bytes > first) copy(channel.ring, first, bytes - first);
}

}  // namespace

bool FakeTransfer::Step() { return !done_ && (send_ ? StepSend() : StepReceive()); }

bool FakeTransfer::StepSend() {
  const uint64_t written = channel_->written.load(), read = channel_->read.load();
  if (left_ == 0) return done_ = read >= written;
  const size_t now = std::min<size_t>(left_, FakeChannel::kBytes - (written - read));
  ForRing(*channel_, written, now, [&](std::byte* ring, size_t offset, size_t bytes) {
    std::memcpy(ring, memory_ + offset, bytes);
  });
  memory_ += now;
  left_ -= now;
  channel_->written = written + now;
  return now > 0;
}

bool FakeTransfer::StepReceive() {
  const uint64_t written = channel_->written.load(), read = channel_->read.load();
  const size_t now = std::min<size_t>(left_, written - read);
  ForRing(*channel_, read, now, [&](std::byte* ring, size_t offset, size_t bytes) {
    std::memcpy(memory_ + offset, ring, bytes);
  });
  memory_ += now;
  left_ -= now;
  channel_->read = read + now;
  done_ = left_ == 0;
  return now > 0 || done_;
}

}  // namespace remesh::worker::fake_nccl
