// SPDX-License-Identifier: Apache-2.0
#include "server/grpc/member_stream.h"

#include <utility>

#include "base/error.h"
#include "server/coordination/messages.h"
#include "service/rpc/error_info.h"

namespace remesh::server {
namespace {

// A member is told few things. One that has left so many unread does not read.
constexpr size_t kEventsMax = 64;

absl::Status TooSlow() {
  return MakeError(absl::StatusCode::kResourceExhausted, "the member does not read its events",
                   {.reason = "MEMBER_TOO_SLOW", .metadata = {}});
}

using SharedWorld = std::shared_ptr<const coordination::FormedWorld>;

grpc::ByteBuffer BytesOf(const v1::WorldEvent& event) {
  const grpc::Slice slice(event.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// Holds on to the world instead of a copy of what all its members get.
grpc::ByteBuffer BytesOf(const SharedWorld& world, int rank) {
  const std::string& rest = world->EventRest();
  const grpc::Slice parts[] = {
      grpc::Slice(world->EventHead(rank)),
      grpc::Slice(
          const_cast<char*>(rest.data()), rest.size(),
          [](void* held) { delete static_cast<SharedWorld*>(held); }, new SharedWorld(world))};
  return grpc::ByteBuffer(parts, 2);
}

}  // namespace

MemberStream* MemberStream::Start(coordination::Coordinator& coordinator, ThreadPool& pool,
                                  std::string turn, const v1::JoinRequest& request) {
  std::shared_ptr<MemberStream> stream(new MemberStream(coordinator, pool, std::move(turn)));
  stream->self_ = stream;
  coordinator.Join(stream->session_, request, stream);
  return stream.get();
}

void MemberStream::SendFormed(std::shared_ptr<const coordination::FormedWorld> world, int rank) {
  Push(Formed{std::move(world), rank});
}

void MemberStream::Send(v1::WorldEvent event) { Push(std::move(event)); }

void MemberStream::Push(Message message) {
  absl::ReleasableMutexLock lock(&mutex_);
  if (end_) return;
  const auto* event = std::get_if<v1::WorldEvent>(&message);
  // Something else is on its way.
  if (event != nullptr && event->has_keep_alive() && (writing_ || !queue_.empty())) return;
  const auto* last = queue_.empty() ? nullptr : std::get_if<v1::WorldEvent>(&queue_.back());
  // A later one says all that an earlier one did.
  if (event != nullptr && event->has_preempt() && last != nullptr && last->has_preempt()) {
    queue_.pop_back();
  }
  if (queue_.size() == kEventsMax) {
    queue_.clear();
    end_ = TooSlow();
  } else {
    queue_.push_back(std::move(message));
  }
  Proceed(lock);
}

void MemberStream::End(const absl::Status& status) {
  absl::ReleasableMutexLock lock(&mutex_);
  if (!end_) end_ = status;
  Proceed(lock);
}

void MemberStream::OnWriteDone(bool ok) {
  current_.Clear();  // the next write may be far off
  {
    absl::ReleasableMutexLock lock(&mutex_);
    writing_ = false;
    if (ok) return Proceed(lock);
  }
  Break();
}

void MemberStream::OnCancel() { Break(); }

// The member has gone.
void MemberStream::Break() {
  coordinator_.OnStreamEnd(session_);
  absl::ReleasableMutexLock lock(&mutex_);
  queue_.clear();
  if (!end_) end_ = absl::CancelledError("the member hung up");
  Proceed(lock);
}

void MemberStream::OnDone() {
  coordinator_.OnStreamEnd(session_);
  self_ = nullptr;  // may be the last owner
}

// Starts the next operation if none is running. Releases the lock first, because gRPC may call back
// at once.
void MemberStream::Proceed(absl::ReleasableMutexLock& lock) {
  if (writing_ || finished_) return;
  if (!queue_.empty()) {
    writing_ = true;
    Message next = std::move(queue_.front());
    queue_.pop_front();
    lock.Release();
    if (auto* event = std::get_if<v1::WorldEvent>(&next)) {
      current_ = BytesOf(*event);
      return StartWrite(&current_);
    }
    auto write = [stream = self_, formed = std::get<Formed>(std::move(next))] {
      stream->WriteFormed(formed);
    };
    if (pool_.Post({.caller = turn_}, std::move(write))) return;
    OnWriteDone(false);
  } else if (end_) {
    finished_ = true;
    const grpc::Status status = service::StatusToGrpc(*end_);
    lock.Release();
    Finish(status);
  }
}

void MemberStream::WriteFormed(const Formed& formed) {
  current_ = BytesOf(formed.world, formed.rank);
  StartWrite(&current_);
}

}  // namespace remesh::server
