// SPDX-License-Identifier: Apache-2.0
#include "server/planning/plan_moves.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/make_plan.h"
#include "proto/convert/plan_proto.h"
#include "proto/convert/plan_spec.h"
#include "server/planning/join_spec.h"
#include "server/planning/place_state.h"
#include "server/planning/same_layout.h"
#include "server/planning/target_order.h"
#include "service/log.h"

namespace remesh {
namespace {

double SecondsSince(Timestamp start) {
  return std::chrono::duration<double>(SteadyClock().Now() - start).count();
}

absl::StatusOr<PlanCache::Answer> FindOrPlan(PlanCache& cache,
                                             const PlanCache::Question& question) {
  const auto compute = [](const CanonicalRequest& request) { return ComputePlan(request); };
  absl::StatusOr<PlanCache::Answer> answer = cache.FindOrCompute(question, compute);
  if (answer.ok()) return answer;
  return BindRefusal(answer.status(), question.canonicalized.binding);
}

v1::Planning PlanningOf(v1::Planning::Cache cache, Timestamp start) {
  v1::Planning planning;
  planning.set_seconds(SecondsSince(start));
  planning.set_cache(cache);
  return planning;
}

bool HoldsOnLostDevicesOnly(const HostDevices& devices, const std::set<int64_t>& lost) {
  return std::all_of(devices.local_devices.begin(), devices.local_devices.end(),
                     [&](int32_t local) { return lost.contains(devices.device_ids[local]); });
}

// What the controller needs to know of a plan from `source` to `given`, a target whose order may
// be free. `lost`: as the request for the plan named them.
absl::StatusOr<PlannedMove> ToMove(const BoundPlan& plan, const v1::Planning& planning,
                                   const PlacedState& source,
                                   std::shared_ptr<const PlacedState> given,
                                   const std::set<int64_t>& lost) {
  const CachedPlan& cached = *plan.cached;
  const TargetOrder order = ChosenOrder(cached.plan, plan.binding);
  std::shared_ptr<const PlacedState> target = given;
  if (!order.empty()) {
    ASSIGN_OR_RETURN(target, PlaceState(WithOrder(given->spec, order), nullptr));
  }
  std::map<std::string, std::set<int32_t>> named;
  AddNamedDevices(*source.layout, lost, named);
  AddNamedDevices(*target->layout, lost, named);
  const v1::Plan resource = ToProto(cached.plan, cached.request, plan.binding, plan.name);
  PlannedMove move{.target = target,
                   .hosts = {},
                   .spared_hosts = {},
                   .lost_device_ids = {lost.begin(), lost.end()},
                   .target_device_lists = {resource.target_device_lists().begin(),
                                           resource.target_device_lists().end()},
                   .plan = plan.name,
                   .fingerprint = cached.request.fingerprint,
                   .summary = resource.summary(),
                   .planning = planning,
                   .compute_seconds = cached.compute_seconds,
                   .window_bytes = cached.request.request.options.window_bytes};
  for (const auto& [host, part] : source.hosts) {
    if (HoldsOnLostDevicesOnly(part.devices, lost)) move.spared_hosts.insert(host);
  }
  for (const Host& host : target->layout->topology.hosts) {
    auto devices = named.find(host.name);
    if (devices == named.end()) continue;
    move.hosts[host.name] = {.device_ids = host.device_ids,
                             .local_devices = {devices->second.begin(), devices->second.end()}};
  }
  return move;
}

// A state numbered as the workers number their devices can move to workers that came later, in
// racks that it has not heard of.
void AddNewWorkers(v1::Topology& topology, const Topology* workers) {
  if (workers == nullptr) return;
  absl::flat_hash_map<std::string, const Host*> known;
  for (const Host& host : workers->hosts) known[host.name] = &host;
  std::set<std::string> present;
  for (const v1::Host& host : topology.hosts()) {
    auto worker = known.find(host.name());
    if (worker != known.end() &&
        std::vector<int64_t>(host.device_ids().begin(), host.device_ids().end()) !=
            worker->second->device_ids) {
      return;
    }
    present.insert(host.name());
  }
  for (const v1::Domain& domain : topology.domains()) present.insert(domain.name());
  const v1::Topology all = ToProto(*workers);
  absl::flat_hash_map<std::string, const v1::Domain*> domains;
  for (const v1::Domain& domain : all.domains()) domains[domain.name()] = &domain;
  for (const v1::Host& host : all.hosts()) {
    if (!present.insert(host.name()).second) continue;
    *topology.add_hosts() = host;
    for (std::string above = host.parent(); !above.empty() && present.insert(above).second;) {
      *topology.add_domains() = *domains.at(above);
      above = topology.domains().rbegin()->parent();
    }
  }
}

absl::Status CheckPlanUsable(const BoundPlan& plan) {
  if (plan.cached->request.request.options.donate) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     "plan: options.donate is not supported by executions yet",
                     {.reason = "DONATION_UNSUPPORTED", .metadata = {{"field", "options.donate"}}});
  }
  const std::vector<MissingBox>& missing = plan.cached->plan.missing();
  if (missing.empty()) return absl::OkStatus();
  const std::string boxes = absl::StrCat(missing.size());
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat(plan.name, " takes ", boxes,
                   " boxes from a fallback, which executions cannot read yet"),
      {.reason = "FALLBACK_UNSUPPORTED", .metadata = {{"plan", plan.name}, {"boxes", boxes}}});
}

