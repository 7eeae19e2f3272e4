// SPDX-License-Identifier: Apache-2.0
#include "server/controller/membership/parked_streams.h"

#include <utility>

#include "base/error.h"
#include "server/controller/membership/membership.h"

namespace remesh::server {
namespace {

absl::Status TooFast() {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   "the worker says more than can wait for the journal",
                   {.reason = "WORKER_TOO_FAST", .metadata = {}});
}

}  // namespace

void ParkedStreams::Park(StreamId stream, v1::Register registration) {
  stream_of_[registration.host()] = stream;
  parked_[stream] = {.registration = std::move(registration), .messages = {}};
}

bool ParkedStreams::Keep(const StreamMessage& message, bool leads, Outbox& out) {
  if (leads && !parked_.contains(message.stream)) return false;
  Parked& parked = parked_[message.stream];
  const bool first = parked.registration.host().empty() && parked.messages.empty();
  if (!first) parked.bytes += message.message.ByteSizeLong();
  if (parked.messages.size() < kMessagesMax && parked.bytes <= kBytesMax) {
    parked.messages.push_back(message);
  } else {
    Drop(parked_.find(message.stream));
    out.Close(message.stream, TooFast());
  }
  return true;
}

bool ParkedStreams::Supersede(const std::string& host, Outbox& out) {
  const auto found = stream_of_.find(host);
  if (found == stream_of_.end()) return false;
  const StreamId stream = found->second;
  Drop(parked_.find(stream));
  out.Close(stream, WorkerError(absl::StatusCode::kAborted, "SUPERSEDED", host, "attached again"));
  return true;
}

void ParkedStreams::Drop(std::map<StreamId, Parked>::iterator parked) {
  stream_of_.erase(parked->second.registration.host());
  parked_.erase(parked);
}

std::optional<ParkedStreams::Parked> ParkedStreams::Take(StreamId stream) {
  const auto found = parked_.find(stream);
  if (found == parked_.end()) return std::nullopt;
  Parked parked = std::move(found->second);
  stream_of_.erase(parked.registration.host());
  parked_.erase(found);
  return parked;
}

std::vector<StreamId> ParkedStreams::streams() const {
  std::vector<StreamId> streams;
  for (const auto& [stream, parked] : parked_) streams.push_back(stream);
  return streams;
}

}  // namespace remesh::server
