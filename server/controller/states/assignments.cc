// SPDX-License-Identifier: Apache-2.0
#include "server/controller/states/assignments.h"

#include <set>
#include <utility>

#include "server/controller/states/write_once.h"

namespace remesh::server {

void Assignments::Send(const StateEntry& state, const std::string& host, Outbox& out) const {
  const WorkerEntry* worker = workers_.Find(host);
  const bool in_columns = worker != nullptr && worker->registration.supports_short_assign_state();
  const auto make = [placed = state.placed, head = AssignmentHead(state), host, in_columns] {
    v1::AttachResponse message;
    v1::Assignment& assignment = *message.mutable_assign_state()->mutable_assignment();
    assignment = in_columns ? AssignmentInColumns(*placed, host) : AssignmentOf(*placed, host);
    assignment.MergeFrom(head);
    return message;
  };
  commands_.SendLater(host, AssignmentBytes(*state.placed, host), make, out);
}

void Assignments::SendAbsence(const StateEntry& state, const std::string& host, Outbox& out) const {
  if (state.placed->hosts.contains(host)) return;
  v1::AttachResponse message;
  *message.mutable_assign_state()->mutable_assignment() = AssignmentHead(state);
  commands_.Send(host, std::move(message), out);
}

void Assignments::OnAttached(const std::string& host, StateEntry& state, Outbox& out) const {
  if (!state.unattached_hosts.contains(host)) return;
  const bool last = state.unattached_hosts.size() == 1;
  const std::set<std::string> held =
      last ? HeldBackHosts(state, workers_) : std::set<std::string>();
  state.unattached_hosts.erase(host);
  for (const std::string& other : held) {
    const bool waits = other != host && workers_.alive(other);
    if (waits && !IsHeldBack(state, workers_, other)) {
      Send(state, other, out);
    }
  }
}

}  // namespace remesh::server
