// SPDX-License-Identifier: Apache-2.0
#include "server/planning/plan_desk.h"

#include <algorithm>
#include <utility>

#include "proto/convert/plan_proto.h"
#include "server/planning/plan_moves.h"

namespace remesh {
namespace {

absl::Status Gone() { return absl::CancelledError("the caller has gone"); }

bool HasGone(const PlanDesk::Asker& asker) { return asker.gone != nullptr && asker.gone(); }

}  // namespace

Budget PlanDesk::NewBudget(std::function<absl::Status()> wanted) {
  return BudgetOf(limits_, [this, wanted = std::move(wanted)] {
    if (stopping_) return ShuttingDown();
    return wanted == nullptr ? absl::OkStatus() : wanted();
  });
}

void PlanDesk::Find(Asker asker, Ask ask, Done done, bool long_form) {
  ThreadPool& pool = long_form ? planners_ : lookups_;
  const Turn turn = asker.turn;
  auto shared = std::make_shared<Done>(std::move(done));
  const bool taken =
      pool.Post(turn, [this, shared, asker = std::move(asker), ask = std::move(ask)]() mutable {
        LookUp(std::move(asker), std::move(ask), std::move(*shared));
      });
  if (!taken) (*shared)(NotTaken(pool));
}

void PlanDesk::LookUp(Asker asker, Ask ask, Done done) {
  if (stopping_) return done(ShuttingDown());
  if (HasGone(asker)) return done(Gone());
  Budget budget = NewBudget([&asker] { return HasGone(asker) ? Gone() : absl::OkStatus(); });
  absl::StatusOr<PlanCache::Question> question = ask(budget);
  if (!question.ok()) return done(question.status());
  if (std::optional<PlanCache::Answer> kept = cache_.FindKept(*question)) {
    return done(*std::move(kept));
  }
  question->looked = true;
  Join({std::move(asker), std::make_shared<const PlanCache::Question>(*std::move(question)),
        std::move(done)});
}

// Posted for each of equal questions, so that it is planned when the first of their callers has
// his turn; the others find it begun.
void PlanDesk::Join(Waiter waiter) {
  const std::string fingerprint = waiter.question->canonicalized.canonical.fingerprint;
  const Turn turn = waiter.asker.turn;
  std::shared_ptr<Flight> flight;
  bool begun = false;
  {
    absl::MutexLock lock(&mutex_);
    std::shared_ptr<Flight>& known = flights_[fingerprint];
    if (known == nullptr) known = std::make_shared<Flight>();
    if (!known->waiters.empty()) cache_.CountWait();
    flight = known;
    begun = flight->begun;
    flight->waiters.push_back(std::move(waiter));
  }
  if (begun) return;
  const bool taken =
      planners_.Post(turn, [this, fingerprint, flight] { Fly(fingerprint, flight); });
  if (taken) return;
  // Nobody's turn may come: whoever waits with this one is refused with it.
  AnswerAll(Land(fingerprint, flight), NotTaken(planners_));
}

absl::Status PlanDesk::Wanted(const Flight& flight) {
  absl::MutexLock lock(&mutex_);
  const bool all_gone = std::all_of(flight.waiters.begin(), flight.waiters.end(),
                                    [](const Waiter& waiter) { return HasGone(waiter.asker); });
  return all_gone ? Gone() : absl::OkStatus();
}

void PlanDesk::Fly(const std::string& fingerprint, const std::shared_ptr<Flight>& flight) {
  std::shared_ptr<const PlanCache::Question> question;
  {
    absl::MutexLock lock(&mutex_);
    if (flight->begun || flight->waiters.empty()) return;
    flight->begun = true;
    // One that keeps the plan, if any does.
    auto chosen = std::find_if(flight->waiters.begin(), flight->waiters.end(),
                               [](const Waiter& waiter) { return waiter.question->store; });
    if (chosen == flight->waiters.end()) chosen = flight->waiters.begin();
    std::swap(*chosen, flight->waiters.front());
    question = flight->waiters.front().question;
  }
  absl::StatusOr<PlanCache::Answer> answer = Gone();
  if (Wanted(*flight).ok()) {
    Budget budget = NewBudget([this, &flight] { return Wanted(*flight); });
    answer = cache_.FindOrCompute(
        *question, [&](const CanonicalRequest& request) { return ComputePlan(request, budget); });
  }
  AnswerAll(Land(fingerprint, flight), answer);
}

std::vector<PlanDesk::Waiter> PlanDesk::Land(const std::string& fingerprint,
                                             const std::shared_ptr<Flight>& flight) {
  absl::MutexLock lock(&mutex_);
  const auto known = flights_.find(fingerprint);
  if (known != flights_.end() && known->second == flight) flights_.erase(known);
  return std::exchange(flight->waiters, {});
}

void PlanDesk::AnswerAll(std::vector<Waiter> waiters,
                         const absl::StatusOr<PlanCache::Answer>& answer) {
  bool first = true;
  for (Waiter& waiter : waiters) {
    const PlanCache::Question& question = *waiter.question;
    if (absl::IsCancelled(answer.status()) && !HasGone(waiter.asker)) {
      Join(std::move(waiter));  // came while the others went
    } else if (!answer.ok()) {
      waiter.done(BindRefusal(answer.status(), question.canonicalized.binding));
    } else if (std::exchange(first, false)) {
      waiter.done(answer);
    } else {
      waiter.done(cache_.FindOrCompute(question, [&](const CanonicalRequest&) {
        return absl::StatusOr<CachedPlan>(*answer->plan->cached);
      }));
    }
  }
}

}  // namespace remesh
