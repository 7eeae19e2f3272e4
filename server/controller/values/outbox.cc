// SPDX-License-Identifier: Apache-2.0
#include "server/controller/values/outbox.h"

#include <utility>

namespace remesh::server {

void Outbox::Reply(CallId call, absl::StatusOr<server::Reply> reply) {
  Add(ReplyTo{.call = call, .reply = std::move(reply)});
}

void Outbox::Reply(const std::vector<CallId>& calls, const absl::StatusOr<server::Reply>& reply) {
  for (const CallId call : calls) Reply(call, reply);
}

void Outbox::Close(StreamId stream, const absl::Status& status) {
  closed_.insert(stream);
  Add(CloseStream{.stream = stream, .status = status});
}

void Outbox::Note(std::string line) { Add(server::Note{.line = std::move(line)}); }

void Outbox::Warn(std::string line) { Add(server::Note{.line = std::move(line), .warning = true}); }

void Outbox::Persist(std::vector<Record> records, FollowUp then) {
  Add(server::Persist{.sequence = 0, .records = std::move(records)});
  follow_ups_.push_back(std::move(then));
}

void Outbox::DropPersists() {
  std::erase_if(actions_, [](const Action& action) {
    return std::holds_alternative<server::Persist>(action);
  });
  follow_ups_.clear();
}

std::set<std::string> Outbox::TakeTouched() { return std::exchange(touched_, {}); }

std::vector<FollowUp> Outbox::TakeFollowUps() { return std::exchange(follow_ups_, {}); }

}  // namespace remesh::server
