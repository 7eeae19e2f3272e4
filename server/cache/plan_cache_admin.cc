// SPDX-License-Identifier: Apache-2.0
// What operators do to plans: pins, removal, lists, statistics.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/cache/plan_cache.h"
#include "server/cache/plan_filter.h"
#include "server/controller/proto_time.h"

namespace remesh {
namespace {

using Event = v1::WatchPlansResponse;

constexpr absl::Duration kSaveInterval = absl::Seconds(30);
constexpr size_t kScannedMax = 20'000;  // plans looked at for one page

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

Event::Cause ToCause(PlanFile::Cause cause) {
  switch (cause) {
    case PlanFile::Cause::kBytes:
      return Event::BYTES;
    case PlanFile::Cause::kEntries:
      return Event::ENTRIES;
    case PlanFile::Cause::kAge:
      return Event::AGE;
    case PlanFile::Cause::kCorrupt:
      return Event::CORRUPT;
    case PlanFile::Cause::kFlushed:
      break;
  }
  return Event::CAUSE_UNSPECIFIED;
}

void Count(PlanFile::Cause cause, v1::Evictions& evictions) {
  switch (cause) {
    case PlanFile::Cause::kBytes:
      return evictions.set_bytes(evictions.bytes() + 1);
    case PlanFile::Cause::kEntries:
      return evictions.set_entries(evictions.entries() + 1);
    case PlanFile::Cause::kAge:
      return evictions.set_age(evictions.age() + 1);
    case PlanFile::Cause::kFlushed:
      return evictions.set_flushed(evictions.flushed() + 1);
    case PlanFile::Cause::kCorrupt:
      return evictions.set_corrupt(evictions.corrupt() + 1);
  }
}

}  // namespace

void PlanCache::Publish(Event::Event event, const ListedPlan& listed,
                        std::optional<PlanFile::Cause> cause) {
  if (!watchers_.any()) return;
  Event response;
  response.set_event(event);
  *response.mutable_plan() = ToProto(listed, v1::BASIC);
  if (cause.has_value()) {
    response.set_tier(v1::MEMORY);
    response.set_cause(ToCause(*cause));
    response.mutable_plan()->set_tier(store_ != nullptr ? v1::DISK : v1::CACHE_TIER_UNSPECIFIED);
  }
  watchers_.Publish(std::move(response));
}

void PlanCache::OnLeftDisk(const std::vector<PlanFile::Left>& left) {
  absl::MutexLock lock(&mutex_);
  if (!watchers_.any()) return;
  for (const PlanFile::Left& one : left) {
    if (one.name.empty()) continue;
    Event response;
    const Name* const known = memory_.Find(one.name);
    if (known != nullptr) {
      *response.mutable_plan() = ToProto(known->listed, v1::BASIC);
    } else {
      PlanFile::Name gone;
      gone.name = one.name;
      gone.about = one.about;
      *response.mutable_plan() = ToProto(gone, v1::BASIC);
      response.mutable_plan()->set_tier(v1::CACHE_TIER_UNSPECIFIED);
    }
    response.set_event(one.cause == PlanFile::Cause::kFlushed ? Event::FLUSHED : Event::EVICTED);
    response.set_tier(v1::DISK);
    response.set_cause(ToCause(one.cause));
    watchers_.Publish(std::move(response));
  }
}

void PlanCache::MakeRoom(const std::string& spared) {
  std::vector<PlanFile::Name> changed;
  while (true) {
    const auto [name, cause] = memory_.NextToLeave(Now(), spared);
    if (name == nullptr) break;
    if (name->changed) changed.push_back(ToFileName(name->listed, /*with_spec=*/false));
    Count(cause, *stats_.mutable_memory()->mutable_evictions());
    Publish(Event::EVICTED, name->listed, cause);
    memory_.Remove(std::string(name->listed.plan->name));
  }
  if (store_ != nullptr && !changed.empty()) store_->UpdateNames(std::move(changed));
}

void PlanCache::SaveFacts() {
  saved_ = Now();
  std::vector<PlanFile::Name> changed;
  for (const auto& [key, name] : memory_.names()) {
    if (!name.changed) continue;
    changed.push_back(ToFileName(name.listed, /*with_spec=*/false));
    memory_.Find(key)->changed = false;
  }
  if (!changed.empty()) store_->UpdateNames(std::move(changed));
}

void PlanCache::Tick() {
  absl::MutexLock lock(&mutex_);
  MakeRoom("");
  if (store_ != nullptr && Now() - saved_ >= kSaveInterval) SaveFacts();
}

absl::Status PlanCache::WritePin(const std::string& name, bool pinned) {
  PlanFile::Name row;
  {
    absl::MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(Name* const found, FindName(name));
    if (store_ == nullptr || found->listed.facts.pinned == pinned) return absl::OkStatus();
    ++found->listed.users;  // stays while the disk is written
    row = ToFileName(found->listed, /*with_spec=*/true);
    row.pinned = pinned;
  }
  const absl::Status status = pinned ? store_->Pin(std::move(row)) : store_->Unpin(name);
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
  if (store_ != nullptr) RETURN_IF_ERROR(store_->RemoveName(name).status());
  absl::MutexLock lock(&mutex_);
  Name* const found = memory_.Find(name);
  if (found == nullptr) return absl::OkStatus();
  if (absl::Status status = CheckRemovable(found->listed); !status.ok()) {
    // Asked for again meanwhile: it stays.
    if (store_ != nullptr) {
      store_->Store(found->listed.plan->cached, ToFileName(found->listed, /*with_spec=*/true));
    }
    return status;
  }
  v1::Evictions& evictions = *stats_.mutable_memory()->mutable_evictions();
  evictions.set_deleted(evictions.deleted() + 1);
  Publish(Event::DELETED, found->listed);
  memory_.Remove(name);
  return absl::OkStatus();
}

std::vector<std::string> PlanCache::FlushMemory(bool disk, v1::FlushPlansResponse& response) {
  std::vector<std::string> kept;
  std::vector<std::string> leaving;
  for (const auto& [key, name] : memory_.names()) {
    (name.kept() ? kept : leaving).push_back(key);
  }
  if (store_ != nullptr && !disk) SaveFacts();
  for (const std::string& key : leaving) {
    Count(PlanFile::Cause::kFlushed, *stats_.mutable_memory()->mutable_evictions());
    Publish(Event::FLUSHED, memory_.Find(key)->listed, PlanFile::Cause::kFlushed);
    memory_.Remove(key);
  }
  response.set_memory(static_cast<int64_t>(leaving.size()));
  return kept;
}

absl::StatusOr<v1::FlushPlansResponse> PlanCache::Flush(bool memory, bool disk) {
  v1::FlushPlansResponse response;
  absl::MutexLock pin_lock(&pin_mutex_);
  std::vector<std::string> kept;
  {
    absl::MutexLock lock(&mutex_);
    if (memory) kept = FlushMemory(disk, response);
    if (!memory) {
      for (const auto& [key, name] : memory_.names()) {
        if (name.kept()) kept.push_back(key);
      }
    }
  }
  response.set_kept(static_cast<int64_t>(kept.size()));
  if (!disk || store_ == nullptr) return response;
  ASSIGN_OR_RETURN(const int64_t removed, store_->RemoveAll(std::move(kept)));
  response.set_disk(removed);
  return response;
}

std::vector<PlanCache::Candidate> PlanCache::CandidatesAfter(const Place& after, size_t count,
                                                             v1::PlanView view, bool& more) {
  std::vector<PlanFile::Name> rows;
  if (store_ != nullptr) {
    rows = store_->NamesAfter(after.created, after.name, static_cast<int64_t>(count));
  }
  std::vector<Candidate> found;
  {
    absl::MutexLock lock(&mutex_);
    const auto names = memory_.NamesAfter(after.created, after.name, count);
    more = rows.size() == count || names.size() == count;
    for (const Name* name : names) {
      const ListedPlan& listed = name->listed;
      found.push_back({{listed.facts.created, listed.plan->name}, ToProto(listed, view)});
    }
    std::erase_if(rows, [&](const auto& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return memory_.Find(row.name) != nullptr;
    });
  }
  for (const PlanFile::Name& row : rows) {
    found.push_back({{row.created, row.name}, ToProto(row, view)});
  }
  std::sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
    return a.place.created != b.place.created ? a.place.created > b.place.created
                                              : a.place.name < b.place.name;
  });
  // Beyond `count` one tier may have names that were not read.
  more |= found.size() > count;
  if (found.size() > count) found.resize(count);
  return found;
}

