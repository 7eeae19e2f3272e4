// SPDX-License-Identifier: Apache-2.0
#include "server/controller/values/records.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::server {
namespace {

constexpr char kEpoch[] = "epoch";
constexpr char kLostLeadership[] = "lost_leadership/";
constexpr char kHost[] = "host/";
constexpr char kDrained[] = "drained/";
constexpr char kDeviceIds[] = "device_ids/";
constexpr char kNextDeviceId[] = "next_device_id";
constexpr char kState[] = "state/";
constexpr char kNextState[] = "next/";
constexpr char kRequest[] = "request/";
constexpr char kUpdate[] = "update/";
constexpr char kWriteCommitted[] = "write_committed/";
constexpr char kExecution[] = "execution/";
constexpr char kStart[] = "start/";
constexpr char kWorld[] = "world/";
constexpr char kLastWorldEpoch[] = "last_world_epoch";

bool TakePrefix(std::string_view prefix, std::string_view key, std::string& rest) {
  if (key.substr(0, prefix.size()) != prefix) return false;
  rest = std::string(key.substr(prefix.size()));
  return true;
}

// The bytes of a state, without a copy of its spec, which may be large: a message's fields may come
// in any order.
std::string WithSpec(const v1::State& declared, const v1::StateSpec& spec) {
  constexpr uint32_t kLengthDelimited = 2;  // a wire type of Protobuf's encoding
  REMESH_CHECK(!declared.has_spec());
  std::string bytes = declared.SerializeAsString();
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.WriteTag(v1::State::kSpecFieldNumber << 3 | kLengthDelimited);
  coded.WriteVarint32(static_cast<uint32_t>(spec.ByteSizeLong()));
  spec.SerializeWithCachedSizes(&coded);
  coded.Trim();
  return bytes;
}

absl::Status ReadHost(const std::string& key, const std::string& host, const std::string& bytes,
                      Restored& restored) {
  const std::vector<std::string> lines = absl::StrSplit(bytes, '\n');
  KnownHost known;
  if (lines.size() != 2 || !absl::SimpleAtoi(lines[0], &known.incarnation)) return Unreadable(key);
  known.secret_hash = absl::HexStringToBytes(lines[1]);
  restored.hosts[host] = std::move(known);
  return absl::OkStatus();
}

absl::Status ReadDeviceIds(const std::string& key, const std::string& host,
                           const std::string& bytes, Restored& restored) {
  std::vector<int64_t>& ids = restored.device_ids[host];
  for (const absl::string_view text : absl::StrSplit(bytes, ',')) {
    if (!absl::SimpleAtoi(text, &ids.emplace_back()) || ids.back() < 0) return Unreadable(key);
  }
  return absl::OkStatus();
}

absl::Status ReadWorld(const std::string& key, const std::string& scope, const std::string& bytes,
                       Restored& restored) {
  const std::vector<std::string> lines = absl::StrSplit(bytes, '\n');
  SavedWorld world;
  int64_t formed = 0;
  const bool read = lines.size() == 3 && absl::SimpleAtoi(lines[0], &world.epoch) &&
                    absl::SimpleAtoi(lines[1], &world.size) && absl::SimpleAtoi(lines[2], &formed);
  if (!read || world.epoch <= 0 || world.size <= 0) return Unreadable(key);
  world.formed = absl::FromUnixSeconds(formed);
  restored.worlds.worlds[scope] = world;
  return absl::OkStatus();
}

// No world may have an epoch above the last one, or that would be given twice.
absl::Status CheckWorldEpochs(const SaveWorlds& restored) {
  for (const auto& [scope, world] : restored.worlds) {
    if (world->epoch > restored.last_epoch) return Unreadable(absl::StrCat(kWorld, scope));
  }
  return absl::OkStatus();
}

// `name`: the state's name in the key.
absl::StatusOr<RestoredState> ReadState(const std::string& key, const std::string& name,
                                        const std::string& bytes, const Placer& place) {
  RestoredState restored;
  if (!restored.state.ParseFromString(bytes) || restored.state.name() != name) {
    return Unreadable(key);
  }
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
  } else if (TakePrefix(kLostLeadership, key, name)) {
    restored.lost_leaderships.insert(name);
  } else if (TakePrefix(kHost, key, name)) {
    return ReadHost(key, name, bytes, restored);
  } else if (TakePrefix(kDrained, key, name)) {
    restored.drained.insert(name);
  } else if (TakePrefix(kDeviceIds, key, name)) {
    return ReadDeviceIds(key, name, bytes, restored);
  } else if (key == kNextDeviceId) {
    const bool read = absl::SimpleAtoi(bytes, &restored.next_device_id);
    return read && restored.next_device_id >= 0 ? absl::OkStatus() : Unreadable(key);
  } else if (TakePrefix(kState, key, name)) {
    ASSIGN_OR_RETURN(restored.states[name], ReadState(key, name, bytes, place));
  } else if (TakePrefix(kNextState, key, name)) {
    ASSIGN_OR_RETURN(RestoredState next, ReadState(key, name, bytes, place));
    restored.next_states[name] = next.placed;
  } else if (TakePrefix(kExecution, key, name)) {
    v1::Execution& execution = restored.executions.emplace_back();
    if (!execution.ParseFromString(bytes) || execution.name() != name) return Unreadable(key);
  } else if (TakePrefix(kStart, key, name)) {
    restored.start_digests[name] = bytes;
  } else if (TakePrefix(kWorld, key, name)) {
    return ReadWorld(key, name, bytes, restored);
  } else if (key == kLastWorldEpoch) {
    int64_t& last = restored.worlds.last_epoch;
    return absl::SimpleAtoi(bytes, &last) && last > 0 ? absl::OkStatus() : Unreadable(key);
  } else if (!TakePrefix(kRequest, key, name) && !TakePrefix(kUpdate, key, name) &&
             !TakePrefix(kWriteCommitted, key, name) && !IsOfTombstone(key)) {
    return Unreadable(key);
  }
  return absl::OkStatus();
}

