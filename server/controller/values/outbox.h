// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "server/controller/values/action.h"
#include "server/controller/values/follow_up.h"

namespace remesh::server {

// Collects the actions of the controller's machines for one event, in order. Not thread-safe.
class Outbox {
 public:
  void Add(Action action) { actions_.push_back(std::move(action)); }
  void Reply(CallId call, absl::StatusOr<server::Reply> reply);
  void Reply(const std::vector<CallId>& calls, const absl::StatusOr<server::Reply>& reply);
  void Close(StreamId stream, const absl::Status& status);
  void Note(std::string line);
  void Warn(std::string line);
  // Writes a transaction, which the journal queue numbers; the queue returns `then` once it is on
  // disk.
  void Persist(std::vector<Record> records, FollowUp then = NothingFollows());
  // The state or execution of this name has changed: its watchers are notified at the end of the
  // event.
  void Touch(const std::string& name) { touched_.insert(name); }

  bool Closes(StreamId stream) const { return closed_.contains(stream); }
  // Drops the transactions that were to be written, and their follow-ups.
  void DropPersists();
  const std::set<std::string>& touched() const { return touched_; }
  std::set<std::string> TakeTouched();
  // The follow-ups of the Persist actions, in the same order.
  std::vector<FollowUp> TakeFollowUps();
  Actions& actions() { return actions_; }

 private:
  Actions actions_;
  std::vector<FollowUp> follow_ups_;
  std::set<std::string> touched_;
  std::set<StreamId> closed_;
};

}  // namespace remesh::server