PlanCache::Page PlanCache::List(size_t size, Place after, const v1::PlanFilter& filter,
                                v1::PlanView view) {
  Page page;
  const size_t step = std::max<size_t>(size, 64);
  bool more = true;
  for (size_t scanned = 0; more && scanned < kScannedMax; scanned += step) {
    std::vector<Candidate> found = CandidatesAfter(after, step, view, more);
    for (size_t i = 0; i < found.size(); ++i) {
      after = found[i].place;
      if (!Matches(filter, found[i].plan)) continue;
      page.plans.push_back(std::move(found[i].plan));
      if (page.plans.size() < size) continue;
      if (more || i + 1 < found.size()) page.next = after;
      return page;
    }
  }
  if (more) page.next = after;
  return page;
}

void PlanCache::UpdatePrecompute(absl::FunctionRef<void(v1::PrecomputeStats&)> update) {
  absl::MutexLock lock(&mutex_);
  update(*stats_.mutable_precompute());
}

v1::CacheStats PlanCache::stats() {
  absl::MutexLock lock(&mutex_);
  v1::CacheStats stats = stats_;
  stats.mutable_precompute();  // there from the start, all zero
  v1::TierStats& memory = *stats.mutable_memory();
  const MemoryTier::Limits& limits = memory_.limits();
  memory.set_entries(static_cast<int64_t>(memory_.names().size()));
  memory.set_plans(memory_.plan_count());
  memory.set_pinned(memory_.pinned_count());
  memory.set_bytes(memory_.bytes());
  memory.set_bytes_max(limits.bytes_max);
  memory.set_entries_max(limits.entries_max);
  if (limits.age_max != absl::InfiniteDuration()) {
    SetDuration(absl::ToChronoNanoseconds(limits.age_max), *memory.mutable_age_max());
  }
  stats.set_watches(watchers_.count());
  if (store_ == nullptr) {
    stats.clear_disk();
    return stats;
  }
  const PlanStore::Stats on_disk = store_->stats();
  const PlanFile::Limits& disk_limits = store_->limits();
  v1::TierStats& disk = *stats.mutable_disk();
  disk.set_entries(on_disk.held.names);
  disk.set_plans(on_disk.held.plans);
  disk.set_pinned(on_disk.held.pinned);
  disk.set_bytes(on_disk.held.bytes);
  disk.set_bytes_max(disk_limits.bytes_max);
  disk.set_entries_max(disk_limits.entries_max);
  SetDuration(absl::ToChronoNanoseconds(disk_limits.age_max), *disk.mutable_age_max());
  disk.set_misses(on_disk.misses);
  *disk.mutable_evictions() = on_disk.evictions;
  disk.set_errors(on_disk.errors);
  return stats;
}

}  // namespace remesh
