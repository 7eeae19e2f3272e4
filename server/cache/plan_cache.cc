// SPDX-License-Identifier: Apache-2.0
// Finding plans: in memory, on disk, or by planning.
#include "server/cache/plan_cache.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/spec/plan_proto.h"
#include "proto/spec/plan_spec.h"
#include "service/log.h"

namespace remesh {
namespace {

using Event = v1::WatchPlansResponse;

absl::Status NotFound(const std::string& name) {
  return MakeError(absl::StatusCode::kNotFound, absl::StrCat(name, " was never made or is gone"),
                   {.reason = "PLAN_NOT_FOUND", .metadata = {{"plan", name}}});
}

BoundPlanPtr Bind(const PlanCache::Question& question, const std::string& name,
                  std::shared_ptr<const CachedPlan> cached) {
  const PlanCounts counts = CountsOf(cached->request.request);
  return std::make_shared<const BoundPlan>(BoundPlan{.name = name,
                                                     .cached = std::move(cached),
                                                     .binding = question.canonicalized.binding,
                                                     .spec = question.spec,
                                                     .counts = counts});
}

std::string NameOf(const PlanCache::Question& question) {
  return PlanName(question.canonicalized.canonical.fingerprint, question.canonicalized.binding);
}

// The question that a name on disk stands for.
absl::StatusOr<PlanCache::Question> QuestionOf(const PlanFile::Name& row) {
  v1::PlanSpec spec;
  if (!spec.ParseFromString(row.spec)) return absl::DataLossError("the question cannot be read");
  ASSIGN_OR_RETURN(const ReshardRequest request, ToReshardRequest(spec, nullptr));
  PlanCache::Question question;
  ASSIGN_OR_RETURN(question.canonicalized, Canonicalize(request));
  question.spec = std::make_shared<const std::string>(row.spec);
  if (NameOf(question) != row.name) {
    return absl::DataLossError("its question has another name now");
  }
  return question;
}

}  // namespace

PlanCache::PlanCache(Options options)
    : options_(std::move(options)), store_(options_.store), memory_(options_.limits) {
  {
    absl::MutexLock lock(&mutex_);
    saved_ = Now();
  }
  if (store_ == nullptr) return;
  store_->SetOnLeft([this](const std::vector<PlanFile::Left>& left) { OnLeftDisk(left); });
}

PlanCache::~PlanCache() {
  if (store_ == nullptr) return;
  {
    absl::MutexLock lock(&mutex_);
    SaveFacts();
  }
  store_->SetOnLeft(nullptr);
}

absl::Time PlanCache::Now() const {
  return absl::FromUnixMicros(absl::ToUnixMicros(options_.now()));
}

absl::StatusOr<PlanCache::Answer> PlanCache::FindOrCompute(const Question& question,
                                                           Compute compute) {
  const std::string& fingerprint = question.canonicalized.canonical.fingerprint;
  const std::string name = NameOf(question);
  {
    absl::MutexLock lock(&mutex_);
    if (computing_.contains(fingerprint)) {
      stats_.set_single_flight_waits(stats_.single_flight_waits() + 1);
      auto done = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return !computing_.contains(fingerprint);
      };
      mutex_.Await(absl::Condition(&done));
    }
    if (Answer answer = FindLocked(question, name); answer.plan != nullptr) return answer;
    computing_.insert(fingerprint);
  }
  return Settle(question, name, compute);
}

std::optional<PlanCache::Answer> PlanCache::FindKept(const Question& question) {
  const std::string& fingerprint = question.canonicalized.canonical.fingerprint;
  const std::string name = NameOf(question);
  {
    absl::MutexLock lock(&mutex_);
    if (computing_.contains(fingerprint)) return std::nullopt;
    if (Answer answer = FindLocked(question, name); answer.plan != nullptr) return answer;
    if (store_ == nullptr) return std::nullopt;
    computing_.insert(fingerprint);
  }
  const auto no_planning = [&](const CanonicalRequest&) { return NotFound(name); };
  absl::StatusOr<Answer> answer = Settle(question, name, no_planning);
  if (!answer.ok()) return std::nullopt;
  return *std::move(answer);
}

void PlanCache::CountWait() {
  absl::MutexLock lock(&mutex_);
  stats_.set_single_flight_waits(stats_.single_flight_waits() + 1);
}

