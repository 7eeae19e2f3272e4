// SPDX-License-Identifier: Apache-2.0
#include "server/controller/states/tombstones.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace remesh::server {

void Tombstones::Restore(const std::map<StateKey, Tombstone>& tombstones) {
  by_state_ = tombstones;
  for (const auto& [state, tombstone] : by_state_) {
    next_order_ = std::max(next_order_, tombstone.order + 1);
    hosts_ += tombstone.hosts.size();
  }
}

const Tombstone* Tombstones::Find(const StateKey& state) const {
  const auto found = by_state_.find(state);
  return found == by_state_.end() ? nullptr : &found->second;
}

std::vector<Record> Tombstones::Add(const StateKey& state, Tombstone tombstone) {
  const size_t hosts = tombstone.hosts.size();
  Tombstone& added = by_state_[state];
  hosts_ += hosts - added.hosts.size();
  added = std::move(tombstone);

  std::vector<Record> records;
  while (by_state_.size() > limits_.states) Drop(First(/*waits=*/false), records);
  while (hosts_ > std::max(limits_.hosts, hosts)) Drop(First(/*waits=*/true), records);
  return records;
}

// The oldest of those that wait for hosts, or that do not. If there are none, the oldest of all.
Tombstones::ByState::iterator Tombstones::First(bool waits) {
  const auto rank = [waits](const ByState::value_type& one) {
    return std::make_pair(one.second.hosts.empty() == waits, one.second.order);
  };
  return std::min_element(by_state_.begin(), by_state_.end(),
                          [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
}

void Tombstones::Drop(ByState::iterator tombstone, std::vector<Record>& records) {
  std::vector<Record> gone = NoTombstoneRecords(tombstone->first, tombstone->second);
  std::move(gone.begin(), gone.end(), std::back_inserter(records));
  hosts_ -= tombstone->second.hosts.size();
  by_state_.erase(tombstone);
}

void Tombstones::Await(const std::string& host, const StateKey& state) {
  const auto found = by_state_.find(state);
  if (found != by_state_.end()) hosts_ += found->second.hosts.insert(host).second;
}

std::vector<Record> Tombstones::Confirm(const std::string& host, const StateKey& state) {
  const auto found = by_state_.find(state);
  if (found == by_state_.end() || found->second.hosts.erase(host) == 0) return {};
  --hosts_;
  if (!std::exchange(found->second.in_one_row, false)) return {NoRemainsRecord(state, host)};
  return TombstoneRecords(state, found->second);
}

std::set<StateKey> Tombstones::WaitingFor(const std::string& host) const {
  std::set<StateKey> waiting;
  for (const auto& [state, tombstone] : by_state_) {
    if (tombstone.hosts.contains(host)) waiting.insert(state);
  }
  return waiting;
}

std::set<StateKey> Tombstones::WaitingOf(const std::string& name) const {
  std::set<StateKey> waiting;
  for (auto it = by_state_.lower_bound({.name = name, .uid = ""});
       it != by_state_.end() && it->first.name == name; ++it) {
    if (!it->second.hosts.empty()) waiting.insert(it->first);
  }
  return waiting;
}

}  // namespace remesh::server
