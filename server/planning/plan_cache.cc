// SPDX-License-Identifier: Apache-2.0
#include "server/planning/plan_cache.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/spec/plan_proto.h"
#include "server/controller/proto_time.h"

namespace remesh {
namespace {

absl::Status PlanError(absl::StatusCode code, std::string_view reason, const std::string& name,
                       std::string_view what) {
  return MakeError(code, absl::StrCat(name, " ", std::string(what)),
                   {.reason = std::string(reason), .metadata = {{"plan", name}}});
}

// Estimates: strings and vectors with their headers.
int64_t BytesOf(const Binding& binding) {
  int64_t bytes =
      static_cast<int64_t>(binding.device_ids.size() * 8 + binding.array_indices.size() * 4);
  for (const std::string& name : binding.host_names)
    bytes += 32 + static_cast<int64_t>(name.size());
  for (const std::string& name : binding.array_names)
    bytes += 32 + static_cast<int64_t>(name.size());
  return bytes;
}

int64_t BytesOf(const CachedPlan& cached) {
  const ReshardRequest& request = cached.request.request;
  return cached.plan.memory_bytes() +
         static_cast<int64_t>(request.arrays.size() * sizeof(ArraySpec)) +
         static_cast<int64_t>(request.topology.hosts.size() * sizeof(Host));
}

BoundPlanPtr Bind(const PlanCache::Question& question, const std::string& name,
                  std::shared_ptr<const CachedPlan> cached) {
  return std::make_shared<const BoundPlan>(BoundPlan{.name = name,
                                                     .cached = std::move(cached),
                                                     .binding = question.canonicalized.binding,
                                                     .spec = question.spec,
                                                     .create_time = question.now});
}

}  // namespace

absl::StatusOr<PlanCache::Answer> PlanCache::FindOrCompute(Question question, Compute compute) {
  const std::string& fingerprint = question.canonicalized.canonical.fingerprint;
  const std::string name = PlanName(fingerprint, question.canonicalized.binding);
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
  absl::StatusOr<Found> found = FindBelow(question.canonicalized.canonical, compute);
  absl::MutexLock lock(&mutex_);
  computing_.erase(fingerprint);
  RETURN_IF_ERROR(found.status());
  const auto cached = std::make_shared<const CachedPlan>(std::move(found->plan));
  const BoundPlanPtr plan = Bind(question, name, cached);
  const bool computed = found->cache == v1::Planning::MISS;
  if (computed) {
    stats_.set_computations(stats_.computations() + 1);
    stats_.set_compute_seconds(stats_.compute_seconds() + cached->compute_seconds);
  } else {
    v1::TierStats& disk = *stats_.mutable_disk();
    disk.set_compute_seconds_saved(disk.compute_seconds_saved() + cached->compute_seconds);
  }
  if (question.store) Store(plan, question);
  if (question.store && computed && store_ != nullptr) store_->Store(cached);
  return Answer{plan, found->cache};
}

absl::StatusOr<PlanCache::Found> PlanCache::FindBelow(const CanonicalRequest& request,
                                                      Compute compute) {
  if (store_ != nullptr) {
    if (std::optional<CachedPlan> stored = store_->Find(request)) {
      return Found{*std::move(stored), v1::Planning::DISK};
    }
  }
  ASSIGN_OR_RETURN(CachedPlan computed, compute(request));
  return Found{std::move(computed), v1::Planning::MISS};
}

PlanCache::Answer PlanCache::FindLocked(const Question& question, const std::string& name) {
  auto entry = entries_.find(question.canonicalized.canonical.fingerprint);
  if (entry == entries_.end()) {
    stats_.mutable_memory()->set_misses(stats_.memory().misses() + 1);
    return {};
  }
  const CachedPlan& cached = *entry->second.cached;
  v1::TierStats& memory = *stats_.mutable_memory();
  memory.set_compute_seconds_saved(memory.compute_seconds_saved() + cached.compute_seconds);
  if (auto known = names_.find(name); known != names_.end()) {
    memory.set_hits(memory.hits() + 1);
    ++known->second.hits;
    known->second.users += question.use;
    Touch(known->second);
    return {known->second.plan, v1::Planning::HIT};
  }
  memory.set_isomorphic_hits(memory.isomorphic_hits() + 1);
  const BoundPlanPtr plan = Bind(question, name, entry->second.cached);
  if (question.store) ++Store(plan, question).hits;
  return {plan, v1::Planning::ISOMORPHIC};
}

PlanCache::Name& PlanCache::Store(const BoundPlanPtr& plan, const Question& question) {
  const std::string& fingerprint = plan->cached->request.fingerprint;
  auto [entry, added] = entries_.try_emplace(fingerprint);
  if (added) {
    entry->second.cached = plan->cached;
    entry->second.bytes = BytesOf(*plan->cached);
    bytes_ += entry->second.bytes;
  }
  entry->second.names.insert(plan->name);
  Name& name = names_[plan->name];
  name = {.plan = plan,
          .bytes = BytesOf(plan->binding) + static_cast<int64_t>(plan->spec->SpaceUsedLong()),
          .users = question.use ? 1 : 0};
  bytes_ += name.bytes;
  Touch(name);
  MakeRoom(plan->name);
  return name;
}

void PlanCache::Touch(Name& name) {
  by_use_.erase(name.used);
  name.used = next_use_++;
  by_use_[name.used] = name.plan->name;
}

void PlanCache::RemoveName(const std::string& name) {
  const Name& removed = names_.at(name);
  const std::string fingerprint = removed.plan->cached->request.fingerprint;
  Entry& entry = entries_.at(fingerprint);
  bytes_ -= removed.bytes;
  by_use_.erase(removed.used);
  entry.names.erase(name);
  names_.erase(name);
  if (!entry.names.empty()) return;
  bytes_ -= entry.bytes;
  entries_.erase(fingerprint);
}

void PlanCache::MakeRoom(const std::string& spared) {
  for (auto oldest = by_use_.begin(); bytes_ > bytes_max_ && oldest != by_use_.end();) {
    const std::string name = (oldest++)->second;
    if (name == spared || names_.at(name).kept()) continue;
    RemoveName(name);
    v1::Evictions& evictions = *stats_.mutable_memory()->mutable_evictions();
    evictions.set_bytes(evictions.bytes() + 1);
  }
}

absl::StatusOr<PlanCache::Name*> PlanCache::FindName(const std::string& name) {
  if (name.substr(0, 6) != "plans/") return InvalidField("name", name, "must be plans/{...}");
  auto found = names_.find(name);
  if (found != names_.end()) return &found->second;
  return PlanError(absl::StatusCode::kNotFound, "PLAN_NOT_FOUND", name,
                   "was never made or is gone");
}

ListedPlan PlanCache::ToListed(const Name& name) const {
  return {.plan = name.plan,
          .pinned = name.pinned,
          .hits = name.hits,
          .cached_bytes = name.bytes + entries_.at(name.plan->cached->request.fingerprint).bytes};
}

absl::StatusOr<ListedPlan> PlanCache::Find(const std::string& name, bool use) {
  absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(Name* const found, FindName(name));
  found->users += use;
  Touch(*found);
  return ToListed(*found);
}

absl::StatusOr<ListedPlan> PlanCache::Peek(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const Name* const found, FindName(name));
  return ToListed(*found);
}

