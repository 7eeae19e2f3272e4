// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "server/controller/action.h"
#include "server/controller/follow_up.h"

namespace remesh::server {

// What the machines of the controller want done because of one event, in order. Not thread-safe.
class Outbox {
 public:
  void Add(Action action) { actions_.push_back(std::move(action)); }
  void Reply(CallId call, absl::StatusOr<server::Reply> reply);
  void Reply(const std::vector<CallId>& calls, const absl::StatusOr<server::Reply>& reply);
  void Close(StreamId stream, const absl::Status& status);
  void Note(std::string line);
  void Warn(std::string line);
  // The journal queue numbers it; `then` comes back from there once it is on disk.
  void Persist(std::vector<Record> records, FollowUp then = NothingFollows());
  // The state or execution of this name changed: its watchers are told at the event's end.
  void Touch(const std::string& name) { touched_.insert(name); }

  bool Closes(StreamId stream) const;
  // What was to be written is not, and nothing follows from it.
  void DropPersists();
  std::set<std::string> TakeTouched();
  // Of the Persist actions, in their order.
  std::vector<FollowUp> TakeFollowUps();
  Actions& actions() { return actions_; }

 private:
  Actions actions_;
  std::vector<FollowUp> follow_ups_;
  std::set<std::string> touched_;
};

}  // namespace remesh::server