absl::StatusOr<PlanCache::Answer> PlanCache::Settle(const Question& question,
                                                    const std::string& name, Compute compute) {
  absl::StatusOr<Found> found = FindBelow(question, name, compute);
  absl::MutexLock lock(&mutex_);
  computing_.erase(question.canonicalized.canonical.fingerprint);
  RETURN_IF_ERROR(found.status());
  return FileFound(question, name, *std::move(found));
}

absl::StatusOr<PlanCache::Found> PlanCache::FindBelow(const Question& question,
                                                      const std::string& name, Compute compute) {
  const CanonicalRequest& request = question.canonicalized.canonical;
  std::optional<NameFacts> facts = question.facts;
  if (store_ != nullptr && !question.looked) {
    if (!facts) {
      if (std::optional<PlanFile::Name> row = store_->FindName(name)) facts = FactsOf(*row);
    }
    if (std::optional<CachedPlan> stored = store_->Find(request)) {
      return Found{*std::move(stored), v1::Planning::DISK, std::move(facts)};
    }
  }
  ASSIGN_OR_RETURN(CachedPlan computed, compute(request));
  return Found{std::move(computed), v1::Planning::MISS, std::move(facts)};
}

void PlanCache::CountUse(const Question& question, Name& name) {
  name.listed.users += question.use;
  AddState(question.state, name.listed.facts);
  if (question.ahead) return;
  const BoundPlan& plan = *name.listed.plan;
  if (ahead_.erase(plan.cached->request.fingerprint) == 0) return;
  stats_.mutable_precompute()->set_used(stats_.precompute().used() + 1);
}

void PlanCache::CountHit(const Question& question, Name& name) {
  v1::TierStats& stats = *stats_.mutable_memory();
  stats.set_hits(stats.hits() + 1);
  stats.set_compute_seconds_saved(stats.compute_seconds_saved() +
                                  name.listed.plan->cached->compute_seconds);
  ++name.listed.facts.hits;
  name.changed = true;
  CountUse(question, name);
  memory_.Touch(name, Now());
}

PlanCache::Answer PlanCache::FindLocked(const Question& question, const std::string& name) {
  v1::TierStats& stats = *stats_.mutable_memory();
  const auto cached = memory_.FindPlan(question.canonicalized.canonical.fingerprint);
  if (cached == nullptr) {
    stats.set_misses(stats.misses() + !(question.ahead || question.looked));
    return {};
  }
  if (Name* const known = memory_.Find(name)) {
    if (!question.ahead) CountHit(question, *known);
    return {known->listed.plan, v1::Planning::HIT};
  }
  if (!question.ahead) {
    stats.set_isomorphic_hits(stats.isomorphic_hits() + 1);
    stats.set_compute_seconds_saved(stats.compute_seconds_saved() + cached->compute_seconds);
  }
  const BoundPlanPtr plan = Bind(question, name, cached);
  if (!question.store) return {plan, v1::Planning::ISOMORPHIC};
  Name& filed = File(plan, question, question.facts);
  filed.listed.facts.hits += !question.ahead;
  if (store_ != nullptr && !question.facts)
    store_->StoreName(ToFileName(filed.listed, /*with_spec=*/true));
  return {plan, v1::Planning::ISOMORPHIC};
}

PlanCache::Answer PlanCache::FileFound(const Question& question, const std::string& name,
                                       Found found) {
  const auto cached = std::make_shared<const CachedPlan>(std::move(found.plan));
  const BoundPlanPtr plan = Bind(question, name, cached);
  const bool computed = found.cache == v1::Planning::MISS;
  if (computed) {
    stats_.set_computations(stats_.computations() + 1);
    stats_.set_compute_seconds(stats_.compute_seconds() + cached->compute_seconds);
  } else {
    v1::TierStats& disk = *stats_.mutable_disk();
    disk.set_compute_seconds_saved(disk.compute_seconds_saved() + cached->compute_seconds);
    const bool same = found.facts.has_value();
    disk.set_hits(disk.hits() + same);
    disk.set_isomorphic_hits(disk.isomorphic_hits() + !same);
  }
  if (!question.store) return {plan, found.cache};
  if (computed && question.ahead) ahead_.insert(cached->request.fingerprint);
  const bool known = found.facts.has_value();
  Name& filed = File(plan, question, found.facts);
  filed.listed.facts.hits += !computed && !question.ahead;
  filed.changed = known;
  if (store_ == nullptr) return {plan, found.cache};
  if (computed) store_->Store(cached, ToFileName(filed.listed, /*with_spec=*/true));
  if (!computed && !known) store_->StoreName(ToFileName(filed.listed, /*with_spec=*/true));
  return {plan, found.cache};
}

