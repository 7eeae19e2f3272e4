// SPDX-License-Identifier: Apache-2.0
#include "server/controller/states/tombstones.h"

#include <algorithm>

namespace remesh::server {

void Tombstones::Restore(const std::map<StateKey, Tombstone>& tombstones) {
  by_state_ = tombstones;
  for (const auto& [state, tombstone] : by_state_) {
    next_order_ = std::max(next_order_, tombstone.order + 1);
  }
}

std::vector<Record> Tombstones::Add(const StateKey& state, Tombstone tombstone) {
  by_state_[state] = std::move(tombstone);
  if (by_state_.size() <= most_) return {};
  const auto oldest =
      std::min_element(by_state_.begin(), by_state_.end(), [](const auto& a, const auto& b) {
        const bool a_waits = !a.second.hosts.empty(), b_waits = !b.second.hosts.empty();
        return a_waits != b_waits ? b_waits : a.second.order < b.second.order;
      });
  const StateKey gone = oldest->first;
  by_state_.erase(oldest);
  return {NoTombstoneRecord(gone)};
}

std::vector<Record> Tombstones::Confirm(const std::string& host, const std::set<StateKey>& states) {
  std::vector<Record> records;
  for (const StateKey& state : states) {
    const auto found = by_state_.find(state);
    if (found == by_state_.end() || found->second.hosts.erase(host) == 0) continue;
    records.push_back(TombstoneRecord(state, found->second));
  }
  return records;
}

std::set<StateKey> Tombstones::WaitingFor(const std::string& host) const {
  std::set<StateKey> waiting;
  for (const auto& [state, tombstone] : by_state_) {
    if (tombstone.hosts.contains(host)) waiting.insert(state);
  }
  return waiting;
}

}  // namespace remesh::server
