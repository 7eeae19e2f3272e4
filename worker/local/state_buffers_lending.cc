// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "google/protobuf/util/message_differencer.h"
#include "worker/local/state_buffers.h"
#include "worker/local/state_errors.h"
#include "worker/local/write_rules.h"
#include "worker/store/write_name.h"

namespace remesh::worker {

// A loan whose memory is being opened.
struct StateBuffers::Opening {
  v1::Assignment assignment;
  Loan loan;
  absl::Status opened = absl::CancelledError("the loan was given up");
  LendDone done;
};

bool StateBuffers::SameBuffers(v1::Assignment a, v1::Assignment b) {
  // These may change while the buffers stay the same.
  for (v1::Assignment* const assignment : {&a, &b}) {
    assignment->clear_committed();
    assignment->clear_hosts();
  }
  // A box without dimensions is the same whether it is set or not.
  return google::protobuf::util::MessageDifferencer::Equivalent(a, b);
}

std::optional<Unanswered> StateBuffers::CheckMayLend(const std::string& state) const {
  if (absl::Status name = CheckStateName(state); !name.ok())
    return Unanswered{std::move(name), std::nullopt};
  if (IsWrittenOnce(state)) {
    return Unanswered{WrittenOnce(state, "lent memory could change later: Allocate and write"),
                      std::nullopt};
  }
  if (auto stale = CheckNoneStale(state)) return stale;
  if (assigned_.Find(state) == nullptr) return StateNotFound(state);
  if (!assigned_.Reported(state) && Newest(state) == nullptr) return StateNotFound(state);
  const auto reserving = reserving_.find(state);
  const bool lends = reserving != reserving_.end() && reserving->second.lends;
  if (lends) return MemoryUnderWay(state);
  if (assigned_.ToBuild(state) != nullptr && Newest(state) == nullptr &&
      reserving == reserving_.end())
    return std::nullopt;
  return Unanswered{StateError(absl::StatusCode::kFailedPrecondition, "ALREADY_ALLOCATED", state,
                               "has buffers already: nothing can be lent in their place"),
                    std::nullopt};
}

LoanTotals StateBuffers::TotalsFor(uid_t lender) {
  std::erase_if(sizes_, [](const auto& size) { return size.expired(); });
  LoanTotals totals;
  for (const auto& weak : sizes_) {
    const std::shared_ptr<const LoanSize> size = weak.lock();
    if (size == nullptr) continue;
    for (LoanSize* const sum : {&totals.all, &totals.of_user}) {
      if (sum == &totals.of_user && size->lender != lender) continue;
      sum->host_bytes += size->host_bytes;
      sum->memories += size->memories;
    }
  }
  return totals;
}

Outcome<v1::SealResponse> StateBuffers::Lend(const v1::LendRequest& request, uid_t lender,
                                             LendDone done) {
  const std::string& state = request.state();
  if (auto may_not = CheckMayLend(state)) return *std::move(may_not);
  RETURN_IF_ERROR(CheckWriteName(request.write()));
  const v1::Assignment& assignment = *assigned_.Find(state);
  if (assignment.shards().empty()) {
    v1::SealResponse response;
    response.set_generation(assignment.generation());
    response.set_state_uid(assignment.state_uid());
    return response;
  }
  if (request.write().empty() && assignment.hosts() > 1 &&
      store_->begun_writes().Find(state, assignment.state_uid())) {
    return WriteIdNeeded(state, assignment.hosts());
  }
  ASSIGN_OR_RETURN(const ShardPlaces places, PlaceShards(assignment, store_->devices()));
  ASSIGN_OR_RETURN(Loan loan,
                   CheckLoan(request, lender, assignment, places, TotalsFor(lender), *store_));
  loan.lent.mapped = loans_->Own<MappedShards>();
  loan.lent.mapped->size = std::make_shared<const LoanSize>(loan.size);
  sizes_.push_back(loan.lent.mapped->size);
  Open(std::make_shared<Opening>(
      Opening{.assignment = assignment, .loan = std::move(loan), .done = std::move(done)}));
  return Unanswered{
      absl::UnavailableError(absl::StrCat("state ", state, " is having lent memory opened")),
      Awaited{.state = state, .what = Awaited::What::kOpening}};
}

void StateBuffers::Open(std::shared_ptr<Opening> opening) {
  Reserving& reserving = reserving_[opening->assignment.state()];
  reserving = {.state_uid = opening->assignment.state_uid(),
               .job = nullptr,
               .lends = true,
               .lease = opening->loan.lease};
  reserving.job = loans_->PostPortions(
      [this, opening](const std::atomic<bool>& cancelled) {
        const auto opened = OpenSome(opening->loan, store_->segments(), cancelled);
        if (opened) opening->opened = *opened;
        return opened.has_value();
      },
      [this, opening] { Opened(*opening); });
}

// Why a loan whose state changed must be tried again. The call itself cannot do so by tokens that
// are used up.
Unanswered StateBuffers::StateChanged(const Opening& opening) {
  const std::string& state = opening.assignment.state();
  for (const v1::LentMemory& memory : opening.loan.request.memories()) {
    if (memory.has_ipc()) continue;
    return {StateError(absl::StatusCode::kAborted, "STATE_CHANGED", state,
                       "changed while its memory was opened: lend again, with new tokens"),
            std::nullopt};
  }
  return MemoryUnderWay(state);
}

void StateBuffers::Opened(Opening& opening) {
  const std::string& state = opening.assignment.state();
  const bool given_up = reserving_.extract(state).mapped().given_up;
  Outcome<v1::SealResponse> lent = StateChanged(opening);
  if (!given_up) lent = FinishLending(opening);
  opening.loan = Loan();  // what is not lent now is closed
  opening.done(std::move(lent));
  hooks_.reserved(state, absl::OkStatus());
}

Outcome<v1::SealResponse> StateBuffers::FinishLending(Opening& opening) {
  RETURN_IF_ERROR(CheckLease(opening.loan));
  RETURN_IF_ERROR(opening.opened);
  const v1::Assignment& assignment = opening.assignment;
  const v1::Assignment* now = assigned_.ToBuild(assignment.state());
  if (now == nullptr || !SameBuffers(*now, assignment)) return StateChanged(opening);
  RETURN_IF_ERROR(store_->Lend(assignment, std::move(opening.loan.lent)));
  store_->begun_writes().Drop(assignment.state(), assignment.state_uid());
  const Generation* held = store_->Find(assignment.state(), assignment.generation());
  hooks_.changed(held->Summary());
  v1::SealResponse response;
  response.set_generation(held->number());
  response.set_state_uid(held->state_uid());
  response.set_sealed_shards(held->sealed_shards());
  response.set_total_shards(held->manifest.sealed_size());
  return response;
}

void StateBuffers::StopLending(const std::string& state) {
  const auto it = reserving_.find(state);
  if (it != reserving_.end() && it->second.lends) GiveUp(state);
}

// Ends a loan, for a write whose name must outlive it.
v1::SealResponse StateBuffers::GiveBack(const Generation* held, const std::string& write) {
  store_->begun_writes().Add(held->state(), held->state_uid(), write);
  v1::SealResponse response;
  response.set_total_shards(held->manifest.sealed_size());
  response.set_generation(held->number());
  response.set_state_uid(held->state_uid());
  Give(held, write);
  return response;
}

}  // namespace remesh::worker
