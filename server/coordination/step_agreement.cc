// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/step_agreement.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"

namespace remesh::server::coordination {
namespace {

absl::Status TimedOut(const std::vector<int>& absent) {
  const size_t named = std::min(absent.size(), kNamedMax);
  std::string ranks = absl::StrJoin(absent.begin(), absent.begin() + named, ", ");
  if (named < absent.size()) absl::StrAppend(&ranks, " and ", absent.size() - named, " more");
  return MakeError(absl::StatusCode::kDeadlineExceeded,
                   absl::StrCat("not all members named their step in time; absent: ", ranks),
                   {.reason = "BARRIER_TIMEOUT", .metadata = {{"absent", ranks}}});
}

}  // namespace

void StepAgreement::Call(CallId call, int rank, int64_t step, absl::Time deadline,
                         Actions& actions) {
  const auto [earlier, added] = waiting_.try_emplace(rank, Waiting{call, step});
  if (!added) {
    actions.push_back(
        AnswerStep{earlier->second.call, absl::AbortedError("the same call came again")});
    earlier->second = {call, step};
  }
  deadline_ = std::min(deadline_, deadline);
}

void StepAgreement::OnCallGone(CallId call) {
  std::erase_if(waiting_, [&](const auto& each) { return each.second.call == call; });
  if (waiting_.empty()) deadline_ = absl::InfiniteFuture();
}

void StepAgreement::Settle(const World& world, absl::Time now, Actions& actions) {
  if (waiting_.empty() || world.returning()) return;
  if (agreed_) return AnswerAll(*agreed_, actions);
  if (world.over() != nullptr) return AnswerAll(StatusOf(*world.over()), actions);
  std::vector<int> absent;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (!waiting_.contains(rank) && !world.HasLeft(rank)) absent.push_back(rank);
  }
  if (absent.empty()) {
    int64_t highest = std::numeric_limits<int64_t>::min();
    for (const auto& [rank, each] : waiting_) highest = std::max(highest, each.step);
    agreed_ = highest + 1;
    return AnswerAll(*agreed_, actions);
  }
  if (now >= deadline_) AnswerAll(TimedOut(absent), actions);
}

absl::Time StepAgreement::NextTime() const { return deadline_; }

void StepAgreement::AnswerAll(const absl::StatusOr<int64_t>& answer, Actions& actions) {
  for (const auto& [rank, each] : waiting_) actions.push_back(AnswerStep{each.call, answer});
  waiting_.clear();
  deadline_ = absl::InfiniteFuture();
}

}  // namespace remesh::server::coordination
