// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "remesh/v1/worker.pb.h"
#include "server/controller/membership/commands.h"
#include "server/controller/membership/membership.h"
#include "server/controller/states/confirmations.h"
#include "server/controller/states/deletion_waits.h"
#include "server/controller/states/tombstones.h"
#include "server/controller/values/follow_up.h"
#include "server/controller/values/outbox.h"

namespace remesh::server {

// What to write for a deletion, and what follows.
struct Deletion {
  std::vector<Record> records;
  StateDeleted then;
};

// Deletions of states, from the request to the last host's confirmation. Hosts are asked by
// ForgetState as soon as the deletion is on disk, or when they attach again, and answer Forgotten.
// Part of States. Not thread-safe.
class Deletions {
 public:
  Deletions(const ControllerOptions& options, const Membership& membership,
            const Commands& commands);
  void Restore(const Restored& restored) { tombstones_.Restore(restored.tombstones); }
  const Tombstones& tombstones() const { return tombstones_; }

  // Joins a deletion of the name that is on its way to the disk. False: there is none.
  bool Join(const DeletionCall& call, const std::string& name);
  // Joins deletions of the name, or of its one state with the uid if that is not empty, that hosts
  // have not confirmed, as a call does whose first answer was lost. False: there is none.
  bool JoinPast(const DeletionCall& call, const StateKey& state, Outbox& out);
  // Deletes what is `gone`, each with the hosts that may hold something of it.
  Deletion Delete(const DeletionCall& call, const std::string& name,
                  const std::map<StateKey, std::set<std::string>>& gone);
  // The deletion is on disk. Asks hosts that are not known to hold something; Settle(), which comes
  // next, asks those that are. Then Answer() follows.
  void OnDeleted(const StateDeleted& deleted, Outbox& out);
  void Answer(const StateDeleted& deleted, Outbox& out);

  // The host reported to hold something of the state, and was asked to forget it.
  void OnReported(const std::string& host, const StateKey& state);
  void OnForgotten(const std::string& host, const StateKey& state, Outbox& out);
  void OnHostAway(const std::string& host, Outbox& out) { waits_.OnAway(host, out); }
  // Asks the host for what it does not report to hold and may still be about to make.
  void OnRegistered(const v1::Register& registration, Outbox& out);
  void OnConfirmationsSaved(Outbox& out) { confirmations_.OnSaved(out); }

  // The caller has gone.
  void DropCall(CallId call);
  // Answers the calls that wait: nothing is confirmed any more.
  void EndCalls(const absl::Status& why, Outbox& out) { waits_.EndAll(why, out); }

 private:
  void AwaitOthers(const StateKey& state, const Tombstone& tombstone, Outbox& out);
  void Ask(const std::string& host, const StateKey& state, Outbox& out) const;
  std::map<StateKey, Remains> RemainsOf(const std::set<StateKey>& states) const;
  void Answer(const DeletionCall& call, const std::set<StateKey>& states, Outbox& out);

  const Membership& membership_;
  const Commands& commands_;
  Tombstones tombstones_;
  Confirmations confirmations_;
  DeletionWaits waits_;
  // The calls of a deletion on its way to the disk, by the state's name.
  std::map<std::string, std::vector<DeletionCall>> on_the_way_;
};

}  // namespace remesh::server
