// SPDX-License-Identifier: Apache-2.0
// What comes to the core from outside, in the turns of callers and of workers.
#include <optional>
#include <string>
#include <utility>

#include "base/caller_gone.h"
#include "server/core.h"

namespace remesh::server {

void Core::Call(CallId id, Request request, ReplyFn reply, const std::string& caller, Gone gone) {
  if (const auto* create = std::get_if<CreateState>(&request)) KeepLayout(create->placed);
  callers_.Push(caller, [this, id, caller, reply = std::move(reply), request = std::move(request),
                         gone = std::move(gone)]() mutable {
    if (shut_down_) return reply(ShuttingDown());
    if (gone != nullptr && gone()) return reply(CallerGone());
    calls_.Add(id, std::move(reply), caller, std::move(gone));
    Handle(server::Call{.id = id, .request = std::move(request)});
  });
}

void Core::EndCall(CallId id, const std::string& caller) {
  callers_.Push(caller, [this, id] {
    calls_.Answer(id, CallerGone());
    if (!shut_down_) Handle(CallerLeft{.call = id});
  });
}

void Core::PostFor(const std::optional<std::string>& caller, FairQueue::Task task) {
  if (caller) return callers_.Push(*caller, std::move(task));
  messages_.Push(std::move(task));
}

void Core::OpenStream(std::shared_ptr<WorkerSink> sink, const std::string& caller) {
  const StreamId id = next_id_++;
  callers_.Push(caller, [this, id, sink = std::move(sink)] {
    if (shut_down_) sink->Close(ShuttingDown());
    if (!sink->Begin(id)) return;
    streams_[id] = sink;
    Handle(StreamOpened{id});
  });
}

void Core::OnStreamMessage(StreamMessage message, absl::AnyInvocable<void()> handled,
                           const std::optional<std::string>& caller) {
  const bool hurries = caller || !message.message.has_heartbeat();
  FairQueue::Task handle = [this, message = std::move(message),
                            handled = std::move(handled)]() mutable {
    if (streams_.contains(message.stream)) Handle(std::move(message));
    handled();
  };
  if (!hurries) return messages_.PushQuietly(std::move(handle));
  PostFor(caller, std::move(handle));
}

void Core::OnStreamEnded(StreamId stream, const std::optional<std::string>& caller) {
  PostFor(caller, [this, stream] {
    if (streams_.erase(stream) > 0) Handle(StreamEnded{stream});
  });
}

WatchId Core::Watch(const std::string& name, std::shared_ptr<WatchSink> sink,
                    const std::string& caller) {
  const WatchId id = next_id_++;
  callers_.Push(caller, [this, id, name, sink = std::move(sink)] {
    if (sink->Ended()) return;
    if (shut_down_) return sink->End(ShuttingDown());
    watches_[id] = sink;
    Handle(WatchStarted{.id = id, .name = name});
  });
  return id;
}

void Core::EndWatch(WatchId watch, OpenWatches::Place place) {
  const std::string caller = place.caller();
  callers_.Push(caller, [this, watch, place = std::move(place)]() mutable {
    if (watches_.erase(watch) > 0) Handle(WatchEnded{watch});
    place = {};
  });
}

}  // namespace remesh::server
