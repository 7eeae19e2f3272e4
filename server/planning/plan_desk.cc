// SPDX-License-Identifier: Apache-2.0
#include "server/planning/plan_desk.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/caller_gone.h"
#include "proto/convert/plan_proto.h"
#include "server/planning/plan_size.h"
#include "server/questions/create_plan.h"
#include "service/rpc/catch_faults.h"

namespace remesh::server {

using planner::Budget;
using planner::CanonicalRequest;

namespace {

bool HasGone(const PlanDesk::Asker& asker) { return asker.gone != nullptr && asker.gone(); }

}  // namespace

Budget PlanDesk::NewBudget(std::function<absl::Status()> wanted, absl::Duration quantum) {
  return BudgetOf(
      limits_,
      [this, wanted = std::move(wanted)] {
        if (stopping_) return ShuttingDown();
        return wanted == nullptr ? absl::OkStatus() : wanted();
      },
      quantum);
}

void PlanDesk::Post(const Threads& threads, bool patient, std::shared_ptr<Job> job) {
  ThreadPool& pool = patient ? threads.patient : threads.quick;
  const bool taken = pool.Post(job->asker.turn, [this, &threads, patient, job] {
    absl::Status status = Do(*job, patient ? absl::InfiniteDuration() : threads.quantum);
    if (IsOverstayed(status)) return Post(threads, /*patient=*/true, job);
    job->end(std::move(status));
  });
  if (!taken) job->end(NotTaken(pool));
}

absl::Status PlanDesk::Do(Job& job, absl::Duration quantum) {
  if (stopping_) return ShuttingDown();
  if (HasGone(job.asker)) return CallerGone();
  Budget budget =
      NewBudget([&job] { return HasGone(job.asker) ? CallerGone() : absl::OkStatus(); }, quantum);
  return service::CatchFaults([&] { return job.work(budget); });
}

void PlanDesk::Run(Asker asker, Work work, End end, Place place) {
  Post(place == Place::kLookups ? lookups_ : planners_, place == Place::kPatientPlanners,
       std::make_shared<Job>(Job{std::move(asker), std::move(work), std::move(end)}));
}

void PlanDesk::Find(Asker asker, Ask ask, Done done, bool long_form) {
  struct Found {
    std::optional<PlanCache::Answer> kept;
    PlanCache::Question question;
  };
  auto found = std::make_shared<Found>();
  auto work = [this, found, ask = std::move(ask)](Budget& budget) mutable {
    absl::StatusOr<PlanCache::Question> question = ask(budget);
    if (!question.ok()) return question.status();
    found->kept = cache_.FindKept(*question);
    found->question = *std::move(question);
    return absl::OkStatus();
  };
  auto end = [this, found, asker, done = std::move(done)](absl::Status status) mutable {
    if (!status.ok()) return done(std::move(status));
    if (found->kept) return done(*std::move(found->kept));
    Join({std::move(asker), std::make_shared<const PlanCache::Question>(std::move(found->question)),
          std::move(done)});
  };
  Post(long_form ? planners_ : lookups_, /*patient=*/false,
       std::make_shared<Job>(Job{std::move(asker), std::move(work), std::move(end)}));
}

void PlanDesk::Join(Waiter waiter) {
  const CanonicalRequest& request = waiter.question->canonicalized.canonical;
  const std::string fingerprint = request.fingerprint;
  const Turn turn = waiter.asker.turn;
  const bool large = PairsOfBoxes(request.request) > limits_.quick_pairs_max;
  FlightPtr flight;
  bool begun = false, patient = false;
  uint64_t number = 0;
  {
    absl::MutexLock lock(&mutex_);
    waiter.number = number = next_waiter_++;
    FlightPtr& known = flights_[fingerprint];
    if (known == nullptr) known = std::make_shared<Flight>(Flight{.patient = large});
    if (!known->waiters.empty()) cache_.CountWait();
    flight = known;
    begun = flight->begun;
    patient = flight->patient;
    flight->waiters.push_back(std::move(waiter));
  }
  if (!begun) PostFlight(fingerprint, flight, patient, turn, number);
}

// Posts the flight once for each of its equal questions, so that it is planned when the first of
// their callers gets a turn; later turns find it begun.
void PlanDesk::PostFlight(const std::string& fingerprint, const FlightPtr& flight, bool patient,
                          const Turn& turn, uint64_t waiter) {
  ThreadPool& pool = patient ? planners_.patient : planners_.quick;
  const bool taken =
      pool.Post(turn, [this, fingerprint, flight, patient] { Fly(fingerprint, flight, patient); });
  if (taken) return;
  // Refuses only this waiter: each of the others has a turn of its own, or was refused itself.
  std::optional<Waiter> refused = TakeOut(fingerprint, flight, waiter);
  if (refused) refused->done(NotTaken(pool));
}

std::optional<PlanDesk::Waiter> PlanDesk::TakeOut(const std::string& fingerprint,
                                                  const FlightPtr& flight, uint64_t waiter) {
  absl::MutexLock lock(&mutex_);
  const auto found = std::find_if(flight->waiters.begin(), flight->waiters.end(),
                                  [&](const Waiter& one) { return one.number == waiter; });
  if (flight->begun || found == flight->waiters.end()) return std::nullopt;
  std::optional<Waiter> taken = std::move(*found);
  flight->waiters.erase(found);
  const auto known = flights_.find(fingerprint);
  if (flight->waiters.empty() && known != flights_.end() && known->second == flight) {
    flights_.erase(known);
  }
  return taken;
}

absl::Status PlanDesk::Wanted(const Flight& flight) {
  absl::MutexLock lock(&mutex_);
  const bool all_gone = std::all_of(flight.waiters.begin(), flight.waiters.end(),
                                    [](const Waiter& waiter) { return HasGone(waiter.asker); });
  return all_gone ? CallerGone() : absl::OkStatus();
}

std::shared_ptr<const PlanCache::Question> PlanDesk::Begin(Flight& flight, bool patient) {
  absl::MutexLock lock(&mutex_);
  if (flight.begun || flight.patient != patient || flight.waiters.empty()) return nullptr;
  flight.begun = true;
  // Prefers a question that keeps the plan.
  auto chosen =
      std::find_if(flight.waiters.begin(), flight.waiters.end(),
                   [](const Waiter& waiter) { return waiter.question->access != Access::kTry; });
  if (chosen == flight.waiters.end()) chosen = flight.waiters.begin();
  std::swap(*chosen, flight.waiters.front());
  return flight.waiters.front().question;
}

void PlanDesk::Fly(const std::string& fingerprint, const FlightPtr& flight, bool patient) {
  const std::shared_ptr<const PlanCache::Question> question = Begin(*flight, patient);
  if (question == nullptr) return;
  absl::StatusOr<PlanCache::Answer> answer = CallerGone();
  if (Wanted(*flight).ok()) {
    Budget budget = NewBudget([this, &flight] { return Wanted(*flight); },
                              patient ? absl::InfiniteDuration() : planners_.quantum);
    const auto compute = [&](const CanonicalRequest& request) {
      return ComputePlan(request, budget);
    };
    answer = cache_.FindOrCompute(*question, compute, Reach::kMemory);
  }
  if (IsOverstayed(answer.status())) return BeginAgain(fingerprint, flight);
  AnswerAll(Land(fingerprint, flight), answer);
}

void PlanDesk::BeginAgain(const std::string& fingerprint, const FlightPtr& flight) {
  std::vector<std::pair<Turn, uint64_t>> turns;
  {
    absl::MutexLock lock(&mutex_);
    flight->begun = false;
    flight->patient = true;
    for (const Waiter& waiter : flight->waiters) {
      turns.emplace_back(waiter.asker.turn, waiter.number);
    }
  }
  for (const auto& [turn, waiter] : turns) {
    PostFlight(fingerprint, flight, /*patient=*/true, turn, waiter);
  }
}

std::vector<PlanDesk::Waiter> PlanDesk::Land(const std::string& fingerprint,
                                             const FlightPtr& flight) {
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
      Join(std::move(waiter));  // came while the others were leaving
    } else if (!answer.ok()) {
      waiter.done(proto::BindRefusal(answer.status(), question.canonicalized.binding));
    } else if (std::exchange(first, false)) {
      waiter.done(answer);
    } else {
      const auto same = [&](const CanonicalRequest&) {
        return absl::StatusOr<CachedPlan>(*answer->plan->cached);
      };
      waiter.done(cache_.FindOrCompute(question, same, Reach::kMemory));
    }
  }
}

}  // namespace remesh::server
