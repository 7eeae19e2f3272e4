// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "server/controller/membership/commands.h"
#include "server/controller/membership/worker_registry.h"
#include "server/controller/states/state_registry.h"
#include "server/controller/values/outbox.h"

namespace remesh::server {

// What hosts are sent of a state: their shards, or that they have none. Has no state of its own.
// Part of States. Not thread-safe.
class Assignments {
 public:
  Assignments(const WorkerRegistry& workers, const Commands& commands)
      : workers_(workers), commands_(commands) {}

  // Sends a host with shards of the state their list. A new state is sent to all of its hosts at
  // once, so each message is made only when its stream can take it.
  void Send(const StateEntry& state, const std::string& host, Outbox& out) const;
  // Informs a host without shards of the state, which knows of the state only because a trainer
  // there asked.
  void SendAbsence(const StateEntry& state, const std::string& host, Outbox& out) const;
  // The host has attached. If it was the last one of the state that could tell of a commit, those
  // that were held back because of that are assigned their shards.
  void OnAttached(const std::string& host, StateEntry& state, Outbox& out) const;

 private:
  const WorkerRegistry& workers_;
  const Commands& commands_;
};

}  // namespace remesh::server
