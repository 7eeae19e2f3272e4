// SPDX-License-Identifier: Apache-2.0
#include "server/cache/plan_watch_queue.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::server {
namespace {

using Told = v1::WatchPlansResponse;

// Whether no tier has the plan any more.
bool IsGone(const Told& told) {
  if (told.event() == Told::DELETED) return true;
  const bool left = told.event() == Told::EVICTED || told.event() == Told::FLUSHED;
  return left && told.plan().tier() == v1::CACHE_TIER_UNSPECIFIED;
}

PlanEventPtr Existing(v1::Plan plan) {
  auto event = std::make_shared<PlanEvent>();
  event->told.set_event(Told::EXISTING);
  *event->told.mutable_plan() = std::move(plan);
  return event;
}

PlanEventPtr EventWithoutPlan(Told::Event kind) {
  auto event = std::make_shared<PlanEvent>();
  event->told.set_event(kind);
  return event;
}

PlanEventPtr PopFront(std::deque<PlanEventPtr>& events) {
  PlanEventPtr front = std::move(events.front());
  events.pop_front();
  return front;
}

}  // namespace

PlanEventPtr PlanWatchQueue::Next() {
  if (std::exchange(anew_, false)) return EventWithoutPlan(Told::RESYNC);
  if (!synced_) return NextBeforeSynced();
  return live_.empty() ? nullptr : PopFront(live_);
}

PlanEventPtr PlanWatchQueue::NextBeforeSynced() {
  // Events that come while a page is read are newer than the page.
  if (walk_.reading()) return nullptr;
  if (!page_.empty()) return PopFront(page_);
  if (!gone_.empty()) {
    PlanEventPtr gone = gone_.PopOldest();
    SettleRoom();
    return gone;
  }
  if (!changed_.empty()) {
    const PlanEventPtr changed = changed_.PopOldest();
    told_.Add(changed->told.plan().name());
    return Existing(changed->told.plan());
  }
  if (walk_.wants_page()) return nullptr;
  if (walk_.missed()) {
    walk_.Restart();
    return nullptr;
  }
  synced_ = true;
  told_ = NamesTold();
  return EventWithoutPlan(Told::SYNCED);
}

void PlanWatchQueue::AddPage(PlanPage page) {
  walk_.EndPage(page.next);
  for (v1::Plan& plan : page.plans) {
    told_.Add(plan.name());
    page_.push_back(Existing(std::move(plan)));
  }
}

absl::Status PlanWatchQueue::AddEvent(const PlanEventPtr& event, bool wanted) {
  if (!synced_) return AddBeforeSynced(event, wanted);
  if (wanted) live_.push_back(event);
  if (live_.empty()) return absl::OkStatus();
  if (live_.size() > limits_.waiting || IsTooOld(live_.front(), event)) BeginAnew();
  return absl::OkStatus();
}

void PlanWatchQueue::BeginAnew() {
  Clear();
  walk_ = PlanWalk();
  synced_ = false;
  anew_ = true;
}

absl::Status PlanWatchQueue::AddBeforeSynced(const PlanEventPtr& event, bool wanted) {
  const std::string& name = event->told.plan().name();
  changed_.Erase(name);  // it is out of date
  if (wanted && IsGone(event->told)) return AddGone(event);
  if (wanted) changed_.Put(event);
  if (changed_.empty()) return absl::OkStatus();
  const bool full = changed_.size() > limits_.waiting || IsTooOld(changed_.events().front(), event);
  return full ? ForgetChanges() : absl::OkStatus();
}

absl::Status PlanWatchQueue::AddGone(const PlanEventPtr& event) {
  // The page that is being read may contain the plan.
  if (!walk_.reading() && !told_.MayHave(event->told.plan().name())) return absl::OkStatus();
  gone_.Put(event);
  return gone_.size() <= limits_.gone && SettleRoom() ? absl::OkStatus() : TooSlow();
}

absl::Status PlanWatchQueue::ForgetChanges() {
  for (const PlanEventPtr& event : changed_.events()) {
    const PlanCache::Place place = PlaceOf(event->told.plan());
    // A later page may show a new plan of the name, but the watcher must first be told that the old
    // one went.
    const bool after_all = !gone_.Has(event->told.plan().name()) && walk_.IsToCome(place);
    if (!after_all) walk_.Miss(place);
  }
  changed_.Clear();
  const bool endless = walk_.missed() && walk_.restarts() >= limits_.restarts;
  return endless ? TooSlow() : absl::OkStatus();
}

bool PlanWatchQueue::SettleRoom() {
  const int64_t needed =
      std::max<int64_t>(0, static_cast<int64_t>(gone_.size()) - limits_.gone_alone);
  if (needed > room_taken_ && !room_.Take(needed - room_taken_)) return false;
  if (needed < room_taken_) room_.GiveBack(room_taken_ - needed);
  room_taken_ = needed;
  return true;
}

bool PlanWatchQueue::IsTooOld(const PlanEventPtr& waiting, const PlanEventPtr& now) const {
  return now->number > waiting->number + limits_.age;
}

absl::Status PlanWatchQueue::TooSlow() const {
  const std::string most = absl::StrCat(limits_.waiting);
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("plans change faster than they are read, and more than ", most,
                                " events wait: watch again"),
                   {.reason = "WATCH_TOO_SLOW", .metadata = {{"events_max", most}}});
}

void PlanWatchQueue::Clear() {
  page_.clear();
  live_.clear();
  changed_.Clear();
  gone_.Clear();
  anew_ = false;
  SettleRoom();
}

}  // namespace remesh::server
