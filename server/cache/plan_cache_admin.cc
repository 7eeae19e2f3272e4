// SPDX-License-Identifier: Apache-2.0
// Operators' actions on plans (pins, removal, lists, statistics), and eviction.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/cache/plan_cache.h"
#include "server/cache/plan_event.h"

namespace remesh::server {
namespace {

using Event = v1::WatchPlansResponse;

constexpr absl::Duration kSaveInterval = absl::Seconds(30);

absl::Status CheckRemovable(const ListedPlan& listed) {
  const std::string& name = listed.plan->name;
  if (listed.facts.pinned) {
    return MakeError(absl::StatusCode::kFailedPrecondition, absl::StrCat(name, " is pinned"),
                     {.reason = "PLAN_PINNED", .metadata = {{"plan", name}}});
  }
  if (listed.users == 0) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat(name, " is used by an execution"),
                   {.reason = "PLAN_IN_USE", .metadata = {{"plan", name}}});
}

}  // namespace

void PlanCache::Publish(Event::Event event, const ListedPlan& listed) {
  if (watchers_.any()) watchers_.Publish(EventOf(event, listed));
}

void PlanCache::OnEvictedFromDisk(const std::vector<Evicted>& evicted) {
  absl::MutexLock lock(&mutex_);
  if (!watchers_.any()) return;
  for (const Evicted& one : evicted) {
    if (one.name.empty()) continue;
    const Name* const known = memory_.Find(one.name);
    watchers_.Publish(EvictedFromDisk(one, known != nullptr ? &known->listed : nullptr));
  }
}

void PlanCache::Evict(const Name& name, EvictionCause cause) {
  counters_.memory_evictions.Count(cause);
  if (watchers_.any()) watchers_.Publish(EvictedFromMemory(name.listed, cause, disk_.present()));
  memory_.Remove(std::string(name.listed.plan->name));
}

void PlanCache::SetLimits(const MemoryTier::Limits& limits) {
  absl::MutexLock lock(&mutex_);
  memory_.SetLimits(limits);
  MakeRoom("");
}

void PlanCache::MakeRoom(const std::string& spared) {
  std::vector<PlanFile::Name> changed;
  while (true) {
    const auto [name, cause] = memory_.NextToEvict(Now(), spared);
    if (name == nullptr) break;
    if (name->changed) changed.push_back(ToFileName(name->listed, /*with_spec=*/false));
    Evict(*name, cause);
  }
  if (!changed.empty()) disk_.UpdateNames(std::move(changed));
}

void PlanCache::SaveFacts() {
  saved_ = Now();
  if (!disk_.present()) return;
  std::vector<PlanFile::Name> changed;
  for (const auto& [key, name] : memory_.names()) {
    if (!name.changed) continue;
    changed.push_back(ToFileName(name.listed, /*with_spec=*/false));
    memory_.Find(key)->changed = false;
  }
  if (!changed.empty()) disk_.UpdateNames(std::move(changed));
}

void PlanCache::Tick() {
  absl::MutexLock lock(&mutex_);
  MakeRoom("");
  if (Now() - saved_ >= kSaveInterval) SaveFacts();
}

absl::Status PlanCache::WritePin(const std::string& name, bool pinned) {
  PlanFile::Name row;
  {
    absl::MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(Name* const found, FindName(name));
    if (!disk_.present() || found->listed.facts.pinned == pinned) return absl::OkStatus();
    ++found->listed.users;  // keeps the plan while the disk is written
    row = ToFileName(found->listed, /*with_spec=*/true);
    row.pinned = pinned;
  }
  const absl::Status status = pinned ? disk_.Pin(std::move(row)) : disk_.Unpin(name);
  EndUse(name);
  return status;
}

absl::StatusOr<ListedPlan> PlanCache::SetPinned(const std::string& name, bool pinned) {
  RETURN_IF_ERROR(Load(name));
  absl::MutexLock pin_lock(&pin_mutex_);
  RETURN_IF_ERROR(WritePin(name, pinned));
  absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(Name* const found, FindName(name));
  if (found->listed.facts.pinned != pinned) {
    found->listed.facts.pinned = pinned;
    Publish(pinned ? Event::PINNED : Event::UNPINNED, found->listed);
  }
  const ListedPlan listed = found->listed;
  if (!pinned) MakeRoom(name);
  return listed;
}

