// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "server/controller/values/outbox.h"
#include "server/controller/values/tombstone_records.h"

namespace remesh::server {

// The hosts that may still hold something of a deleted state.
struct Remains {
  std::set<std::string> attached;
  std::set<std::string> absent;
};

// Calls of DeleteState that wait until the attached hosts have freed what was deleted. A host that
// leaves is waited for no more, one that comes back is again. Not thread-safe.
class DeletionWaits {
 public:
  // Answers the call now if no attached host holds anything. Earlier calls on the same states wait
  // for these remains, too. REQUIRES: those are what the events so far have left.
  void Begin(CallId call, const std::map<StateKey, Remains>& remains, Outbox& out);
  void OnConfirmed(const std::string& host, const StateKey& state, Outbox& out);
  // It turns out that an attached host has something of the state.
  void OnHolds(const std::string& host, const StateKey& state);
  void OnAway(const std::string& host, Outbox& out);
  void OnAttached(const std::string& host);
  // The caller has gone.
  void Drop(CallId call);
  // Nothing is confirmed any more.
  void EndAll(const absl::Status& why, Outbox& out);

 private:
  struct Waited {
    Remains remains;
    std::set<CallId> calls;
  };
  void AnswerThose(const std::set<CallId>& calls, Outbox& out);

  std::map<StateKey, Waited> states_;
  std::map<CallId, std::set<StateKey>> calls_;
};

// Answers a call with the absent hosts of the remains, in order.
void AnswerDeletion(CallId call, const std::map<StateKey, Remains>& remains, Outbox& out);

}  // namespace remesh::server
