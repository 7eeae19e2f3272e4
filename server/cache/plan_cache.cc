// SPDX-License-Identifier: Apache-2.0
// Finding plans: in memory, on disk, or by planning.
#include "server/cache/plan_cache.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/convert/plan_counts.h"
#include "proto/convert/plan_proto.h"
#include "proto/convert/plan_spec.h"
#include "service/log/log.h"
#include "service/rpc/catch_faults.h"

namespace remesh::server {

using planner::CanonicalRequest;

namespace {

using Event = v1::WatchPlansResponse;

bool IsQuestion(Access access) {
  return access == Access::kTry || access == Access::kAnswer || access == Access::kUse;
}

absl::Status NotFound(const std::string& name) {
  return MakeError(absl::StatusCode::kNotFound,
                   absl::StrCat(name, " does not exist: it was never made, or is gone"),
                   {.reason = "PLAN_NOT_FOUND", .metadata = {{"plan", name}}});
}

const std::string& FingerprintOf(const PlanCache::Question& question) {
  return question.canonicalized.canonical.fingerprint;
}

std::string NameOf(const PlanCache::Question& question) {
  return proto::PlanName(FingerprintOf(question), question.canonicalized.binding);
}

BoundPlanPtr Bind(const PlanCache::Question& question, std::shared_ptr<const CachedPlan> cached) {
  proto::PlanCounts counts = proto::CountsOf(cached->request.request);
  counts.hosts_assumed = question.hosts_assumed;
  return std::make_shared<const BoundPlan>(BoundPlan{.name = NameOf(question),
                                                     .cached = std::move(cached),
                                                     .binding = question.canonicalized.binding,
                                                     .spec = question.spec,
                                                     .counts = counts});
}

// The row of a name that is new on disk.
PlanFile::Name NewRow(const MemoryTier::Name& name) {
  PlanFile::Name row = ToFileName(name.listed, /*with_spec=*/true);
  row.ahead_of = name.ahead_of;
  return row;
}

// The question of a name on disk. Access is kAhead: loading a name is not asking a question.
absl::StatusOr<PlanCache::Question> QuestionOf(const PlanFile::Name& row) {
  v1::PlanSpec spec;
  if (!spec.ParseFromString(row.spec)) return absl::DataLossError("the question cannot be read");
  ASSIGN_OR_RETURN(const planner::ReshardRequest request, proto::ToReshardRequest(spec, nullptr));
  PlanCache::Question question{.access = Access::kAhead};
  ASSIGN_OR_RETURN(question.canonicalized, planner::Canonicalize(request));
  question.spec = std::make_shared<const std::string>(row.spec);
  question.hosts_assumed = proto::HostsAssumed(request.topology);
  if (NameOf(question) != row.name) {
    return absl::DataLossError("its question has another name now");
  }
  return question;
}

}  // namespace

PlanCache::PlanCache(Options options)
    : options_(std::move(options)), disk_(*options_.disk), memory_(options_.limits) {
  {
    absl::MutexLock lock(&mutex_);
    saved_ = Now();
  }
  disk_.SetOnEvicted([this](const std::vector<Evicted>& evicted) { OnEvictedFromDisk(evicted); });
}

PlanCache::~PlanCache() {
  {
    absl::MutexLock lock(&mutex_);
    SaveFacts();
  }
  disk_.SetOnEvicted(nullptr);
}

absl::Time PlanCache::Now() const {
  return absl::FromUnixMicros(absl::ToUnixMicros(options_.now()));
}

absl::StatusOr<PlanCache::Answer> PlanCache::FindOrCompute(const Question& question,
                                                           Compute compute, Reach reach) {
  return Look(question, reach, /*facts=*/{}, compute);
}

absl::StatusOr<PlanCache::Answer> PlanCache::Look(const Question& question, Reach reach,
                                                  const Facts& facts, Compute compute) {
  const std::string& fingerprint = FingerprintOf(question);
  {
    absl::MutexLock lock(&mutex_);
    if (computing_.contains(fingerprint)) {
      ++counters_.single_flight_waits;
      auto done = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return !computing_.contains(fingerprint);
      };
      mutex_.Await(absl::Condition(&done));
    }
    if (Answer answer = LookInMemory(question, reach, facts); answer.plan != nullptr) return answer;
    computing_.insert(fingerprint);
  }
  return LookBelow(question, reach, facts, compute);
}

