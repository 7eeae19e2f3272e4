// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/coordination/action.h"
#include "server/coordination/world.h"

namespace remesh::server::coordination {

// The step before which all members of a world save: one above the highest that one of them was at
// when it called. It is agreed once, when all members that have not left have called, and is then
// the answer to every later call. A value. Not thread-safe.
class StepAgreement {
 public:
  // The member waits before `step`. A second call of it takes the place of the first, which is
  // answered ABORTED. `deadline`: the earliest of those who called holds for all.
  void Call(CallId call, int rank, int64_t step, absl::Time deadline, Actions& actions);
  void OnCallGone(CallId call);
  // A member that joins again has this answer.
  void Recall(int64_t step) { agreed_ = step; }

  // Answers all once every member has called, unless the world awaits members after a restart of
  // the server; DEADLINE_EXCEEDED (BARRIER_TIMEOUT) at the deadline; as the world ended if it did.
  void Settle(const World& world, absl::Time now, Actions& actions);
  absl::Time NextTime() const;

 private:
  struct Waiting {
    CallId call = 0;
    int64_t step = 0;
  };
  void AnswerAll(const absl::StatusOr<int64_t>& answer, Actions& actions);

  std::map<int, Waiting> waiting_;  // by rank
  absl::Time deadline_ = absl::InfiniteFuture();
  std::optional<int64_t> agreed_;
};

}  // namespace remesh::server::coordination
