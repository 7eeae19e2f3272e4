// SPDX-License-Identifier: Apache-2.0
#include "server/questions/execution_plan.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/make_plan.h"
#include "planner/plan/host_exchanges.h"
#include "proto/convert/plan_counts.h"
#include "proto/convert/plan_proto.h"
#include "proto/convert/plan_spec.h"
#include "server/questions/create_plan.h"
#include "server/questions/join_spec.h"
#include "server/questions/new_workers.h"
#include "server/questions/place_state.h"
#include "server/questions/same_layout.h"
#include "server/questions/target_order.h"

namespace remesh::server {

using planner::Host;
using planner::Topology;

namespace {

std::set<int64_t> LostDevices(const v1::PlanOptions& options) {
  return {options.lost_device_ids().begin(), options.lost_device_ids().end()};
}

bool HoldsOnLostDevicesOnly(const HostDevices& devices, const std::set<int64_t>& lost) {
  return std::all_of(devices.local_devices.begin(), devices.local_devices.end(),
                     [&](int32_t local) { return lost.contains(devices.device_ids[local]); });
}

// Whether the state is where the move leads, so that there is nothing to do.
bool StaysThere(const proto::StateLayout& source, const proto::StateLayout& target,
                const std::set<int64_t>& lost) {
  return lost.empty() && CheckSameLayout(source, target).ok();
}

// `given`, a target whose order may be free, in the order that the plan chose.
absl::StatusOr<std::shared_ptr<const PlacedState>> InChosenOrder(
    std::shared_ptr<const PlacedState> given, const BoundPlan& plan, planner::Budget& budget) {
  const TargetOrder order = ChosenOrder(plan.cached->plan, plan.binding);
  if (order.empty()) return given;
  return PlaceState(WithOrder(given->spec, order), nullptr, budget);
}

// By host of the move, which other hosts of the move it exchanges data with: indices in their
// order.
std::vector<std::vector<int32_t>> ExchangesOf(const BoundPlan& plan,
                                              const std::map<std::string, HostDevices>& hosts) {
  absl::flat_hash_map<std::string_view, int32_t> index_of;
  for (const auto& [host, devices] : hosts) {
    index_of.emplace(host, static_cast<int32_t>(index_of.size()));
  }
  std::vector<int32_t> index;  // by the plan's numbers of hosts; -1: takes no part
  for (const std::string& host : plan.binding.host_names) {
    const auto found = index_of.find(host);
    index.push_back(found == index_of.end() ? -1 : found->second);
  }
  std::vector<std::vector<int32_t>> exchanges(hosts.size());
  const std::vector<std::vector<int32_t>> of_plan = planner::HostExchanges(plan.cached->plan);
  for (size_t host = 0; host < of_plan.size(); ++host) {
    if (index[host] < 0) continue;
    std::vector<int32_t>& others = exchanges[index[host]];
    for (const int32_t other : of_plan[host]) {
      if (index[other] >= 0) others.push_back(index[other]);
    }
    std::sort(others.begin(), others.end());
  }
  return exchanges;
}

// The part of a plan that the controller needs, for a move from `source` to `target`. `lost`: as
// named in the request for the plan.
PlannedExecution ToMove(const BoundPlan& plan, const v1::Planning& planning,
                        const PlacedState& source, std::shared_ptr<const PlacedState> target,
                        const std::set<int64_t>& lost) {
  const CachedPlan& cached = *plan.cached;
  std::map<std::string, std::set<int32_t>> named;
  AddNamedDevices(*source.layout, lost, named);
  AddNamedDevices(*target->layout, lost, named);
  const v1::Plan resource = proto::ToProto(cached.plan, cached.request, plan.binding, plan.name);
  PlannedExecution move{.target = target,
                        .hosts = {},
                        .spared_hosts = {},
                        .moves_nothing = StaysThere(*source.layout, *target->layout, lost),
                        .lost_device_ids = {lost.begin(), lost.end()},
                        .target_device_lists = {resource.target_device_lists().begin(),
                                                resource.target_device_lists().end()},
                        .plan = plan.name,
                        .fingerprint = cached.request.fingerprint,
                        .plan_digest = cached.digest,
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
    if (host.capacities_assumed) move.planning.set_hosts_assumed(move.planning.hosts_assumed() + 1);
  }
  move.exchanges = ExchangesOf(plan, move.hosts);
  return move;
}

// The spec of this very question if memory has its plan, because making it again takes as long as
// all the rest of the answer; else null.
std::shared_ptr<const std::string> KeptSpec(PlanCache& cache,
                                            const planner::CanonicalizedRequest& question) {
  const absl::StatusOr<ListedPlan> kept =
      cache.Find(proto::PlanName(question.canonical.fingerprint, question.binding), Access::kPeek);
  return kept.ok() ? kept->plan->spec : nullptr;
}

Access AccessOf(const StartPlanning& move) { return move.keep ? Access::kUse : Access::kAnswer; }

// The last step of a question, which may be asked again until then: a plan may be in use from now
// on.
std::optional<PlanCache::Answer> AnswerAgain(PlanCache& cache, const QuestionDigest& words,
                                             const StartPlanning& move) {
  const std::optional<std::string> name = cache.memo().Find(words);
  if (!name) return std::nullopt;
  const absl::StatusOr<ListedPlan> listed =
      cache.Find(*name, AccessOf(move), Reach::kMemory, move.state);
  if (!listed.ok()) return std::nullopt;
  return PlanCache::Answer{.plan = listed->plan, .cache = v1::Planning::HIT};
}

// Refuses targets that leave an array where it cannot stay.
absl::Status CheckKept(const StartPlanning& move, const v1::StateSpec& target) {
  std::set<std::string_view> named;
  for (const v1::TargetArray& array : move.targets->arrays()) named.insert(array.name());
  const std::set<int64_t> lost = LostDevices(move.options);
  absl::flat_hash_set<int64_t> there;
  for (const v1::Host& host : target.topology().hosts()) {
    there.insert(host.device_ids().begin(), host.device_ids().end());
  }
  absl::flat_hash_set<const planner::DeviceList*> checked;
  for (const proto::PlacedArray& array : move.source->layout->arrays) {
    if (named.contains(array.name)) continue;
    if (!checked.insert(array.placement.devices.get()).second) continue;
    for (const int64_t id : *array.placement.devices) {
      const bool is_lost = lost.contains(id);
      if (!is_lost && there.contains(id)) continue;
      return InvalidField(
          "targets.arrays", array.name,
          absl::StrCat("must be named: without a target it stays on device ", id, ", which ",
                       is_lost ? "is lost" : "the targets' topology lacks"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPlanUsable(const BoundPlan& plan) {
  if (plan.cached->request.request.options.donate) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     "plan: options.donate is not supported by executions yet",
                     {.reason = "DONATION_UNSUPPORTED", .metadata = {{"field", "options.donate"}}});
  }
  const std::vector<planner::MissingBox>& missing = plan.cached->plan.missing();
  if (missing.empty()) return absl::OkStatus();
  const std::string boxes = absl::StrCat(missing.size());
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat(plan.name, " takes ", boxes,
                   " boxes from a fallback, which executions cannot read yet"),
      {.reason = "FALLBACK_UNSUPPORTED", .metadata = {{"plan", plan.name}, {"boxes", boxes}}});
}

}  // namespace

absl::StatusOr<MoveQuestion> QuestionOf(const StartPlanning& move, const Topology* workers,
                                        PlanCache& cache, planner::Budget& budget) {
  absl::StatusOr<v1::StateSpec> spec = proto::ApplyTargets(move.source->spec, *move.targets);
  RETURN_IF_ERROR(AtField("targets", spec.status()));
  if (move.targets->topology().hosts().empty()) {
    AddNamedWorkers(*spec, move.source->spec, LostDevices(move.options), workers);
  }
  RETURN_IF_ERROR(CheckKept(move, *spec));
  absl::StatusOr<proto::StateLayout> layout = proto::ToStateLayout(*spec, nullptr, budget);
  RETURN_IF_ERROR(AtField("targets", layout.status()));
  // A free order is the planner's choice, and may lead here too: see ToMove().
  const bool stays = !move.options.free_target_order() &&
                     StaysThere(*move.source->layout, *layout, LostDevices(move.options));
  if (stays) {
    RETURN_IF_ERROR(
        proto::ToReshardRequest(*move.source->layout, *layout, move.options, budget).status());
    return MoveQuestion{.question = {}, .target = move.source, .moves_nothing = true};
  }
  absl::StatusOr<std::shared_ptr<const PlacedState>> target =
      PlaceState(*std::move(spec), *std::move(layout), budget);
  RETURN_IF_ERROR(AtField("targets", target.status()));
  MoveQuestion asked{.question = {}, .target = *std::move(target)};
  const v1::PlanSpec words = JoinSpecs(move.source->spec, asked.target->spec, move.options);
  asked.words = DigestOf(words, nullptr);
  asked.answer = AnswerAgain(cache, asked.words, move);
  if (asked.answer) return asked;
  ASSIGN_OR_RETURN(
      const planner::ReshardRequest request,
      proto::ToReshardRequest(*move.source->layout, *asked.target->layout, move.options, budget));
  ASSIGN_OR_RETURN(asked.question.canonicalized, planner::Canonicalize(request, budget));
  asked.question.spec = KeptSpec(cache, asked.question.canonicalized);
  if (asked.question.spec == nullptr) {
    asked.question.spec = std::make_shared<const std::string>(words.SerializeAsString());
  }
  asked.question.hosts_assumed = proto::HostsAssumed(request.topology);
  asked.question.access = AccessOf(move);
  asked.question.state = move.state;
  return asked;
}

absl::StatusOr<PlannedExecution> MoveOf(const StartPlanning& move,
                                        std::shared_ptr<const PlacedState> target,
                                        const PlanCache::Answer& answer, Timestamp start,
                                        planner::Budget& budget) {
  ASSIGN_OR_RETURN(target, InChosenOrder(std::move(target), *answer.plan, budget));
  return ToMove(*answer.plan, PlanningOf(answer.cache, start), *move.source, std::move(target),
                LostDevices(move.options));
}

PlannedExecution MovesNothing(const StartPlanning& move) {
  PlannedExecution unmoved;
  unmoved.target = move.source;
  unmoved.moves_nothing = true;
  return unmoved;
}

namespace {

// PLAN_SOURCE_MISMATCH unless the plan with this spec starts where the state is.
absl::Status CheckStartsHere(const std::string& plan, const v1::PlanSpec& spec,
                             const proto::StateLayout& target, const proto::StateLayout& state,
                             planner::Budget& budget) {
  ASSIGN_OR_RETURN(const proto::StateLayout source,
                   proto::ToStateLayout(SourceOf(spec), nullptr, budget));
  const absl::Status same = CheckSameLayout(source, state);
  if (same.ok()) return absl::OkStatus();
  const bool arrived = CheckSameLayout(target, state).ok();
  const std::string why = arrived ? "the state is already where it leads"
                                  : absl::StrCat("it starts elsewhere: ", same.message());
  return MakeError(
      absl::StatusCode::kFailedPrecondition, absl::StrCat(plan, ": ", why),
      {.reason = "PLAN_SOURCE_MISMATCH", .metadata = {{"plan", plan}, {"difference", why}}});
}

}  // namespace

absl::StatusOr<PlannedExecution> MoveByName(PlanCache& cache, const StartPlanning& question,
                                            const Topology* workers, planner::Budget& budget) {
  const Timestamp start = SteadyClock().Now();
  absl::StatusOr<ListedPlan> listed = cache.Find(question.plan);
  RETURN_IF_ERROR(AtField("plan", listed.status()));
  const BoundPlan& plan = *listed->plan;
  RETURN_IF_ERROR(CheckPlanUsable(plan));
  v1::PlanSpec spec;
  REMESH_CHECK(spec.ParseFromString(*plan.spec));
  v1::StateSpec there = TargetOf(spec);
  there.mutable_topology()->set_from_workers(
      IsFromWorkers(there.topology(), question.source->spec.topology(), workers));
  ASSIGN_OR_RETURN(std::shared_ptr<const PlacedState> target,
                   PlaceState(std::move(there), nullptr, budget));
  ASSIGN_OR_RETURN(target, InChosenOrder(std::move(target), plan, budget));
  PlannedExecution move = ToMove(plan, PlanningOf(v1::Planning::HIT, start), *question.source,
                                 std::move(target), LostDevices(spec.options()));
  if (!move.moves_nothing) {
    RETURN_IF_ERROR(CheckStartsHere(question.plan, spec, *move.target->layout,
                                    *question.source->layout, budget));
  }
  if (question.keep) {  // last: a move that fails keeps no plan
    RETURN_IF_ERROR(cache.Find(question.plan, Access::kUse, Reach::kDisk, question.state).status());
  }
  return move;
}

}  // namespace remesh::server