void PlanCache::EndUse(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  auto found = names_.find(name);
  if (found == names_.end() || found->second.users == 0) return;
  --found->second.users;
  MakeRoom("");
}

absl::StatusOr<ListedPlan> PlanCache::SetPinned(const std::string& name, bool pinned) {
  absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(Name* const found, FindName(name));
  found->pinned = pinned;
  if (store_ != nullptr && pinned) {
    store_->Pin({.name = name,
                 .fingerprint = found->plan->cached->request.fingerprint,
                 .spec = found->plan->spec->SerializeAsString()});
  }
  if (store_ != nullptr && !pinned) store_->Unpin(name);
  const ListedPlan listed = ToListed(*found);
  if (!pinned) MakeRoom(name);
  return listed;
}

absl::Status PlanCache::Delete(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const Name* const found, FindName(name));
  if (found->pinned)
    return PlanError(absl::StatusCode::kFailedPrecondition, "PLAN_PINNED", name, "is pinned");
  if (found->users > 0) {
    return PlanError(absl::StatusCode::kFailedPrecondition, "PLAN_IN_USE", name,
                     "is used by an execution");
  }
  const std::string fingerprint = found->plan->cached->request.fingerprint;
  RemoveName(name);
  if (store_ != nullptr && !entries_.contains(fingerprint)) store_->Remove(fingerprint);
  return absl::OkStatus();
}

std::vector<ListedPlan> PlanCache::List(size_t size, uint64_t before, uint64_t& next) {
  absl::MutexLock lock(&mutex_);
  std::vector<ListedPlan> plans;
  next = 0;
  auto entry =
      std::make_reverse_iterator(before == 0 ? by_use_.end() : by_use_.lower_bound(before));
  for (; entry != by_use_.rend(); ++entry) {
    if (plans.size() == size) return plans;
    next = entry->first;
    plans.push_back(ToListed(names_.at(entry->second)));
  }
  next = 0;
  return plans;
}

v1::CacheStats PlanCache::stats() {
  absl::MutexLock lock(&mutex_);
  v1::CacheStats stats = stats_;
  v1::TierStats& memory = *stats.mutable_memory();
  memory.set_entries(static_cast<int64_t>(names_.size()));
  memory.set_plans(static_cast<int64_t>(entries_.size()));
  memory.set_bytes(bytes_);
  memory.set_bytes_max(bytes_max_);
  if (store_ == nullptr) return stats;
  const PlanStore::Stats on_disk = store_->stats();
  v1::TierStats& disk = *stats.mutable_disk();
  disk.set_plans(on_disk.entries);
  disk.set_bytes(on_disk.bytes);
  disk.set_bytes_max(on_disk.bytes_max);
  disk.set_hits(on_disk.hits);
  disk.set_misses(on_disk.misses);
  disk.mutable_evictions()->set_bytes(on_disk.evictions);
  disk.mutable_evictions()->set_corrupt(on_disk.corrupt);
  disk.set_errors(on_disk.errors);
  return stats;
}

v1::Plan ToProto(const ListedPlan& listed) {
  const CachedPlan& cached = *listed.plan->cached;
  v1::Plan plan = ToProto(cached.plan, cached.request, listed.plan->binding);
  plan.set_name(listed.plan->name);
  SetTime(listed.plan->create_time, *plan.mutable_create_time());
  plan.set_pinned(listed.pinned);
  plan.set_hits(listed.hits);
  plan.set_cached_bytes(listed.cached_bytes);
  return plan;
}

}  // namespace remesh
