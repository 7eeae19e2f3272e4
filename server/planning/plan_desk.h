// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
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

// Takes questions for plans. A thread for lookups brings each into canonical form and answers it if
// the plan is kept; only what must be planned waits its turn for a planning thread, equal questions
// together. Planning has its limits, and ends when nobody waits for it any more. Thread-safe.
class PlanDesk {
 public:
  // Threads of two kinds, so that what is small never waits for what is large, whoever asks for it:
  // work begins on a quick one, and what has not ended after the quantum begins anew on a patient
  // one. However many ask, each holds up the others for one quantum a turn. May be the same pool.
  struct Threads {
    ThreadPool& quick;
    ThreadPool& patient;
    absl::Duration quantum = absl::InfiniteDuration();
  };
  // All must outlive this; the pools must have stopped before it goes.
  PlanDesk(PlanCache& cache, Threads lookups, Threads planners, PlanningLimits limits)
      : cache_(cache), lookups_(lookups), planners_(planners), limits_(std::move(limits)) {}

  // Who asks. `gone`: whether nobody waits for the answer any more; null: somebody always does. Not
  // called after Done.
  struct Asker {
    Turn turn;
    std::function<bool()> gone;
  };
  // From the caller's words; may take long, and may be called twice.
  using Ask = absl::AnyInvocable<absl::StatusOr<PlanCache::Question>(planner::Budget&)>;
  using Done = absl::AnyInvocable<void(absl::StatusOr<PlanCache::Answer>)>;
  // `done` is called once, on some thread, or destroyed when the pools stop. `long_form`: bringing
  // the question into canonical form is planning itself.
  void Find(Asker asker, Ask ask, Done done, bool long_form = false);

  // Other work of the planning threads, under the same limits. Files its answer away and says how
  // it went; may be called twice.
  using Work = absl::AnyInvocable<absl::Status(planner::Budget&)>;
  using End = absl::AnyInvocable<void(absl::Status)>;
  // `end`: as `done` above.
  void Run(Asker asker, Work work, End end);

  // For planning of other kinds, on this thread from now on. `wanted`, `quantum`: as BudgetOf().
  planner::Budget NewBudget(std::function<absl::Status()> wanted = nullptr,
                            absl::Duration quantum = absl::InfiniteDuration());

  // Ends what is being planned.
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
  };
  // Equal questions. Under mutex_.
  struct Flight {
    bool begun = false;
    bool patient = false;  // no longer quick, or never was
    std::vector<Waiter> waiters;
  };
  using FlightPtr = std::shared_ptr<Flight>;

  void Post(const Threads& threads, bool patient, std::shared_ptr<Job> job);
  absl::Status Do(Job& job, absl::Duration quantum);
  void Join(Waiter waiter);
  void PostFlight(const std::string& fingerprint, const FlightPtr& flight, bool patient,
                  const Turn& turn);
  void Fly(const std::string& fingerprint, const FlightPtr& flight, bool patient);
  // The question to plan; null when another turn has come before, or nobody waits.
  std::shared_ptr<const PlanCache::Question> Begin(Flight& flight, bool patient);
  void BeginAnew(const std::string& fingerprint, const FlightPtr& flight);
  // Takes them all, and ends the flight for those that come later.
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
};

}  // namespace remesh::server
