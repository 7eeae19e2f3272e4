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

// The step at which all members of a world save: one above the highest that one of them asked about
// before it called. It is agreed once, when all members have called, and is then the answer to every
// later call. A value. Not thread-safe.
class StepAgreement {
 public:
  // The member asked about `step` last, and waits. A second call of it takes the place of the first,
  // which is answered CALLED_AGAIN. `deadline`: the earliest of those who called holds for all.
  void Call(CallId call, int rank, int64_t step, absl::Time deadline, Actions& actions);
  void OnCallGone(CallId call);
  bool HasCalled(int rank) const { return waiting_.contains(rank); }
  // A member that joins again has this answer.
  void Recall(AgreedStep agreed) { agreed_ = std::move(agreed); }

  // Answers all once every member has called, unless the world awaits members after a restart of
  // the server. FAILED_PRECONDITION (MEMBER_LEFT) if one has left, for it asks about no step any
  // more; DEADLINE_EXCEEDED (BARRIER_TIMEOUT) at the deadline; as the world ended if it did.
  // `preempt`: why they leave.
  void Settle(const World& world, const v1::WorldEvent::Preempt& preempt, absl::Time now,
              Actions& actions);
  absl::Time NextTime() const;
  // Null before all have agreed.
  const AgreedStep* agreed() const { return agreed_ ? &*agreed_ : nullptr; }

 private:
  struct Waiting {
    CallId call = 0;
    int64_t step = 0;
  };
  void AnswerAll(const absl::StatusOr<AgreedStep>& answer, Actions& actions);

  std::map<int, Waiting> waiting_;  // by rank
  absl::Time deadline_ = absl::InfiniteFuture();
  std::optional<AgreedStep> agreed_;
};

}  // namespace remesh::server::coordination
