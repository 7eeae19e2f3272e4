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
    parked_.erase(message.stream);
    out.Close(message.stream, TooFast());
  }
  return true;
}

bool ParkedStreams::Supersede(const std::string& host, Outbox& out) {
  return std::erase_if(parked_, [&](const auto& parked) {
           if (parked.second.registration.host() != host) return false;
           out.Close(parked.first,
                     WorkerError(absl::StatusCode::kAborted, "SUPERSEDED", host, "attached again"));
           return true;
         }) > 0;
}

std::optional<ParkedStreams::Parked> ParkedStreams::Take(StreamId stream) {
  auto parked = parked_.extract(stream);
  if (parked.empty()) return std::nullopt;
  return std::move(parked.mapped());
}

std::vector<StreamId> ParkedStreams::streams() const {
  std::vector<StreamId> streams;
  for (const auto& [stream, parked] : parked_) streams.push_back(stream);
  return streams;
}

}  // namespace remesh::server
