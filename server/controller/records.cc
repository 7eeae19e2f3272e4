// SPDX-License-Identifier: Apache-2.0
#include "server/controller/records.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh {
namespace {

constexpr char kEpoch[] = "epoch";
constexpr char kStrangers[] = "strangers";
constexpr char kHost[] = "host/";
constexpr char kState[] = "state/";
constexpr char kNextState[] = "next/";
constexpr char kRequest[] = "request/";
constexpr char kDeleted[] = "deleted/";
constexpr char kExecution[] = "execution/";
constexpr char kStart[] = "start/";

absl::Status Unreadable(const std::string& key) {
  return MakeError(absl::StatusCode::kDataLoss,
                   absl::StrCat("journal record ", key, " cannot be read"),
                   {.reason = "JOURNAL_CORRUPT", .metadata = {{"key", key}}});
}

bool TakePrefix(std::string_view prefix, std::string_view key, std::string& rest) {
  if (key.substr(0, prefix.size()) != prefix) return false;
  rest = std::string(key.substr(prefix.size()));
  return true;
}

// No name of a state has an '@'. Journals older than uids have the name alone.
std::string DeletedKey(const StateKey& state) {
  if (state.uid.empty()) return absl::StrCat(kDeleted, state.name);
  return absl::StrCat(kDeleted, state.name, "@", state.uid);
}

StateKey ReadDeletedKey(const std::string& rest) {
  const std::vector<std::string> parts = absl::StrSplit(rest, absl::MaxSplits('@', 1));
  return {.name = parts[0], .uid = parts.size() == 2 ? parts[1] : ""};
}

absl::StatusOr<RestoredState> ReadState(const std::string& key, const std::string& bytes,
                                        const Placer& place) {
  RestoredState restored;
  if (!restored.state.ParseFromString(bytes)) return Unreadable(key);
  auto placed = place(restored.state.spec());
  if (!placed.ok()) return AtField(absl::StrCat("journal record ", key), placed.status());
  restored.placed = *std::move(placed);
  return restored;
}

absl::Status ReadRecord(const std::string& key, const std::string& bytes, const Placer& place,
                        Restored& restored) {
  std::string name;
  if (key == kEpoch) {
    const bool leaves_room = absl::SimpleAtoi(bytes, &restored.epoch) && restored.epoch + 1 != 0;
    return leaves_room ? absl::OkStatus() : Unreadable(key);
  } else if (key == kStrangers) {
    restored.strangers = true;
  } else if (TakePrefix(kHost, key, name)) {
    restored.hosts.insert(name);
  } else if (TakePrefix(kState, key, name)) {
    ASSIGN_OR_RETURN(restored.states[name], ReadState(key, bytes, place));
  } else if (TakePrefix(kNextState, key, name)) {
    ASSIGN_OR_RETURN(RestoredState next, ReadState(key, bytes, place));
    restored.next_states[name] = next.placed;
  } else if (TakePrefix(kDeleted, key, name)) {
    restored.deleted[ReadDeletedKey(name)] = absl::StrSplit(bytes, '\n', absl::SkipEmpty());
  } else if (TakePrefix(kExecution, key, name)) {
    if (!restored.executions.emplace_back().ParseFromString(bytes)) return Unreadable(key);
  } else if (TakePrefix(kStart, key, name)) {
    restored.start_digests[name] = bytes;
  } else if (!TakePrefix(kRequest, key, name)) {
    return Unreadable(key);
  }
  return absl::OkStatus();
}

}  // namespace

Record EpochRecord(uint64_t epoch) { return {kEpoch, absl::StrCat(epoch)}; }
Record StrangersRecord() { return {kStrangers, ""}; }
Record HostRecord(const std::string& host) { return {absl::StrCat(kHost, host), ""}; }
Record NoHostRecord(const std::string& host) { return {absl::StrCat(kHost, host), std::nullopt}; }
Record NoStrangersRecord() { return {kStrangers, std::nullopt}; }
Record StateRecord(const v1::State& state) {
  return {absl::StrCat(kState, state.name()), state.SerializeAsString()};
}
Record NoStateRecord(const std::string& state) {
  return {absl::StrCat(kState, state), std::nullopt};
}
Record NextStateRecord(const v1::State& state) {
  return {absl::StrCat(kNextState, state.name()), state.SerializeAsString()};
}
Record NoNextStateRecord(const std::string& state) {
  return {absl::StrCat(kNextState, state), std::nullopt};
}
Record CreateRequestRecord(const std::string& state, const std::string& request_id,
                           const std::string& digest) {
  return {absl::StrCat(kRequest, state), absl::StrCat(digest, "\n", request_id)};
}
Record NoCreateRequestRecord(const std::string& state) {
  return {absl::StrCat(kRequest, state), std::nullopt};
}
Record DeletedRecord(const StateKey& state, const std::set<std::string>& hosts) {
  return {DeletedKey(state), absl::StrJoin(hosts, "\n")};
}
Record NoDeletedRecord(const StateKey& state) { return {DeletedKey(state), std::nullopt}; }
Record ExecutionRecord(const v1::Execution& execution) {
  return {absl::StrCat(kExecution, execution.name()), execution.SerializeAsString()};
}
Record NoExecutionRecord(const std::string& execution) {
  return {absl::StrCat(kExecution, execution), std::nullopt};
}
Record StartRequestRecord(const std::string& execution, const std::string& digest) {
  return {absl::StrCat(kStart, execution), digest};
}
Record NoStartRequestRecord(const std::string& execution) {
  return {absl::StrCat(kStart, execution), std::nullopt};
}

absl::StatusOr<Restored> ReadRecords(const std::map<std::string, std::string>& records,
                                     const Placer& place) {
  Restored restored;
  for (const auto& [key, bytes] : records) RETURN_IF_ERROR(ReadRecord(key, bytes, place, restored));
  for (auto& [name, state] : restored.states) {
    auto request = records.find(absl::StrCat(kRequest, name));
    if (request == records.end()) continue;
    std::vector<std::string> parts = absl::StrSplit(request->second, absl::MaxSplits('\n', 1));
    if (parts.size() != 2) return Unreadable(request->first);
    state.request_digest = parts[0];
    state.request_id = parts[1];
  }
  return restored;
}

}  // namespace remesh
