// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/execution_hosts.h"

#include <algorithm>

namespace remesh::server {

ExecutionHosts::ExecutionHosts(const std::vector<Participant>& participants) {
  for (const Participant& participant : participants) {
    hosts_.push_back({.name = participant.host, .receives = participant.receives()});
  }
}

void ExecutionHosts::Restore(bool ended) {
  for (ExecutionHost& host : hosts_) {
    host.told = host.away = true;
    host.quiesced = ended;
  }
}

int ExecutionHosts::IndexOf(const std::string& host) const {
  const auto found = std::lower_bound(
      hosts_.begin(), hosts_.end(), host,
      [](const ExecutionHost& other, const std::string& name) { return other.name < name; });
  if (found == hosts_.end() || found->name != host) return -1;
  return static_cast<int>(found - hosts_.begin());
}

// Whether something holds for all hosts. Begins at `looked`, and leaves there who it does not hold
// for.
template <typename Holds>
bool ExecutionHosts::All(size_t& looked, Holds holds) const {
  for (size_t i = 0; i < hosts_.size(); ++i) {
    if (!holds(hosts_[looked])) return false;
    looked = (looked + 1) % hosts_.size();
  }
  return true;
}

bool ExecutionHosts::prepared() const {
  return All(prepared_looked_, [](const ExecutionHost& host) { return host.prepared; });
}

bool ExecutionHosts::verified() const {
  return All(verified_looked_, [](const ExecutionHost& host) { return host.verified; });
}

bool ExecutionHosts::committed() const {
  return All(committed_looked_, [](const ExecutionHost& host) {
    return host.committed || (host.away && !host.receives);
  });
}

bool ExecutionHosts::quiet() const {
  return All(quiet_looked_,
             [](const ExecutionHost& host) { return !host.told || host.quiesced || host.away; });
}

bool ExecutionHosts::settled() const {
  return std::all_of(hosts_.begin(), hosts_.end(),
                     [](const ExecutionHost& host) { return !host.told || host.settled; });
}

bool ExecutionHosts::incomplete() const {
  return std::any_of(hosts_.begin(), hosts_.end(), [](const ExecutionHost& host) {
    return host.incomplete || (host.away && host.receives && !host.committed);
  });
}

std::vector<int> ExecutionHosts::CommitsToRepeat(Timestamp now) const {
  std::vector<int> again;
  for (size_t i = 0; i < hosts_.size(); ++i) {
    const ExecutionHost& host = hosts_[i];
    if (host.commit_failures == 0 || host.committed || host.away) continue;
    if (now >= host.commit_again) again.push_back(static_cast<int>(i));
  }
  return again;
}

void ExecutionHosts::CommitFailed(int index, Timestamp now) {
  constexpr Timestamp kFirst = std::chrono::seconds(1), kMost = std::chrono::seconds(30);
  ExecutionHost& host = hosts_[index];
  const Timestamp pause = kFirst * (1 << std::min(host.commit_failures, 5));
  ++host.commit_failures;
  host.commit_again = now + std::min(pause, kMost);
}

void ExecutionHosts::ExtendDeadlines(Timestamp pause) {
  for (ExecutionHost& host : hosts_) host.commit_again += pause;
}

}  // namespace remesh::server
