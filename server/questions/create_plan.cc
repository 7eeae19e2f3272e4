// SPDX-License-Identifier: Apache-2.0
#include "server/questions/create_plan.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/codec/plan_bytes.h"
#include "planner/make_plan.h"
#include "proto/convert/plan_counts.h"
#include "proto/convert/plan_proto.h"
#include "proto/convert/plan_spec.h"
#include "service/rpc/catch_faults.h"

namespace remesh::server {

using planner::Budget;
using planner::Topology;

namespace {

double SecondsSince(Timestamp start) {
  return std::chrono::duration<double>(SteadyClock().Now() - start).count();
}

// How many hosts of the question's topology have assumed capacities.
int32_t HostsAssumed(const v1::PlanSpec& spec, const Topology* workers) {
  if (spec.topology().hosts().empty() && workers != nullptr) return proto::HostsAssumed(*workers);
  return proto::HostsAssumed(spec.topology());
}

// The bytes of a question, with its topology made explicit.
std::shared_ptr<const std::string> SpelledOut(const v1::PlanSpec& spec, const Topology& topology) {
  if (!spec.topology().hosts().empty()) {
    return std::make_shared<const std::string>(spec.SerializeAsString());
  }
  v1::PlanSpec complete = spec;
  *complete.mutable_topology() = proto::ToProto(topology);
  return std::make_shared<const std::string>(complete.SerializeAsString());
}

}  // namespace

v1::Planning PlanningOf(v1::Planning::Cache cache, Timestamp start) {
  v1::Planning planning;
  planning.set_seconds(SecondsSince(start));
  planning.set_cache(cache);
  return planning;
}

absl::StatusOr<PlanCache::Answer> FindOrPlan(PlanCache& cache,
                                             const PlanCache::Question& question) {
  const auto compute = [](const planner::CanonicalRequest& request) {
    return ComputePlan(request);
  };
  absl::StatusOr<PlanCache::Answer> answer = cache.FindOrCompute(question, compute);
  if (answer.ok()) return answer;
  return proto::BindRefusal(answer.status(), question.canonicalized.binding);
}

std::optional<v1::CreatePlanResponse> AnswerAgain(PlanCache& cache,
                                                  const v1::CreatePlanRequest& request,
                                                  const Topology* workers) {
  const Timestamp start = SteadyClock().Now();
  const std::optional<std::string> name = cache.memo().Find(DigestOf(request.spec(), workers));
  if (!name.has_value()) return std::nullopt;
  const absl::StatusOr<ListedPlan> listed = cache.Find(*name, Access::kAnswer, Reach::kMemory);
  if (!listed.ok()) return std::nullopt;
  v1::CreatePlanResponse response;
  *response.mutable_plan() = ToProto(*listed);
  *response.mutable_planning() = PlanningOf(v1::Planning::HIT, start);
  response.mutable_planning()->set_hosts_assumed(HostsAssumed(request.spec(), workers));
  return response;
}

absl::StatusOr<CachedPlan> ComputePlan(const planner::CanonicalRequest& request, Budget& budget) {
  const Timestamp start = SteadyClock().Now();
  ASSIGN_OR_RETURN(planner::Plan plan,
                   service::CatchFaults([&] { return planner::MakePlan(request, budget); }));
  if (const int32_t windows = plan.summary().windows; windows > planner::kManyWindows) {
    service::LogWarning("a plan takes many windows; a wider options.window_bytes takes fewer",
                        {{"windows", absl::StrCat(windows)},
                         {"window_bytes", absl::StrCat(request.request.options.window_bytes)}});
  }
  std::string digest = planner::DigestOfPlanBytes(planner::EncodePlan(request, plan));
  return CachedPlan{.request = request,
                    .plan = std::move(plan),
                    .compute_seconds = SecondsSince(start),
                    .digest = std::move(digest)};
}

absl::StatusOr<PlanCache::Question> QuestionOf(const v1::CreatePlanRequest& request,
                                               const Topology* workers, Budget& budget) {
  absl::StatusOr<planner::ReshardRequest> question =
      proto::ToReshardRequest(request.spec(), workers, budget);
  RETURN_IF_ERROR(AtField("spec", question.status()));
  PlanCache::Question asked;
  ASSIGN_OR_RETURN(asked.canonicalized, planner::Canonicalize(*question, budget));
  asked.spec = SpelledOut(request.spec(), question->topology);
  asked.hosts_assumed = proto::HostsAssumed(question->topology);
  asked.access = request.validate_only() ? Access::kTry : Access::kAnswer;
  return asked;
}

v1::CreatePlanResponse ResponseOf(PlanCache& cache, const v1::CreatePlanRequest& request,
                                  const Topology* workers, const PlanCache::Answer& answer,
                                  Timestamp start) {
  v1::CreatePlanResponse response;
  const absl::StatusOr<ListedPlan> listed = cache.Find(answer.plan->name, Access::kPeek);
  if (listed.ok()) cache.memo().Remember(DigestOf(request.spec(), workers), answer.plan->name);
  *response.mutable_plan() = ToProto(listed.ok() ? *listed : ListedPlan{.plan = answer.plan});
  if (!listed.ok()) response.mutable_plan()->clear_tier();
  *response.mutable_planning() = PlanningOf(answer.cache, start);
  response.mutable_planning()->set_hosts_assumed(HostsAssumed(request.spec(), workers));
  return response;
}

absl::StatusOr<v1::CreatePlanResponse> CreatePlan(PlanCache& cache,
                                                  const v1::CreatePlanRequest& request,
                                                  const Topology* workers) {
  const Timestamp start = SteadyClock().Now();
  ASSIGN_OR_RETURN(const PlanCache::Question question,
                   QuestionOf(request, workers, Budget::Unlimited()));
  ASSIGN_OR_RETURN(const PlanCache::Answer answer, FindOrPlan(cache, question));
  return ResponseOf(cache, request, workers, answer, start);
}

void RestorePins(PlanCache& cache, DiskTier& disk) {
  for (const PlanFile::Name& pin : disk.PinnedNames()) {
    v1::CreatePlanRequest request;
    absl::Status status = absl::DataLossError("the pin's question cannot be read");
    std::string name = pin.name;
    if (request.mutable_spec()->ParseFromString(pin.spec)) {
      const absl::StatusOr<v1::CreatePlanResponse> made = CreatePlan(cache, request, nullptr);
      status = made.status();
      if (made.ok()) name = made->plan().name();  // a different name if fingerprints have changed
    }
    if (status.ok()) status = cache.SetPinned(name, true).status();
    if (status.ok() && name == pin.name) continue;
    if (!status.ok())
      service::LogWarning("a pin is dropped", {{"plan", pin.name}, {"error", status}});
    disk.RemoveName(pin.name).status().IgnoreError();
  }
}

}  // namespace remesh::server
