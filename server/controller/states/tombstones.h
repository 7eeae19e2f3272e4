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
// Tombstones outlive the hosts' entries and later states of the same name. They are bounded, by
// number and by the hosts that they wait for. Beyond that those that every host has confirmed go
// first, then the oldest; remains of a forgotten one are owed, not freed. Not thread-safe.
class Tombstones {
 public:
  struct Limits {
    size_t states = 0;
    size_t hosts = 0;  // of all tombstones together; the newest may have more alone
  };
  explicit Tombstones(Limits limits) : limits_(limits) {}

  void Restore(const std::map<StateKey, Tombstone>& tombstones);
  bool contains(const StateKey& state) const { return by_state_.contains(state); }
  // Null: there is none.
  const Tombstone* Find(const StateKey& state) const;

  // A tombstone for a state of which `hosts` may hold something. Write it to the journal before
  // adding it.
  Tombstone Make(std::set<std::string> hosts) {
    return {.order = next_order_++, .hosts = std::move(hosts)};
  }
  // Returns the records that the journal may drop.
  std::vector<Record> Add(const StateKey& state, Tombstone tombstone);
  // The host has something of the state after all.
  void Await(const std::string& host, const StateKey& state);
  // The host no longer holds anything of the state. Returns the records that the journal must get;
  // none: the tombstone does not wait for the host.
  std::vector<Record> Confirm(const std::string& host, const StateKey& state);
  // The tombstones that wait for the host's confirmation.
  std::set<StateKey> WaitingFor(const std::string& host) const;
  // Those of states of this name that wait for some host.
  std::set<StateKey> WaitingOf(const std::string& name) const;

 private:
  using ByState = std::map<StateKey, Tombstone>;
  ByState::iterator First(bool waits);
  void Drop(ByState::iterator tombstone, std::vector<Record>& records);

  const Limits limits_;
  uint64_t next_order_ = 1;
  ByState by_state_;
  size_t hosts_ = 0;  // of all of them
};

}  // namespace remesh::server
