// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/controller/values/records.h"

namespace remesh::server {

// Which states were deleted, so that remains of them on workers can be freed whenever they turn up.
// Tombstones outlive the hosts' entries and later states of the same name. Their number is bounded:
// those that every host has confirmed go first, then the oldest; remains of a forgotten one are
// owed, not freed. Not thread-safe.
class Tombstones {
 public:
  explicit Tombstones(size_t most) : most_(most) {}

  void Restore(const std::map<StateKey, Tombstone>& tombstones);
  bool contains(const StateKey& state) const { return by_state_.contains(state); }

  // A tombstone for a state of which `hosts` may hold something. Write it to the journal before
  // adding it.
  Tombstone Make(std::set<std::string> hosts) {
    return {.order = next_order_++, .hosts = std::move(hosts)};
  }
  // Returns the records that the journal may drop.
  std::vector<Record> Add(const StateKey& state, Tombstone tombstone);
  // The host no longer holds anything of these states. Returns the records that the journal must
  // get.
  std::vector<Record> Confirm(const std::string& host, const std::set<StateKey>& states);
  // The tombstones that wait for the host's confirmation.
  std::set<StateKey> WaitingFor(const std::string& host) const;

 private:
  const size_t most_;
  uint64_t next_order_ = 1;
  std::map<StateKey, Tombstone> by_state_;
};

}  // namespace remesh::server
