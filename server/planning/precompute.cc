// SPDX-License-Identifier: Apache-2.0
#include "server/planning/precompute.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/convert/plan_counts.h"
#include "proto/convert/plan_proto.h"
#include "proto/convert/plan_spec.h"
#include "server/questions/create_plan.h"
#include "service/log/log.h"
#include "service/rpc/catch_faults.h"

namespace remesh::server {

using planner::Budget;

struct Precomputer::Work {
  std::string caller;
  ElasticLayout layout;
  v1::PlanOptions options;
};

namespace {

// No array may need a device that goes away.
absl::Status CheckNotNeeded(const ScenarioReshard& move, const planner::ReshardRequest& request) {
  if (move.joins()) return absl::OkStatus();
  const absl::flat_hash_set<int64_t> gone(move.changing.begin(), move.changing.end());
  absl::flat_hash_set<const planner::DeviceList*> seen;
  for (const planner::ArraySpec& array : request.arrays) {
    const planner::DeviceListPtr& list = array.target.devices;
    if (!seen.insert(list.get()).second) continue;
    if (std::none_of(list->begin(), list->end(), [&](int64_t id) { return gone.contains(id); })) {
      continue;
    }
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     "the host's devices are in another device list too",
                     {.reason = "HOST_STILL_NEEDED", .metadata = {{"array", array.name}}});
  }
  return absl::OkStatus();
}

absl::StatusOr<PlanCache::Question> Ask(const ElasticLayout& layout, const v1::PlanOptions& options,
                                        const ScenarioReshard& move, Budget& budget) {
  ASSIGN_OR_RETURN(v1::PlanSpec spec, QuestionOf(move, layout, options));
  ASSIGN_OR_RETURN(const planner::ReshardRequest request,
                   proto::ToReshardRequest(spec, nullptr, budget));
  RETURN_IF_ERROR(CheckNotNeeded(move, request));
  PlanCache::Question question;
  ASSIGN_OR_RETURN(question.canonicalized, planner::Canonicalize(request, budget));
  question.spec = std::make_shared<const std::string>(spec.SerializeAsString());
  question.hosts_assumed = proto::HostsAssumed(request.topology);
  question.access = Access::kAhead;
  return question;
}

}  // namespace

absl::StatusOr<v1::PrecomputePlansResponse> Precomputer::Start(
    const std::string& caller, const v1::PrecomputePlansRequest& request, v1::StateSpec present,
    const v1::PlanOptions& options, const planner::Topology* workers, Budget& budget) {
  auto work = std::make_shared<Work>();
  work->caller = caller;
  ASSIGN_OR_RETURN(work->layout, MakeElastic(std::move(present), request.elastic_list(),
                                             request.elastic_axis(), workers, budget));
  work->options = options;
  ASSIGN_OR_RETURN(const std::vector<ScenarioReshard> moves,
                   ScenariosOf(request, work->layout, budget));
  v1::PrecomputePlansResponse response;
  std::set<std::string> seen;
  for (const ScenarioReshard& move : moves) {
    v1::Scenario& scenario = *response.add_scenarios();
    scenario = move.scenario;
    Decide(work, move, request.validate_only(), seen, scenario, budget);
    RETURN_IF_ERROR(budget.Check());
  }
  return response;
}

void Precomputer::Decide(const std::shared_ptr<const Work>& work, const ScenarioReshard& move,
                         bool validate_only, std::set<std::string>& seen, v1::Scenario& scenario,
                         Budget& budget) {
  const absl::StatusOr<PlanCache::Question> question =
      Ask(work->layout, work->options, move, budget);
  if (!question.ok()) {
    scenario.set_outcome(v1::Scenario::SKIPPED);
    const absl::string_view why = question.status().message();
    scenario.set_reason(why.data(), why.size());
    return;
  }
  const std::string& fingerprint = question->canonicalized.canonical.fingerprint;
  scenario.set_plan(proto::PlanName(fingerprint, question->canonicalized.binding));
  if (!seen.insert(fingerprint).second) return scenario.set_outcome(v1::Scenario::SHARED);
  if (cache_.Has(fingerprint)) return scenario.set_outcome(v1::Scenario::CACHED);
  if (validate_only) return scenario.set_outcome(v1::Scenario::VALID);
  scenario.set_outcome(Queue(work, move, fingerprint));
  if (scenario.outcome() == v1::Scenario::SKIPPED) {
    scenario.set_reason("too many plans wait to be made ahead");
  }
}

v1::Scenario::Outcome Precomputer::Queue(const std::shared_ptr<const Work>& work,
                                         const ScenarioReshard& move,
                                         const std::string& fingerprint) {
  {
    absl::MutexLock lock(&mutex_);
    if (!waiting_.insert({work->caller, fingerprint}).second) return v1::Scenario::QUEUED;
  }
  cache_.UpdatePrecompute([](CacheCounters::Precompute& counters) {
    ++counters.queued;
    ++counters.waiting;
  });
  // Stores only the move, which is small; makes the question, which is large, again when its turn
  // comes.
  if (pool_.PostBackground(
          work->caller, [this, work, move, fingerprint] { Compute(*work, move, fingerprint); })) {
    return v1::Scenario::QUEUED;
  }
  absl::MutexLock lock(&mutex_);
  waiting_.erase({work->caller, fingerprint});
  cache_.UpdatePrecompute([](CacheCounters::Precompute& counters) {
    --counters.queued;
    --counters.waiting;
  });
  return v1::Scenario::SKIPPED;
}

void Precomputer::Compute(const Work& work, const ScenarioReshard& move,
                          const std::string& fingerprint) {
  absl::Status status;
  bool computed = false;
  if (!cache_.Has(fingerprint)) {
    Budget budget = desk_.NewBudget();
    absl::StatusOr<PlanCache::Question> question =
        service::CatchFaults([&] { return Ask(work.layout, work.options, move, budget); });
    status = question.status();
    if (question.ok()) {
      question->ahead_of = work.caller;
      const auto answer = cache_.FindOrCompute(
          *question,
          [&](const planner::CanonicalRequest& request) { return ComputePlan(request, budget); });
      status = answer.status();
      computed = answer.ok() && answer->cache == v1::Planning::MISS;
    }
  }
  if (!status.ok()) {
    service::LogInfo("a plan cannot be made ahead",
                     {{"fingerprint", fingerprint}, {"error", status}});
  }
  cache_.UpdatePrecompute([&](CacheCounters::Precompute& counters) {
    --counters.waiting;
    counters.computed += computed;
    counters.refused += !status.ok();
  });
  absl::MutexLock lock(&mutex_);
  waiting_.erase({work.caller, fingerprint});
}

}  // namespace remesh::server
