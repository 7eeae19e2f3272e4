// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/controller/values/action.h"

namespace remesh::server {

// Identifies a state, and not another that had its name before or gets it later.
struct StateKey {
  std::string name;
  std::string uid;  // empty: made before states had uids
  auto operator<=>(const StateKey&) const = default;
};

// The record that a state was deleted.
struct Tombstone {
  uint64_t order = 0;           // of deletion
  std::set<std::string> hosts;  // hosts that may still hold something of it
  // An earlier release wrote it, with its hosts in the state's row: each confirmation wrote all of
  // them again.
  bool in_one_row = false;
};

// The state of this name and uid existed: hosts that hold something of it must forget it. One row
// for the state and one for each host, so that a confirmation costs one small row, however many
// hosts there are.
std::vector<Record> TombstoneRecords(const StateKey& state, const Tombstone& tombstone);
std::vector<Record> NoTombstoneRecords(const StateKey& state, const Tombstone& tombstone);
// The host holds nothing of the state any more.
Record NoRemainsRecord(const StateKey& state, const std::string& host);

// Whether a row is one of these.
bool IsOfTombstone(std::string_view key);
// Reads all rows of tombstones. DATA_LOSS (JOURNAL_CORRUPT) names the first key that cannot be
// read.
absl::Status ReadTombstones(const std::map<std::string, std::string>& records,
                            std::map<StateKey, Tombstone>& tombstones);

// The error of a record that cannot be read.
absl::Status Unreadable(const std::string& key);

}  // namespace remesh::server