// A question's bytes, with the topology that it was asked for.
std::shared_ptr<const std::string> SpelledOut(const v1::PlanSpec& spec, const Topology& topology) {
  if (!spec.topology().hosts().empty()) {
    return std::make_shared<const std::string>(spec.SerializeAsString());
  }
  v1::PlanSpec complete = spec;
  *complete.mutable_topology() = ToProto(topology);
  return std::make_shared<const std::string>(complete.SerializeAsString());
}

}  // namespace

absl::StatusOr<MoveQuestion> QuestionOf(const StartPlanning& move, const Topology* workers,
                                        Budget& budget) {
  v1::Targets targets = *move.targets;
  if (targets.topology().hosts().empty()) {
    *targets.mutable_topology() = move.source->spec.topology();
    AddNewWorkers(*targets.mutable_topology(), workers);
  }
  absl::StatusOr<v1::StateSpec> spec = ApplyTargets(move.source->spec, targets);
  RETURN_IF_ERROR(AtField("targets", spec.status()));
  absl::StatusOr<std::shared_ptr<const PlacedState>> target = PlaceState(*spec, nullptr);
  RETURN_IF_ERROR(AtField("targets", target.status()));
  RETURN_IF_ERROR(budget.Check());
  ASSIGN_OR_RETURN(const ReshardRequest request,
                   ToReshardRequest(*move.source->layout, *(*target)->layout, move.options));
  MoveQuestion asked{.question = {}, .target = *std::move(target)};
  ASSIGN_OR_RETURN(asked.question.canonicalized, Canonicalize(request, budget));
  asked.question.spec = std::make_shared<const std::string>(
      JoinSpecs(move.source->spec, asked.target->spec, move.options).SerializeAsString());
  asked.question.use = move.keep;
  asked.question.state = move.state;
  return asked;
}

absl::StatusOr<PlannedMove> MoveOf(const StartPlanning& move,
                                   std::shared_ptr<const PlacedState> target,
                                   const PlanCache::Answer& answer, Timestamp start) {
  const auto& lost = move.options.lost_device_ids();
  return ToMove(*answer.plan, PlanningOf(answer.cache, start), *move.source, std::move(target),
                {lost.begin(), lost.end()});
}

absl::StatusOr<PlannedMove> MoveByName(PlanCache& cache, const StartPlanning& question) {
  const Timestamp start = SteadyClock().Now();
  absl::StatusOr<ListedPlan> listed = cache.Find(question.plan);
  RETURN_IF_ERROR(AtField("plan", listed.status()));
  const BoundPlan& plan = *listed->plan;
  RETURN_IF_ERROR(CheckPlanUsable(plan));
  v1::PlanSpec spec;
  REMESH_CHECK(spec.ParseFromString(*plan.spec));
  ASSIGN_OR_RETURN(const StateLayout source, ToStateLayout(SourceOf(spec), nullptr));
  ASSIGN_OR_RETURN(std::shared_ptr<const PlacedState> target, PlaceState(TargetOf(spec), nullptr));
  const StateLayout& state = *question.source->layout;
  if (absl::Status same = CheckSameLayout(source, state); !same.ok()) {
    const bool arrived = CheckSameLayout(*target->layout, state).ok();
    const std::string why = arrived ? "the state already lies where it leads"
                                    : absl::StrCat("it starts elsewhere: ", same.message());
    return MakeError(absl::StatusCode::kFailedPrecondition, absl::StrCat(question.plan, ": ", why),
                     {.reason = "PLAN_SOURCE_MISMATCH",
                      .metadata = {{"plan", question.plan}, {"difference", why}}});
  }
  if (question.keep) {
    RETURN_IF_ERROR(cache.Find(question.plan, /*use=*/true, question.state).status());
  }
  const auto& lost = spec.options().lost_device_ids();
  return ToMove(plan, PlanningOf(v1::Planning::HIT, start), *question.source, std::move(target),
                {lost.begin(), lost.end()});
}