// The records about a state, beside its own.
using Records = std::map<std::string, std::string>;

absl::Status AddRequest(const Records& records, const std::string& name, RestoredState& state) {
  const auto request = records.find(absl::StrCat(kRequest, name));
  if (request == records.end()) return absl::OkStatus();
  std::vector<std::string> parts = absl::StrSplit(request->second, absl::MaxSplits('\n', 1));
  if (parts.size() != 2) return Unreadable(request->first);
  state.request_digest = parts[0];
  state.request_id = parts[1];
  return absl::OkStatus();
}

absl::Status AddUpdate(const Records& records, const std::string& name, RestoredState& state) {
  const auto record = records.find(absl::StrCat(kUpdate, name));
  if (record == records.end()) return absl::OkStatus();
  v1::State update;
  if (!update.ParseFromString(record->second)) return Unreadable(record->first);
  if (update.uid() != state.state.uid()) return Unreadable(record->first);
  state.state.set_step(update.step());
  *state.state.mutable_labels() = update.labels();
  return absl::OkStatus();
}

absl::Status AddWriteCommitted(const Records& records, const std::string& name,
                               RestoredState& state) {
  const auto record = records.find(absl::StrCat(kWriteCommitted, name));
  if (record == records.end()) return absl::OkStatus();
  const bool of_it = state.state.write_once() && record->second == state.state.uid();
  if (!of_it) return Unreadable(record->first);
  state.write_committed = true;
  return absl::OkStatus();
}

}  // namespace

Record EpochRecord(uint64_t epoch) { return {kEpoch, absl::StrCat(epoch)}; }
Record LostLeadershipRecord(const std::string& leadership) {
  return {absl::StrCat(kLostLeadership, leadership), ""};
}
Record HostRecord(const std::string& host, const KnownHost& known) {
  return {absl::StrCat(kHost, host),
          absl::StrCat(known.incarnation, "\n", absl::BytesToHexString(known.secret_hash))};
}
Record NoHostRecord(const std::string& host) { return {absl::StrCat(kHost, host), std::nullopt}; }
Record DrainedRecord(const std::string& host) { return {absl::StrCat(kDrained, host), ""}; }
Record NotDrainedRecord(const std::string& host) {
  return {absl::StrCat(kDrained, host), std::nullopt};
}
Record DeviceIdsRecord(const std::string& host, const std::vector<int64_t>& ids) {
  return {absl::StrCat(kDeviceIds, host), absl::StrJoin(ids, ",")};
}
Record NoDeviceIdsRecord(const std::string& host) {
  return {absl::StrCat(kDeviceIds, host), std::nullopt};
}
Record NextDeviceIdRecord(int64_t id) { return {kNextDeviceId, absl::StrCat(id)}; }
Record StateRecord(const v1::State& declared, const v1::StateSpec& spec) {
  return {absl::StrCat(kState, declared.name()), WithSpec(declared, spec)};
}
Record NoStateRecord(const std::string& state) {
  return {absl::StrCat(kState, state), std::nullopt};
}
Record NextStateRecord(const v1::State& declared, const v1::StateSpec& spec) {
  return {absl::StrCat(kNextState, declared.name()), WithSpec(declared, spec)};
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
Record UpdateRecord(const std::string& state, const v1::State& update) {
  return {absl::StrCat(kUpdate, state), update.SerializeAsString()};
}
Record NoUpdateRecord(const std::string& state) {
  return {absl::StrCat(kUpdate, state), std::nullopt};
}
Record WriteCommittedRecord(const StateKey& state) {
  return {absl::StrCat(kWriteCommitted, state.name), state.uid};
}
Record NoWriteCommittedRecord(const std::string& state) {
  return {absl::StrCat(kWriteCommitted, state), std::nullopt};
}
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

Record WorldRecord(const std::string& scope, const SavedWorld& world) {
  return {absl::StrCat(kWorld, scope),
          absl::StrCat(world.epoch, "\n", world.size, "\n", absl::ToUnixSeconds(world.formed))};
}
Record NoWorldRecord(const std::string& scope) {
  return {absl::StrCat(kWorld, scope), std::nullopt};
}
Record LastWorldEpochRecord(int64_t epoch) { return {kLastWorldEpoch, absl::StrCat(epoch)}; }

absl::StatusOr<Restored> ReadRecords(const std::map<std::string, std::string>& records,
                                     const Placer& place) {
  Restored restored;
  for (const auto& [key, bytes] : records) RETURN_IF_ERROR(ReadRecord(key, bytes, place, restored));
  RETURN_IF_ERROR(ReadTombstones(records, restored.tombstones));
  RETURN_IF_ERROR(CheckWorldEpochs(restored.worlds));
  for (auto& [name, state] : restored.states) {
    RETURN_IF_ERROR(AddRequest(records, name, state));
    RETURN_IF_ERROR(AddUpdate(records, name, state));
    RETURN_IF_ERROR(AddWriteCommitted(records, name, state));
  }
  // A decided execution must be complete in the journal, or it could not be carried out.
  for (const v1::Execution& execution : restored.executions) {
    const bool committing = execution.phase() == v1::Execution::COMMITTING &&
                            restored.states.contains(execution.state());
    if (committing && !restored.next_states.contains(execution.state())) {
      return Unreadable(absl::StrCat(kNextState, execution.state()));
    }
  }
  return restored;
}

}  // namespace remesh::server
