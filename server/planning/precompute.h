// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <memory>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "planner/values/topology.h"
#include "remesh/v1/plan.pb.h"
#include "remesh/v1/state.pb.h"
#include "server/cache/plan_cache.h"
#include "server/planning/plan_desk.h"
#include "server/planning/thread_pool.h"
#include "server/questions/scenarios.h"

namespace remesh::server {

// Plans ahead for events that may happen next, as background tasks of a pool. Thread-safe.
class Precomputer {
 public:
  // All arguments must outlive this; the pool's tasks must have ended before this is destroyed.
  Precomputer(PlanCache& cache, ThreadPool& pool, PlanDesk& desk)
      : cache_(cache), pool_(pool), desk_(desk) {}

  // Names the scenarios for the layout `present` and posts those that are not planned yet. Blocks
  // for as long as naming takes: it computes a fingerprint for each scenario. When the budget is
  // spent it ends early, with the scenarios named so far posted; another call names them all.
  // Callers take turns, each with one plan. `workers`: what an empty topology means; may be null.
  absl::StatusOr<v1::PrecomputePlansResponse> Start(
      const std::string& caller, const v1::PrecomputePlansRequest& request, v1::StateSpec present,
      const v1::PlanOptions& options, const planner::Topology* workers,
      planner::Budget& budget = planner::Budget::Unlimited());

 private:
  struct Work;  // shared by all tasks of one request
  // A plan that two callers want waits twice, so that neither waits for the other's other plans.
  struct Waiting {
    std::string caller;
    std::string fingerprint;

    friend auto operator<=>(const Waiting&, const Waiting&) = default;
  };
  // Fills outcome, plan and reason. `seen`: fingerprints of earlier scenarios.
  void Decide(const std::shared_ptr<const Work>& work, const ScenarioReshard& move,
              bool validate_only, std::set<std::string>& seen, v1::Scenario& scenario,
              planner::Budget& budget);
  v1::Scenario::Outcome Queue(const std::shared_ptr<const Work>& work, const ScenarioReshard& move,
                              const std::string& fingerprint);
  void Compute(const Work& work, const ScenarioReshard& move, const std::string& fingerprint);

  PlanCache& cache_;
  ThreadPool& pool_;
  PlanDesk& desk_;
  absl::Mutex mutex_;
  std::set<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remesh::server