std::optional<v1::CreatePlanResponse> AnswerAgain(PlanCache& cache,
                                                  const v1::CreatePlanRequest& request,
                                                  const Topology* workers) {
  const Timestamp start = SteadyClock().Now();
  const std::optional<std::string> name = cache.memo().Find(DigestOf(request.spec(), workers));
  if (!name.has_value()) return std::nullopt;
  const std::optional<ListedPlan> listed = cache.FindAgain(*name);
  if (!listed.has_value()) return std::nullopt;
  v1::CreatePlanResponse response;
  *response.mutable_plan() = ToProto(*listed);
  *response.mutable_planning() = PlanningOf(v1::Planning::HIT, start);
  return response;
}

absl::StatusOr<CachedPlan> ComputePlan(const CanonicalRequest& request, Budget& budget) {
  const Timestamp start = SteadyClock().Now();
  ASSIGN_OR_RETURN(Plan plan, MakePlan(request, budget));
  return CachedPlan{
      .request = request, .plan = std::move(plan), .compute_seconds = SecondsSince(start)};
}

absl::StatusOr<PlanCache::Question> QuestionOf(const v1::CreatePlanRequest& request,
                                               const Topology* workers, Budget& budget) {
  absl::StatusOr<ReshardRequest> question = ToReshardRequest(request.spec(), workers, budget);
  RETURN_IF_ERROR(AtField("spec", question.status()));
  PlanCache::Question asked;
  ASSIGN_OR_RETURN(asked.canonicalized, Canonicalize(*question, budget));
  asked.spec = SpelledOut(request.spec(), question->topology);
  asked.store = !request.validate_only();
  return asked;
}

v1::CreatePlanResponse ResponseOf(PlanCache& cache, const v1::CreatePlanRequest& request,
                                  const Topology* workers, const PlanCache::Answer& answer,
                                  Timestamp start) {
  v1::CreatePlanResponse response;
  const absl::StatusOr<ListedPlan> listed = cache.Peek(answer.plan->name);
  if (listed.ok()) cache.memo().Remember(DigestOf(request.spec(), workers), answer.plan->name);
  *response.mutable_plan() = ToProto(listed.ok() ? *listed : ListedPlan{.plan = answer.plan});
  if (!listed.ok()) response.mutable_plan()->clear_tier();
  *response.mutable_planning() = PlanningOf(answer.cache, start);
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

void RestorePins(PlanCache& cache, PlanStore& store) {
  for (const PlanFile::Name& pin : store.PinnedNames()) {
    v1::CreatePlanRequest request;
    absl::Status status = absl::DataLossError("the pin's question cannot be read");
    std::string name = pin.name;
    if (request.mutable_spec()->ParseFromString(pin.spec)) {
      const absl::StatusOr<v1::CreatePlanResponse> made = CreatePlan(cache, request, nullptr);
      status = made.status();
      if (made.ok()) name = made->plan().name();  // another one where fingerprints have changed
    }
    if (status.ok()) status = cache.SetPinned(name, true).status();
    if (status.ok() && name == pin.name) continue;
    if (!status.ok()) LogWarning("a pin is dropped", {{"plan", pin.name}, {"error", status}});
    store.RemoveName(pin.name).status().IgnoreError();
  }
}

absl::StatusOr<PlannedMove> PlanMove(PlanCache& cache, const StartPlanning& question,
                                     const Topology* workers) {
  if (!question.targets) return MoveByName(cache, question);
  const Timestamp start = SteadyClock().Now();
  ASSIGN_OR_RETURN(const MoveQuestion asked, QuestionOf(question, workers, Budget::Unlimited()));
  ASSIGN_OR_RETURN(const PlanCache::Answer answer, FindOrPlan(cache, asked.question));
  return MoveOf(question, asked.target, answer, start);
}

}  // namespace remesh