std::optional<PlanCache::Answer> PlanCache::FindKept(const Question& question) {
  const std::string& fingerprint = FingerprintOf(question);
  {
    absl::MutexLock lock(&mutex_);
    if (computing_.contains(fingerprint)) return std::nullopt;
    if (Answer answer = LookInMemory(question, Reach::kDisk, {}); answer.plan != nullptr) {
      return answer;
    }
    computing_.insert(fingerprint);
  }
  const auto no_planning = [](const CanonicalRequest&) { return NotFound("the plan"); };
  absl::StatusOr<Answer> answer = LookBelow(question, Reach::kDisk, {}, no_planning);
  if (!answer.ok()) return std::nullopt;
  return *std::move(answer);
}

void PlanCache::CountWait() {
  absl::MutexLock lock(&mutex_);
  ++counters_.single_flight_waits;
}

absl::StatusOr<PlanCache::Answer> PlanCache::LookBelow(const Question& question, Reach reach,
                                                       const Facts& facts, Compute compute) {
  // A fault must not leave the question behind as one that is being computed.
  absl::StatusOr<Found> found =
      service::CatchFaults([&] { return FindBelow(question, reach, facts, compute); });
  absl::MutexLock lock(&mutex_);
  computing_.erase(FingerprintOf(question));
  RETURN_IF_ERROR(found.status());
  return Keep(question, *std::move(found));
}

absl::StatusOr<PlanCache::Found> PlanCache::FindBelow(const Question& question, Reach reach,
                                                      Facts facts, Compute compute) {
  const CanonicalRequest& request = question.canonicalized.canonical;
  if (reach == Reach::kDisk) {
    if (!facts) {
      if (std::optional<PlanFile::Name> row = disk_.FindName(NameOf(question))) {
        facts = FactsOf(*row);
      }
    }
    if (std::optional<CachedPlan> stored = disk_.Find(request)) {
      return Found{*std::move(stored), v1::Planning::DISK, std::move(facts)};
    }
  }
  ASSIGN_OR_RETURN(CachedPlan computed, compute(request));
  return Found{std::move(computed), v1::Planning::MISS, std::move(facts)};
}

void PlanCache::CountUse(Access access, const std::string& state, Name& name) {
  name.listed.users += access == Access::kUse;
  AddState(state, name.listed.facts);
  if (access == Access::kAhead) return;
  memory_.SetAhead(name, "");
  counters_.precompute.used += ahead_.erase(name.listed.plan->cached->request.fingerprint);
}

void PlanCache::CountHit(Access access, const std::string& state, Name& name) {
  ++counters_.memory.hits;
  counters_.memory.compute_seconds_saved += name.listed.plan->cached->compute_seconds;
  ++name.listed.facts.hits;
  name.changed = true;
  CountUse(access, state, name);
  memory_.Touch(name, Now());
}

PlanCache::Answer PlanCache::LookInMemory(const Question& question, Reach reach,
                                          const Facts& facts) {
  const bool counts = IsQuestion(question.access);
  const auto cached = memory_.FindPlan(FingerprintOf(question));
  if (cached == nullptr) {
    counters_.memory.misses += counts && reach == Reach::kDisk;
    return {};
  }
  if (Name* const known = memory_.Find(NameOf(question))) {
    if (counts) CountHit(question.access, question.state, *known);
    return {known->listed.plan, v1::Planning::HIT};
  }
  if (counts) {
    ++counters_.memory.isomorphic_hits;
    counters_.memory.compute_seconds_saved += cached->compute_seconds;
  }
  const BoundPlanPtr plan = Bind(question, cached);
  if (question.access == Access::kTry) return {plan, v1::Planning::ISOMORPHIC};
  Name& added = Add(plan, question, facts);
  added.listed.facts.hits += counts;
  if (!facts) disk_.StoreName(NewRow(added));
  return {plan, v1::Planning::ISOMORPHIC};
}

