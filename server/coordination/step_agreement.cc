// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/step_agreement.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::server::coordination {
namespace {

absl::Status TimedOut(const std::string& absent) {
  return MakeError(absl::StatusCode::kDeadlineExceeded,
                   absl::StrCat("not all members named their step in time; absent: ", absent),
                   {.reason = "BARRIER_TIMEOUT", .metadata = {{"absent", absent}}});
}

absl::Status Left(const std::string& name) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat(name, " has left, so no step is agreed on any more"),
                   {.reason = "MEMBER_LEFT", .metadata = {}});
}

}  // namespace

void StepAgreement::Call(CallId call, int rank, int64_t step, absl::Time deadline,
                         Actions& actions) {
  const auto [earlier, added] = waiting_.try_emplace(rank, Waiting{call, step});
  if (!added) {
    actions.push_back(AnswerStep{earlier->second.call, CalledAgain()});
    earlier->second = {call, step};
  }
  deadline_ = std::min(deadline_, deadline);
}

void StepAgreement::OnCallGone(CallId call) {
  std::erase_if(waiting_, [&](const auto& each) { return each.second.call == call; });
  if (waiting_.empty()) deadline_ = absl::InfiniteFuture();
}

void StepAgreement::Settle(const World& world, const v1::WorldEvent::Preempt& preempt,
                           absl::Time now, Actions& actions) {
  if (waiting_.empty() || world.returning()) return;
  if (agreed_) return AnswerAll(*agreed_, actions);
  if (world.over() != nullptr) return AnswerAll(StatusOf(*world.over()), actions);
  std::vector<int> absent;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (world.HasLeft(rank)) return AnswerAll(Left(world.NameOf(rank)), actions);
    if (!waiting_.contains(rank)) absent.push_back(rank);
  }
  if (absent.empty()) {
    int64_t highest = std::numeric_limits<int64_t>::min();
    for (const auto& [rank, each] : waiting_) highest = std::max(highest, each.step);
    agreed_ = AgreedStep{highest + 1, preempt};
    return AnswerAll(*agreed_, actions);
  }
  if (now >= deadline_) AnswerAll(TimedOut(NamesOf(absent, world.Hosts())), actions);
}

absl::Time StepAgreement::NextTime() const { return deadline_; }

void StepAgreement::AnswerAll(const absl::StatusOr<AgreedStep>& answer, Actions& actions) {
  for (const auto& [rank, each] : waiting_) actions.push_back(AnswerStep{each.call, answer});
  waiting_.clear();
  deadline_ = absl::InfiniteFuture();
}

}  // namespace remesh::server::coordination
