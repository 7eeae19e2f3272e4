// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/controller/leadership/journal_queue.h"
#include "server/controller/membership/commands.h"
#include "server/controller/membership/membership.h"
#include "server/controller/states/assignments.h"
#include "server/controller/states/deletions.h"
#include "server/controller/states/pending_creates.h"
#include "server/controller/states/state_limits.h"
#include "server/controller/states/state_registry.h"
#include "server/controller/states/wanted.h"
#include "server/controller/values/controller_options.h"
#include "server/controller/values/follow_up.h"
#include "server/controller/values/outbox.h"

namespace remesh::server {

// The effect of an ended execution on its state.
struct ExecutionEnd {
  std::string state;
  int64_t abandoned_generation = 0;           // see State.abandoned_generation
  int64_t generation = 0;                     // of the target
  std::shared_ptr<const PlacedState> target;  // null: the source stays
};

// Which states exist, which were deleted, and which hosts wait for one. Knows the journal and the
// hosts, and of executions only what it is given. Not thread-safe.
class States {
 public:
  States(const ControllerOptions& options, const RandomBits& random, const JournalQueue& journal,
         const Membership& membership, const Commands& commands);
  void Restore(const Restored& restored);

  const StateRegistry& registry() const { return registry_; }
  // See server::IsHeldNow(). REQUIRES: a state has this name.
  bool IsHeldNow(const std::string& name) {
    return server::IsHeldNow(*registry_.Find(name), membership_.workers());
  }
  const Tombstones& tombstones() const { return deletions_.tombstones(); }
  Deletions& deletions() { return deletions_; }
  bool creating(const std::string& name) const { return creates_.contains(name); }
  // The first state that is being created with shards on the host; empty: none.
  std::string CreatingOn(const std::string& host) const;

  // See StateLimits::CheckMove().
  absl::Status CheckMove(const StateEntry& state, const PlacedState& target) const {
    return limits_.CheckMove(state, target);
  }

  // Answers the call, or returns what to write first; then StateCreated follows.
  std::optional<Reliance> Create(CallId call, const CreateState& request, Moment now, Outbox& out);
  void OnCreated(const StateCreated& created, Outbox& out);
  // Answers the call, or writes the update; then StateUpdated follows.
  void Update(CallId call, const v1::UpdateStateRequest& request, Outbox& out);
  void OnUpdated(const StateUpdated& updated, Outbox& out);
  // What a host reports to hold. If it knows that the generation is committed, by a journal that
  // is no longer there, CommitWrites() commits it.
  void NoteCommitted(const v1::StateManifest& manifest);
  // Writes the commits of those of the states, all of which may have changed, that are to be
  // committed; then WriteCommitted follows. REQUIRES: the journal may be written.
  void CommitWrites(const std::set<std::string>& changed, Outbox& out);
  void OnWriteCommitted(const WriteCommitted& committed, Outbox& out);
  // Deletes the states `gone`, which have or had this name, each with the hosts that may hold
  // something of it. REQUIRES: none of them moves.
  Deletion Delete(const DeletionCall& call, const std::string& name,
                  const std::map<StateKey, std::set<std::string>>& gone);
  void OnDeleted(const StateDeleted& deleted, Outbox& out);

  void BeginExecution(const std::string& name, const std::string& execution,
                      std::shared_ptr<const PlacedState> target);
  void EndExecution(const ExecutionEnd& end, Outbox& out);
  // These hosts hold a newer generation than the journal knows.
  void SetNewerHosts(const StateKey& state, std::set<std::string> hosts, Outbox& out);

  void OnHostAway(const HostAway& away, Outbox& out);
  // Tells an attached host what it holds of which state. REQUIRES: it got its Welcome.
  void Assign(const std::string& host, Outbox& out);
  // A trainer on the host waits for the state.
  void OnWanted(const std::string& host, const std::string& name, Outbox& out);

 private:
  absl::Status CheckCreate(const CreateState& request) const;
  absl::StatusOr<bool> JoinCreate(CallId call, const v1::CreateStateRequest& request,
                                  const std::string& digest, Outbox& out);

  const RandomBits& random_;
  const JournalQueue& journal_;
  const Membership& membership_;
  const Commands& commands_;
  const Assignments assignments_;
  StateRegistry registry_;
  Deletions deletions_;
  PendingCreates creates_;
  const StateLimits limits_;  // of registry_ and creates_
  Wanted wanted_;
};

}  // namespace remesh::server
