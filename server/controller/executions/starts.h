// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/controller/executions/executions.h"
#include "server/controller/leadership/leadership.h"
#include "server/controller/values/controller_options.h"
#include "server/controller/values/outbox.h"

namespace remesh::server {

// An execution that comes of a StartExecution, and what to write before it starts.
struct Launch {
  ExecutionEntry entry;
  Reliance reliance;  // then ExecutionStored
};

// Takes StartExecution from the call to an execution in the journal: holds requests that are being
// planned, and those whose execution is being written. Knows hosts, states and executions. Not
// thread-safe.
class Starts {
 public:
  Starts(const ControllerOptions& options, const RandomBits& random, const JournalQueue& journal,
         const Leadership& leadership, const Membership& membership, const States& states,
         const Executions& executions);

  // Answers the call, or asks for a plan; then Planned follows.
  void Start(CallId call, v1::StartExecutionRequest request, Moment now, Outbox& out);
  // Answers the calls, or asks for another plan, unless an execution comes of this one. If nothing
  // moves, that execution has ended.
  std::optional<Launch> OnPlanned(const Planned& planned, Moment now, Outbox& out);
  void OnStored(const std::string& execution, Outbox& out);
  void ExtendDeadlines(Timestamp pause);  // the server itself stood still
  // Refuses every request that would become an execution: see ServerStops().
  void BeginDrain() { draining_ = true; }

  // Whether a planning in progress reserves the state.
  bool reserves(const std::string& state) const { return reserved_.contains(state); }

 private:
  struct PendingStart {  // being planned
    std::vector<CallId> calls;
    std::shared_ptr<const v1::StartExecutionRequest> request;  // large
    Moment asked;
    int plannings = 0;
  };

  absl::StatusOr<bool> Join(CallId call, const v1::StartExecutionRequest& request, Outbox& out);
  absl::StatusOr<bool> JoinExecution(CallId call, const v1::StartExecutionRequest& request,
                                     const ExecutionEntry& entry, Outbox& out);
  absl::StatusOr<const StateEntry*> CheckStart(const v1::StartExecutionRequest& request) const;
  void Plan(PendingStart start, const StateEntry& state, Outbox& out);
  bool LostMore(const PendingStart& start, const PlannedExecution& move) const;
  void PlanAgain(PendingStart start, Outbox& out);
  absl::Status CheckMayStart(const v1::StartExecutionRequest& request) const;
  absl::Status CheckMove(const PendingStart& start, const PlannedExecution& move) const;
  Launch MakeLaunch(const PendingStart& start, const PlannedExecution& move, Moment now,
                    Outbox& out);
  std::string NewName(const std::string& state) const;

  const ControllerOptions& options_;
  const RandomBits& random_;
  const JournalQueue& journal_;
  const Leadership& leadership_;
  const Membership& membership_;
  const States& states_;
  const Executions& executions_;
  bool draining_ = false;
  uint64_t next_planning_ = 1;
  std::map<uint64_t, PendingStart> planning_;            // by planning id
  std::set<std::string> reserved_;                       // states that a planning reserves
  std::map<std::string, std::vector<CallId>> launched_;  // by execution that is not yet on disk
};

}  // namespace remesh::server