PlanCache::Name& PlanCache::File(const BoundPlanPtr& plan, const Question& question,
                                 const std::optional<NameFacts>& facts, Event::Event event) {
  NameFacts filed = facts.value_or(NameFacts{.created = Now()});
  filed.used = Now();
  Name& name = memory_.Add(plan, std::move(filed));
  CountUse(question, name);
  Publish(facts.has_value() ? Event::LOADED : event, name.listed);
  MakeRoom(plan->name);
  return name;
}

bool PlanCache::Has(const std::string& fingerprint) {
  {
    absl::MutexLock lock(&mutex_);
    if (memory_.FindPlan(fingerprint) != nullptr) return true;
  }
  return store_ != nullptr && store_->Has(fingerprint);
}

ListedPlan PlanCache::Import(const Question& question, CachedPlan plan) {
  const std::string name = NameOf(question);
  absl::MutexLock lock(&mutex_);
  if (const Name* known = memory_.Find(name)) return known->listed;
  auto cached = memory_.FindPlan(plan.request.fingerprint);
  if (cached == nullptr) cached = std::make_shared<const CachedPlan>(std::move(plan));
  const Name& filed = File(Bind(question, name, cached), question, {}, Event::IMPORTED);
  if (store_ != nullptr) store_->Store(cached, ToFileName(filed.listed, /*with_spec=*/true));
  return filed.listed;
}

absl::Status PlanCache::Load(const std::string& name) {
  if (store_ == nullptr || name.substr(0, 6) != "plans/") return absl::OkStatus();
  {
    absl::MutexLock lock(&mutex_);
    if (memory_.Find(name) != nullptr) return absl::OkStatus();
  }
  const std::optional<PlanFile::Name> row = store_->FindName(name);
  if (!row.has_value()) return absl::OkStatus();
  absl::StatusOr<Question> question = QuestionOf(*row);
  if (!question.ok()) {
    LogWarning("a name on disk is dropped", {{"plan", name}, {"error", question.status()}});
    return store_->RemoveName(name).status();
  }
  question->ahead = true;  // whoever asks by name is no hit
  question->facts = FactsOf(*row);
  const auto no_planning = [&](const CanonicalRequest&) { return NotFound(name); };
  const absl::Status status = FindOrCompute(*question, no_planning).status();
  return absl::IsNotFound(status) ? store_->RemoveName(name).status() : status;
}

absl::StatusOr<PlanCache::Name*> PlanCache::FindName(const std::string& name) {
  if (name.substr(0, 6) != "plans/") return InvalidField("name", name, "must be plans/{...}");
  if (Name* const found = memory_.Find(name)) return found;
  return NotFound(name);
}

absl::StatusOr<ListedPlan> PlanCache::Find(const std::string& name, bool use,
                                           const std::string& state) {
  RETURN_IF_ERROR(Load(name));
  absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(Name* const found, FindName(name));
  if (use) {
    Question question;
    question.use = true;
    question.state = state;
    ++found->listed.facts.hits;
    CountUse(question, *found);
  }
  found->changed = true;
  memory_.Touch(*found, Now());
  return found->listed;
}

std::optional<ListedPlan> PlanCache::FindInMemory(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  Name* const found = memory_.Find(name);
  if (found == nullptr) return std::nullopt;
  found->changed = true;
  memory_.Touch(*found, Now());
  return found->listed;
}

std::optional<ListedPlan> PlanCache::FindAgain(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  Name* const found = memory_.Find(name);
  if (found == nullptr) return std::nullopt;
  CountHit({}, *found);
  return found->listed;
}

absl::StatusOr<ListedPlan> PlanCache::Peek(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const Name* const found, FindName(name));
  return found->listed;
}

void PlanCache::EndUse(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  Name* const found = memory_.Find(name);
  if (found == nullptr || found->listed.users == 0) return;
  --found->listed.users;
  MakeRoom("");
}

}  // namespace remesh
