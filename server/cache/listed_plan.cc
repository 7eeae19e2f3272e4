// SPDX-License-Identifier: Apache-2.0
#include "server/cache/listed_plan.h"

#include "google/protobuf/util/time_util.h"
#include "proto/convert/plan_proto.h"

namespace remesh::server {
namespace {

google::protobuf::Timestamp ToProto(absl::Time time) {
  return google::protobuf::util::TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(time));
}

void SetFacts(const NameFacts& facts, v1::Plan& plan) {
  *plan.mutable_create_time() = ToProto(facts.created);
  *plan.mutable_last_use_time() = ToProto(facts.used);
  plan.set_pinned(facts.pinned);
  plan.set_hits(facts.hits);
}

}  // namespace

void AddState(const std::string& state, NameFacts& facts) {
  if (state.empty()) return;
  std::erase(facts.states, state);
  facts.states.push_back(state);
  if (facts.states.size() > kStatesMax) facts.states.erase(facts.states.begin());
}

v1::Plan ToProto(const ListedPlan& listed, v1::PlanView view) {
  const BoundPlan& bound = *listed.plan;
  const CachedPlan& cached = *bound.cached;
  v1::Plan plan;
  if (view != v1::BASIC)
    plan = proto::ToProto(cached.plan, cached.request, bound.binding, bound.name);
  plan.set_name(bound.name);
  plan.set_fingerprint(cached.request.fingerprint);
  SetFacts(listed.facts, plan);
  plan.set_cached_bytes(listed.cached_bytes);
  plan.set_tier(v1::MEMORY);
  plan.set_uses(listed.users);
  *plan.mutable_states() = {listed.facts.states.begin(), listed.facts.states.end()};
  proto::SetCounts(bound.counts, plan);
  plan.set_compute_seconds(cached.compute_seconds);
  return plan;
}

v1::Plan ToEntry(const ListedPlan& listed, v1::PlanView view) {
  v1::Plan plan = ToProto(listed, v1::BASIC);
  if (view != v1::BASIC) proto::SetCost(listed.plan->cached->plan, listed.plan->binding, plan);
  return plan;
}

std::string AboutOf(const ListedPlan& listed) {
  v1::Plan about = ToEntry(listed, v1::SUMMARY);
  about.clear_uses();
  return about.SerializeAsString();
}

PlanFile::Name ToFileName(const ListedPlan& listed, bool with_spec) {
  const BoundPlan& bound = *listed.plan;
  return {.name = bound.name,
          .fingerprint = bound.cached->request.fingerprint,
          .spec = with_spec ? *bound.spec : "",
          .about = AboutOf(listed),
          .created = listed.facts.created,
          .used = listed.facts.used,
          .hits = listed.facts.hits,
          .pinned = listed.facts.pinned};
}

v1::Plan ToEntry(const PlanFile::Name& name, v1::PlanView view) {
  v1::Plan plan;
  if (!plan.ParseFromString(name.about)) plan.Clear();  // from an older server: little is known
  plan.set_name(name.name);
  plan.set_fingerprint(name.fingerprint);
  SetFacts(FactsOf(name), plan);
  plan.set_cached_bytes(name.bytes);
  plan.set_tier(v1::DISK);
  if (view == v1::BASIC) {
    plan.clear_summary();
    plan.clear_missing_boxes();
  }
  return plan;
}

NameFacts FactsOf(const PlanFile::Name& name) {
  v1::Plan about;
  if (!about.ParseFromString(name.about)) about.Clear();
  return {.created = name.created,
          .used = name.used,
          .hits = name.hits,
          .pinned = name.pinned,
          .states = {about.states().begin(), about.states().end()}};
}

}  // namespace remesh::server
