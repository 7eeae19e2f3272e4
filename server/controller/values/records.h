// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "remesh/v1/reshard.pb.h"
#include "remesh/v1/state.pb.h"
#include "server/controller/values/action.h"
#include "server/controller/values/journal_past.h"
#include "server/controller/values/placed.h"
#include "server/controller/values/saved_world.h"
#include "server/controller/values/tombstone_records.h"

namespace remesh::server {

// What the server keeps of every host that has attached.
struct KnownHost {
  int64_t incarnation = 0;       // the last one assigned
  std::string secret_hash = "";  // of its secret; empty: the next worker is taken for it
};

// The records that the controller keeps in the journal: one a thing, with its kind in the key.
// Those of deleted states are in tombstone_records.h.

Record EpochRecord(uint64_t epoch);
// A leadership that was given up, because this journal does not know it, or not up to its end.
Record LostLeadershipRecord(const std::string& leadership);
// A worker of this host has attached.
Record HostRecord(const std::string& host, const KnownHost& known);
Record NoHostRecord(const std::string& host);
// Nothing new may be placed on the host.
Record DrainedRecord(const std::string& host);
Record NotDrainedRecord(const std::string& host);
// The ids that the server assigned to the host's devices, in local order.
Record DeviceIdsRecord(const std::string& host, const std::vector<int64_t>& ids);
Record NoDeviceIdsRecord(const std::string& host);
// No id from this one on was ever assigned.
Record NextDeviceIdRecord(int64_t id);
// Of a state and its spec, which `declared` lacks.
Record StateRecord(const v1::State& declared, const v1::StateSpec& spec);
Record NoStateRecord(const std::string& state);
// The state as it will be once its execution commits.
Record NextStateRecord(const v1::State& declared, const v1::StateSpec& spec);
Record NoNextStateRecord(const std::string& state);
// The request that created the state.
Record CreateRequestRecord(const std::string& state, const std::string& request_id,
                           const std::string& digest);
Record NoCreateRequestRecord(const std::string& state);
// The step and the labels that UpdateState set last, and the uid of the state, in `update`. A
// record of its own, because that of the state holds the spec.
Record UpdateRecord(const std::string& state, const v1::State& update);
Record NoUpdateRecord(const std::string& state);
// Generation 1 of the write_once state of this name and uid is committed.
Record WriteCommittedRecord(const StateKey& state);
Record NoWriteCommittedRecord(const std::string& state);
Record ExecutionRecord(const v1::Execution& execution);
Record NoExecutionRecord(const std::string& execution);
// The request that started the execution.
Record StartRequestRecord(const std::string& execution, const std::string& digest);
Record NoStartRequestRecord(const std::string& execution);
// The present world of a scope.
Record WorldRecord(const std::string& scope, const SavedWorld& world);
Record NoWorldRecord(const std::string& scope);
// No world ever had a higher epoch.
Record LastWorldEpochRecord(int64_t epoch);

// The contents of a journal.
struct RestoredState {
  v1::State state;
  std::shared_ptr<const PlacedState> placed;
  std::string request_id;
  std::string request_digest;
  bool write_committed = false;
};
struct Restored {
  JournalPast past;
  uint64_t epoch = 0;  // the highest of any leadership
  std::set<std::string> lost_leaderships;
  std::map<std::string, KnownHost> hosts;
  std::map<std::string, std::vector<int64_t>> device_ids;  // assigned by the server, by host
  int64_t next_device_id = 0;
  std::set<std::string> drained;  // hosts
  std::map<std::string, RestoredState> states;
  std::map<std::string, std::shared_ptr<const PlacedState>> next_states;  // by state
  std::vector<v1::Execution> executions;
  std::map<std::string, std::string> start_digests;  // by execution
  std::map<StateKey, Tombstone> tombstones;
  SaveWorlds worlds;  // all of them
};

// Lays out a state's spec; see PlaceState().
using Placer =
    std::function<absl::StatusOr<std::shared_ptr<const PlacedState>>(const v1::StateSpec&)>;

// DATA_LOSS names the first key that cannot be read.
absl::StatusOr<Restored> ReadRecords(const std::map<std::string, std::string>& records,
                                     const Placer& place);

}  // namespace remesh::server