absl::Status PlanCache::Delete(const std::string& name) {
  RETURN_IF_ERROR(Load(name));
  absl::MutexLock pin_lock(&pin_mutex_);
  {
    absl::MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(const Name* const found, FindName(name));
    RETURN_IF_ERROR(CheckRemovable(found->listed));
  }
  RETURN_IF_ERROR(disk_.RemoveName(name).status());
  absl::MutexLock lock(&mutex_);
  Name* const found = memory_.Find(name);
  if (found == nullptr) return absl::OkStatus();
  if (absl::Status status = CheckRemovable(found->listed); !status.ok()) {
    // A question came for it in the meantime, so the plan stays.
    disk_.Store(found->listed.plan->cached, ToFileName(found->listed, /*with_spec=*/true));
    return status;
  }
  ++counters_.memory_evictions.deleted;
  Publish(Event::DELETED, found->listed);
  memory_.Remove(name);
  return absl::OkStatus();
}

std::vector<std::string> PlanCache::KeptNames() const {
  std::vector<std::string> kept;
  for (const auto& [key, name] : memory_.names()) {
    if (name.kept()) kept.push_back(key);
  }
  return kept;
}

int64_t PlanCache::FlushMemory() {
  std::vector<std::string> going;
  for (const auto& [key, name] : memory_.names()) {
    if (!name.kept()) going.push_back(key);
  }
  for (const std::string& key : going) Evict(*memory_.Find(key), EvictionCause::kFlushed);
  return static_cast<int64_t>(going.size());
}

absl::StatusOr<v1::FlushPlansResponse> PlanCache::Flush(bool memory, bool disk) {
  v1::FlushPlansResponse response;
  absl::MutexLock pin_lock(&pin_mutex_);
  std::vector<std::string> kept;
  {
    absl::MutexLock lock(&mutex_);
    kept = KeptNames();
    if (memory && !disk) SaveFacts();
    if (memory) response.set_memory(FlushMemory());
  }
  response.set_kept(static_cast<int64_t>(kept.size()));
  if (!disk) return response;
  ASSIGN_OR_RETURN(const int64_t removed, disk_.RemoveAll(std::move(kept)));
  response.set_disk(removed);
  return response;
}

std::vector<PlanCache::Placed> PlanCache::After(const Place& after, size_t count, bool& more) {
  std::vector<PlanFile::Name> rows =
      disk_.NamesAfter(after.created, after.name, static_cast<int64_t>(count));
  std::vector<Placed> found;
  {
    absl::MutexLock lock(&mutex_);
    const auto names = memory_.NamesAfter(after.created, after.name, count);
    more = rows.size() == count || names.size() == count;
    for (const Name* name : names) {
      const ListedPlan& listed = name->listed;
      found.push_back({{listed.facts.created, listed.plan->name}, listed});
    }
    std::erase_if(rows, [&](const auto& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return memory_.Find(row.name) != nullptr;
    });
  }
  for (PlanFile::Name& row : rows) {
    const Place place{row.created, row.name};
    found.push_back({place, std::move(row)});
  }
  std::sort(found.begin(), found.end(), [](const Placed& a, const Placed& b) {
    return a.place.created != b.place.created ? a.place.created > b.place.created
                                              : a.place.name < b.place.name;
  });
  // Names beyond `count` may not have been read from both tiers.
  more |= found.size() > count;
  if (found.size() > count) found.resize(count);
  return found;
}

void PlanCache::UpdatePrecompute(absl::FunctionRef<void(CacheCounters::Precompute&)> update) {
  absl::MutexLock lock(&mutex_);
  update(counters_.precompute);
}

v1::CacheStats PlanCache::stats() {
  absl::MutexLock lock(&mutex_);
  v1::CacheStats stats = ToProto(counters_, memory_, disk_);
  stats.set_watches(watchers_.count());
  return stats;
}

}  // namespace remesh::server
