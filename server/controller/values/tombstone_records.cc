// SPDX-License-Identifier: Apache-2.0
#include "server/controller/values/tombstone_records.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::server {
namespace {

constexpr char kDeleted[] = "deleted/";  // NAME@UID: the order; of earlier releases, hosts too
constexpr char kRemains[] = "remains/";  // NAME@UID@HOST

// Names of states and hosts contain no '@'.
std::string IdOf(const StateKey& state) { return absl::StrCat(state.name, "@", state.uid); }

std::string DeletedKey(const StateKey& state) { return absl::StrCat(kDeleted, IdOf(state)); }

std::string RemainsKey(const StateKey& state, const std::string& host) {
  return absl::StrCat(kRemains, IdOf(state), "@", host);
}

std::optional<StateKey> ParseId(std::string_view id) {
  const size_t at = id.find('@');
  if (at == std::string_view::npos) return std::nullopt;
  return StateKey{.name = std::string(id.substr(0, at)), .uid = std::string(id.substr(at + 1))};
}

absl::Status ReadDeleted(const std::string& key, const std::string& bytes,
                         std::map<StateKey, Tombstone>& tombstones) {
  const std::optional<StateKey> state = ParseId(std::string_view(key).substr(sizeof(kDeleted) - 1));
  std::vector<std::string> lines = absl::StrSplit(bytes, '\n', absl::SkipEmpty());
  Tombstone tombstone;
  if (!state || lines.empty() || !absl::SimpleAtoi(lines[0], &tombstone.order)) {
    return Unreadable(key);
  }
  tombstone.hosts = {lines.begin() + 1, lines.end()};
  tombstone.in_one_row = !tombstone.hosts.empty();
  tombstones[*state] = std::move(tombstone);
  return absl::OkStatus();
}

absl::Status ReadRemains(const std::string& key, std::map<StateKey, Tombstone>& tombstones) {
  const std::string_view id = std::string_view(key).substr(sizeof(kRemains) - 1);
  const size_t at = id.rfind('@');
  if (at == std::string_view::npos) return Unreadable(key);
  const std::optional<StateKey> state = ParseId(id.substr(0, at));
  const auto found = state ? tombstones.find(*state) : tombstones.end();
  if (found == tombstones.end() || at + 1 == id.size()) return Unreadable(key);
  found->second.hosts.insert(std::string(id.substr(at + 1)));
  return absl::OkStatus();
}

}  // namespace

absl::Status Unreadable(const std::string& key) {
  return MakeError(absl::StatusCode::kDataLoss,
                   absl::StrCat("journal record ", key, " cannot be read"),
                   {.reason = "JOURNAL_CORRUPT", .metadata = {{"key", key}}});
}

std::vector<Record> TombstoneRecords(const StateKey& state, const Tombstone& tombstone) {
  std::vector<Record> records = {{DeletedKey(state), absl::StrCat(tombstone.order)}};
  for (const std::string& host : tombstone.hosts) records.push_back({RemainsKey(state, host), ""});
  return records;
}

std::vector<Record> NoTombstoneRecords(const StateKey& state, const Tombstone& tombstone) {
  std::vector<Record> records = {{DeletedKey(state), std::nullopt}};
  if (tombstone.in_one_row) return records;
  for (const std::string& host : tombstone.hosts) records.push_back(NoRemainsRecord(state, host));
  return records;
}

Record NoRemainsRecord(const StateKey& state, const std::string& host) {
  return {RemainsKey(state, host), std::nullopt};
}

bool IsOfTombstone(std::string_view key) {
  return key.starts_with(kDeleted) || key.starts_with(kRemains);
}

absl::Status ReadTombstones(const std::map<std::string, std::string>& records,
                            std::map<StateKey, Tombstone>& tombstones) {
  for (auto it = records.lower_bound(kDeleted);
       it != records.end() && it->first.starts_with(kDeleted); ++it) {
    RETURN_IF_ERROR(ReadDeleted(it->first, it->second, tombstones));
  }
  for (auto it = records.lower_bound(kRemains);
       it != records.end() && it->first.starts_with(kRemains); ++it) {
    RETURN_IF_ERROR(ReadRemains(it->first, tombstones));
  }
  return absl::OkStatus();
}

}  // namespace remesh::server
