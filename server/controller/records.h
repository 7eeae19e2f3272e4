// SPDX-License-Identifier: Apache-2.0
#pragma once

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
#include "server/controller/placed.h"

namespace remesh {

// What the controller keeps in the journal: one line a thing, its kind in the key.

Record EpochRecord(uint64_t epoch);
// Workers hold things that this journal never heard of: nothing unknown may be discarded.
Record StrangersRecord();
Record StateRecord(const v1::State& state);
Record NoStateRecord(const std::string& state);
// The state as it will be once its execution commits.
Record NextStateRecord(const v1::State& state);
Record NoNextStateRecord(const std::string& state);
// Which request created the state.
Record CreateRequestRecord(const std::string& state, const std::string& request_id,
                           const std::string& digest);
Record NoCreateRequestRecord(const std::string& state);
// The state existed: workers that still hold it shall forget it.
Record DeletedRecord(const std::string& state);
Record NoDeletedRecord(const std::string& state);
Record ExecutionRecord(const v1::Execution& execution);
Record NoExecutionRecord(const std::string& execution);

// A journal, read back.
struct RestoredState {
  v1::State state;
  std::shared_ptr<const PlacedState> placed;
  std::string request_id;
  std::string request_digest;
};
struct Restored {
  uint64_t epoch = 0;  // highest that was ever led
  bool strangers = false;
  std::map<std::string, RestoredState> states;
  std::map<std::string, std::shared_ptr<const PlacedState>> next_states;  // by state
  std::vector<v1::Execution> executions;
  std::set<std::string> deleted;
};

// Lays out a state's spec; see PlaceState().
using Placer =
    std::function<absl::StatusOr<std::shared_ptr<const PlacedState>>(const v1::StateSpec&)>;

// DATA_LOSS names the first key that cannot be read.
absl::StatusOr<Restored> ReadRecords(const std::map<std::string, std::string>& records,
                                     const Placer& place);

}  // namespace remesh
