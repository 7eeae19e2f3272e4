// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/controller/records.h"

namespace remesh::server {

// Which states were deleted, so that what is left of them on workers may be freed whenever it turns
// up. They outlive the hosts' entries, and the deletions of other states of the same name. Bounded:
// the oldest go first, those that every host has confirmed before others; what is left of a
// forgotten one is owed, not freed. Not thread-safe.
class Tombstones {
 public:
  explicit Tombstones(size_t most) : most_(most) {}

  void Restore(const std::map<StateKey, Tombstone>& tombstones);
  bool contains(const StateKey& state) const { return by_state_.contains(state); }

  // For a state of which `hosts` may hold something: to be journaled before it is added.
  Tombstone Make(std::set<std::string> hosts) {
    return {.order = next_order_++, .hosts = std::move(hosts)};
  }
  // Returns what the journal may forget.
  std::vector<Record> Add(const StateKey& state, Tombstone tombstone);
  // Nothing of these states is left on the host; returns what the journal must learn.
  std::vector<Record> Confirm(const std::string& host, const std::set<StateKey>& states);
  // Those that wait for the host.
  std::set<StateKey> WaitingFor(const std::string& host) const;

 private:
  const size_t most_;
  uint64_t next_order_ = 1;
  std::map<StateKey, Tombstone> by_state_;
};

}  // namespace remesh::server
