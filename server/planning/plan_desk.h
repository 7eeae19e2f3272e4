// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "planner/values/budget.h"
#include "server/cache/plan_cache.h"
#include "server/planning/planning_budget.h"
#include "server/planning/thread_pool.h"

namespace remesh::server {

// Takes questions for plans. A lookup thread brings each question into canonical form and answers
// it if a tier has the plan. Only questions that need planning wait their turn for a planning
// thread; equal questions wait together. Planning has limits, and ends when no caller waits for it
// any more. Thread-safe.
class PlanDesk {
 public:
  // Two kinds of threads, so that small work never waits for large work, whoever asks for it. Work
  // begins on a quick thread; work that has not ended after the quantum starts over on a patient
  // thread. However many questions a caller has, each delays the others by at most one quantum a
  // turn. Both pools may be the same.
  struct Threads {
    ThreadPool& quick;
    ThreadPool& patient;
    absl::Duration quantum = absl::InfiniteDuration();
  };
  // All arguments must outlive this; the pools must have stopped before it is destroyed.
  PlanDesk(PlanCache& cache, Threads lookups, Threads planners, PlanningLimits limits)
      : cache_(cache), lookups_(lookups), planners_(planners), limits_(std::move(limits)) {}

  // The caller. `gone` returns whether no one waits for the answer any more; null: someone always
  // does. Not called after Done.
  struct Asker {
    Turn turn;
    std::function<bool()> gone;
  };
  // Parses the caller's request and makes the question. Can be slow, and may be called twice.
  using Ask = absl::AnyInvocable<absl::StatusOr<PlanCache::Question>(planner::Budget&)>;
  using Done = absl::AnyInvocable<void(absl::StatusOr<PlanCache::Answer>)>;
  // Calls `done` once, on some thread, or destroys it when the pools stop. `long_form`: bringing
  // the question into canonical form needs planning itself.
  void Find(Asker asker, Ask ask, Done done, bool long_form = false);

  // Other work, under the same limits. Stores its own result and returns its status; may be called
  // twice.
  using Work = absl::AnyInvocable<absl::Status(planner::Budget&)>;
  using End = absl::AnyInvocable<void(absl::Status)>;
  // Where work begins: as lookups do, as planning does, or, where a step may take long before it
  // looks at its budget, on the patient planning threads.
  enum class Place { kLookups, kPlanners, kPatientPlanners };
  // `end`: as `done` above.
  void Run(Asker asker, Work work, End end, Place place = Place::kPlanners);

  // A budget for planning of other kinds, which begins on this thread now. `wanted`, `quantum`: see
  // BudgetOf().
  planner::Budget NewBudget(std::function<absl::Status()> wanted = nullptr,
                            absl::Duration quantum = absl::InfiniteDuration());

  // Ends all planning in progress.
  void Stop() { stopping_ = true; }

 private:
  struct Job {
    Asker asker;
    Work work;
    End end;
  };
  struct Waiter {
    Asker asker;
    std::shared_ptr<const PlanCache::Question> question;
    Done done;
    uint64_t number = 0;  // unique
  };
  // Equal questions that are planned once. Guarded by mutex_.
  struct Flight {
    bool begun = false;
    bool patient = false;  // it left, or never used, the quick threads
    std::vector<Waiter> waiters;
  };
  using FlightPtr = std::shared_ptr<Flight>;

  void Post(const Threads& threads, bool patient, std::shared_ptr<Job> job);
  absl::Status Do(Job& job, absl::Duration quantum);
  void Join(Waiter waiter);
  // Posts the flight in the turn of one of its waiters.
  void PostFlight(const std::string& fingerprint, const FlightPtr& flight, bool patient,
                  const Turn& turn, uint64_t waiter);
  // Removes the waiter from the flight and returns it; nullopt: the flight will answer the waiter,
  // or has done so.
  std::optional<Waiter> TakeOut(const std::string& fingerprint, const FlightPtr& flight,
                                uint64_t waiter);
  void Fly(const std::string& fingerprint, const FlightPtr& flight, bool patient);
  // The question to plan; null when another turn came first, or when no one waits.
  std::shared_ptr<const PlanCache::Question> Begin(Flight& flight, bool patient);
  void BeginAgain(const std::string& fingerprint, const FlightPtr& flight);
  // Takes all waiters and ends the flight, so that later questions begin a new one.
  std::vector<Waiter> Land(const std::string& fingerprint, const FlightPtr& flight);
  void AnswerAll(std::vector<Waiter> waiters, const absl::StatusOr<PlanCache::Answer>& answer);
  absl::Status Wanted(const Flight& flight);

  PlanCache& cache_;
  const Threads lookups_;
  const Threads planners_;
  const PlanningLimits limits_;
  std::atomic<bool> stopping_{false};
  absl::Mutex mutex_;
  std::map<std::string, FlightPtr> flights_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_waiter_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace remesh::server