PlanCache::Answer PlanCache::Keep(const Question& question, Found found) {
  const auto cached = std::make_shared<const CachedPlan>(std::move(found.plan));
  const BoundPlanPtr plan = Bind(question, cached);
  const bool computed = found.cache == v1::Planning::MISS;
  const bool known = found.facts.has_value();
  if (computed) {
    ++counters_.computations;
    counters_.compute_seconds += cached->compute_seconds;
  } else {
    counters_.disk.compute_seconds_saved += cached->compute_seconds;
    ++(known ? counters_.disk.hits : counters_.disk.isomorphic_hits);
  }
  if (question.access == Access::kTry) return {plan, found.cache};
  if (computed && question.access == Access::kAhead) ahead_.insert(cached->request.fingerprint);
  Name& added = Add(plan, question, found.facts);
  added.listed.facts.hits += !computed && IsQuestion(question.access);
  added.changed = known;
  if (computed) {
    disk_.Store(cached, NewRow(added));
  } else if (!known) {
    disk_.StoreName(NewRow(added));
  }
  return {plan, found.cache};
}

PlanCache::Name& PlanCache::Add(const BoundPlanPtr& plan, const Question& question,
                                const Facts& facts, Event::Event event) {
  NameFacts known = facts.value_or(NameFacts{.created = Now()});
  known.used = Now();
  Name& name = memory_.Add(plan, std::move(known));
  memory_.SetAhead(name, question.ahead_of);
  CountUse(question.access, question.state, name);
  Publish(facts.has_value() ? Event::LOADED : event, name.listed);
  MakeRoom(plan->name);
  return name;
}

bool PlanCache::Has(const std::string& fingerprint) {
  {
    absl::MutexLock lock(&mutex_);
    if (memory_.FindPlan(fingerprint) != nullptr) return true;
  }
  return disk_.Has(fingerprint);
}

ListedPlan PlanCache::Import(const Question& question, CachedPlan plan) {
  const std::string name = NameOf(question);
  absl::MutexLock lock(&mutex_);
  if (const Name* known = memory_.Find(name)) return known->listed;
  auto cached = memory_.FindPlan(plan.request.fingerprint);
  if (cached == nullptr) cached = std::make_shared<const CachedPlan>(std::move(plan));
  const Name& added = Add(Bind(question, cached), question, {}, Event::IMPORTED);
  disk_.Store(cached, ToFileName(added.listed, /*with_spec=*/true));
  return added.listed;
}

absl::Status PlanCache::Load(const std::string& name) {
  if (name.substr(0, 6) != "plans/") return absl::OkStatus();
  {
    absl::MutexLock lock(&mutex_);
    if (memory_.Find(name) != nullptr) return absl::OkStatus();
  }
  const std::optional<PlanFile::Name> row = disk_.FindName(name);
  if (!row.has_value()) return absl::OkStatus();
  const absl::StatusOr<Question> question = QuestionOf(*row);
  if (!question.ok()) {
    service::LogWarning("a name on disk is dropped",
                        {{"plan", name}, {"error", question.status()}});
    return disk_.RemoveName(name).status();
  }
  const auto no_planning = [&](const CanonicalRequest&) { return NotFound(name); };
  const absl::Status status = Look(*question, Reach::kDisk, FactsOf(*row), no_planning).status();
  return absl::IsNotFound(status) ? disk_.RemoveName(name).status() : status;
}

absl::StatusOr<PlanCache::Name*> PlanCache::FindName(const std::string& name) {
  if (name.substr(0, 6) != "plans/") return InvalidField("name", name, "must be plans/{...}");
  if (Name* const found = memory_.Find(name)) return found;
  return NotFound(name);
}

absl::StatusOr<ListedPlan> PlanCache::Find(const std::string& name, Access access, Reach reach,
                                           const std::string& state) {
  if (reach == Reach::kDisk && access != Access::kPeek) RETURN_IF_ERROR(Load(name));
  absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(Name* const found, FindName(name));
  if (IsQuestion(access)) {
    CountHit(access, state, *found);
  } else if (access == Access::kView) {
    found->changed = true;
    memory_.Touch(*found, Now());
  }
  return found->listed;
}

void PlanCache::EndUse(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  Name* const found = memory_.Find(name);
  if (found == nullptr || found->listed.users == 0) return;
  --found->listed.users;
  MakeRoom("");
}

}  // namespace remesh::server
