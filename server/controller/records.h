// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "remesh/v1/reshard.pb.h"
#include "remesh/v1/state.pb.h"
#include "server/controller/action.h"
#include "server/controller/journal_past.h"
#include "server/controller/placed.h"

namespace remesh {

// A state and not another one that had its name before or has it later.
struct StateKey {
  std::string name;
  std::string uid;  // empty: made before states had one
  auto operator<=>(const StateKey&) const = default;
};

// What the controller keeps in the journal: one line a thing, its kind in the key.

Record EpochRecord(uint64_t epoch);
// Workers hold things that this journal never heard of: nothing unknown may be discarded.
Record StrangersRecord();
Record NoStrangersRecord();
// A worker of that host attached once.
Record HostRecord(const std::string& host);
Record NoHostRecord(const std::string& host);
Record StateRecord(const v1::State& state);
Record NoStateRecord(const std::string& state);
// The state as it will be once its execution commits.
Record NextStateRecord(const v1::State& state);
Record NoNextStateRecord(const std::string& state);
// Which request created the state.
Record CreateRequestRecord(const std::string& state, const std::string& request_id,
                           const std::string& digest);
Record NoCreateRequestRecord(const std::string& state);
// The state of that name and uid existed, and these hosts may still hold it: they shall forget it.
Record DeletedRecord(const StateKey& state, const std::set<std::string>& hosts);
Record NoDeletedRecord(const StateKey& state);
Record ExecutionRecord(const v1::Execution& execution);
Record NoExecutionRecord(const std::string& execution);
// Which request started the execution.
Record StartRequestRecord(const std::string& execution, const std::string& digest);
Record NoStartRequestRecord(const std::string& execution);

// A journal, read back.
struct RestoredState {
  v1::State state;
  std::shared_ptr<const PlacedState> placed;
  std::string request_id;
  std::string request_digest;
};
struct Restored {
  JournalPast past;
  uint64_t epoch = 0;  // highest that was ever led
  bool strangers = false;
  std::set<std::string> hosts;
  std::map<std::string, RestoredState> states;
  std::map<std::string, std::shared_ptr<const PlacedState>> next_states;  // by state
  std::vector<v1::Execution> executions;
  std::map<std::string, std::string> start_digests;   // by execution
  std::map<StateKey, std::set<std::string>> deleted;  // which hosts were not told
};

// Lays out a state's spec; see PlaceState().
using Placer =
    std::function<absl::StatusOr<std::shared_ptr<const PlacedState>>(const v1::StateSpec&)>;

// DATA_LOSS names the first key that cannot be read.
absl::StatusOr<Restored> ReadRecords(const std::map<std::string, std::string>& records,
                                     const Placer& place);

}  // namespace remesh
