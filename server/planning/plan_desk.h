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
#include "server/planning/plan_cache.h"
#include "server/planning/planning_budget.h"
#include "server/planning/thread_pool.h"

namespace remesh {

// Takes questions for plans. A thread for lookups brings each into canonical form and answers it if
// the plan is kept; only what must be planned waits its turn for a planning thread, equal questions
// together. Planning has its limits, and ends when nobody waits for it any more. Thread-safe.
class PlanDesk {
 public:
  // All must outlive this; the pools must have stopped before it goes.
  PlanDesk(PlanCache& cache, ThreadPool& lookups, ThreadPool& planners, PlanningLimits limits)
      : cache_(cache), lookups_(lookups), planners_(planners), limits_(std::move(limits)) {}

  // Who asks. `gone`: whether nobody waits for the answer any more; null: somebody always does. Not
  // called after Done.
  struct Asker {
    Turn turn;
    std::function<bool()> gone;
  };
  // From the caller's words; may take long.
  using Ask = absl::AnyInvocable<absl::StatusOr<PlanCache::Question>(Budget&)>;
  using Done = absl::AnyInvocable<void(absl::StatusOr<PlanCache::Answer>)>;
  // `done` is called once, on some thread, or destroyed when the pools stop. `long_form`: bringing
  // the question into canonical form is planning itself.
  void Find(Asker asker, Ask ask, Done done, bool long_form = false);

  // For planning of other kinds, on this thread from now on. `wanted`: as BudgetOf().
  Budget NewBudget(std::function<absl::Status()> wanted = nullptr);

  // Ends what is being planned.
  void Stop() { stopping_ = true; }

 private:
  struct Waiter {
    Asker asker;
    std::shared_ptr<const PlanCache::Question> question;
    Done done;
  };
  // Equal questions. Under mutex_.
  struct Flight {
    bool begun = false;
    std::vector<Waiter> waiters;
  };

  void LookUp(Asker asker, Ask ask, Done done);
  void Join(Waiter waiter);
  void Fly(const std::string& fingerprint, const std::shared_ptr<Flight>& flight);
  // Takes them all, and ends the flight for those that come later.
  std::vector<Waiter> Land(const std::string& fingerprint, const std::shared_ptr<Flight>& flight);
  void AnswerAll(std::vector<Waiter> waiters, const absl::StatusOr<PlanCache::Answer>& answer);
  absl::Status Wanted(const Flight& flight);

  PlanCache& cache_;
  ThreadPool& lookups_;
  ThreadPool& planners_;
  const PlanningLimits limits_;
  std::atomic<bool> stopping_{false};
  absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<Flight>> flights_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remesh
