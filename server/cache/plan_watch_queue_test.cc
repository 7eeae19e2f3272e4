// SPDX-License-Identifier: Apache-2.0
// Compares the plans that a watcher knows from its events with the plans that exist.
#include "server/cache/plan_watch_queue.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::server {
namespace {

using Told = v1::WatchPlansResponse;
using Plans = std::map<std::string, v1::Plan>;

// Plans that come, change and go, and the events about them, in order.
class PlansThatChange {
 public:
  void Make(const std::string& name) {
    if (plans_.contains(name)) return;
    v1::Plan& plan = plans_[name];
    plan.set_name(name);
    plan.mutable_create_time()->set_seconds(++clock_);
    plan.set_tier(v1::MEMORY);
    newest_first_[{-clock_, name}] = &plan;
    Publish(Told::CREATED, plan);
  }
  void Delete(const std::string& name) {
    if (plans_.contains(name)) Publish(Told::DELETED, Remove(name));
  }
  void Lose(const std::string& name) {
    if (!plans_.contains(name)) return;
    v1::Plan plan = Remove(name);
    plan.set_tier(v1::CACHE_TIER_UNSPECIFIED);
    Publish(Told::EVICTED, plan);
  }
  void MoveToDisk(const std::string& name) {
    if (!plans_.contains(name)) return;
    plans_[name].set_tier(v1::DISK);
    Publish(Told::EVICTED, plans_[name]);
  }
  void TurnPin(const std::string& name) {
    if (!plans_.contains(name)) return;
    plans_[name].set_pinned(!plans_[name].pinned());
    Publish(plans_[name].pinned() ? Told::PINNED : Told::UNPINNED, plans_[name]);
  }
  void TurnClockBack() { clock_ -= 10; }

  PlanPage PageAfter(const PlanCache::Place& after, size_t size) const {
    PlanPage page;
    auto next = newest_first_.upper_bound({-absl::ToUnixSeconds(after.created), after.name});
    for (; next != newest_first_.end() && page.plans.size() < size; ++next) {
      page.plans.push_back(*next->second);
    }
    if (next != newest_first_.end()) page.next = PlaceOf(page.plans.back());
    return page;
  }
  const Plans& plans() const { return plans_; }
  // The events published since the last call.
  std::vector<PlanEventPtr> TakeEvents() { return std::exchange(events_, {}); }

 private:
  v1::Plan Remove(const std::string& name) {
    newest_first_.erase({-plans_[name].create_time().seconds(), name});
    return plans_.extract(name).mapped();
  }
  void Publish(Told::Event event, const v1::Plan& plan) {
    auto published = std::make_shared<PlanEvent>();
    published->number = ++number_;
    published->told.set_event(event);
    *published->told.mutable_plan() = plan;
    if (event == Told::EVICTED) published->told.set_tier(v1::MEMORY);
    events_.push_back(std::move(published));
  }

  Plans plans_;
  std::map<std::pair<int64_t, std::string>, const v1::Plan*> newest_first_;
  std::vector<PlanEventPtr> events_;
  int64_t clock_ = 1'000'000;
  uint64_t number_ = 0;
};

// A watcher that applies its events to its view of the plans.
class View {
 public:
  void Apply(const Told& told) {
    ++told_;
    if (told.event() == Told::RESYNC) {
      EXPECT_TRUE(synced_);
      plans_.clear();
      synced_ = false;
      ++resyncs_;
      return;
    }
    if (told.event() == Told::SYNCED) {
      EXPECT_FALSE(synced_);
      synced_ = true;
      return;
    }
    const bool left = told.event() == Told::EVICTED || told.event() == Told::FLUSHED;
    const bool gone =
        told.event() == Told::DELETED || (left && told.plan().tier() == v1::CACHE_TIER_UNSPECIFIED);
    EXPECT_TRUE(synced_ || gone || told.event() == Told::EXISTING) << told.DebugString();
    EXPECT_FALSE(synced_ && told.event() == Told::EXISTING) << told.DebugString();
    if (gone) {
      plans_.erase(told.plan().name());
    } else {
      plans_[told.plan().name()] = told.plan();
    }
  }
  bool synced() const { return synced_; }
  int64_t told() const { return told_; }
  int resyncs() const { return resyncs_; }
  std::vector<std::string> Lines() const { return LinesOf(plans_); }
  static std::vector<std::string> LinesOf(const Plans& plans) {
    std::vector<std::string> lines;
    for (const auto& [name, plan] : plans) lines.push_back(plan.ShortDebugString());
    return lines;
  }

 private:
  Plans plans_;
  int64_t told_ = 0;
  int resyncs_ = 0;
  bool synced_ = false;
};

constexpr size_t kPageSize = 16;

// Takes the next event, after reading a page if necessary; false: there is none.
bool ReadOne(const PlansThatChange& world, PlanWatchQueue& queue, View& view) {
  while (true) {
    if (const PlanEventPtr next = queue.Next()) {
      view.Apply(next->told);
      return true;
    }
    if (!queue.wants_page()) return false;
    queue.AddPage(world.PageAfter(queue.BeginPage(), kPageSize));
  }
}

// Takes all events; then the watcher's view is complete.
void ExpectExact(const PlansThatChange& world, PlanWatchQueue& queue, View& view) {
  while (ReadOne(world, queue, view)) {
  }
  EXPECT_TRUE(view.synced());
  EXPECT_EQ(view.Lines(), View::LinesOf(world.plans()));
}

class PlanWatchQueueTest : public ::testing::Test {
 protected:
  void MakePlans(int count) {
    for (int i = 0; i < count; ++i) world_.Make(absl::StrCat("plans/", made_++));
  }
  // Adds all events that have happened to the queue.
  absl::Status Offer(PlanWatchQueue& queue) {
    for (const PlanEventPtr& event : world_.TakeEvents()) {
      if (absl::Status status = queue.AddEvent(event, true); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  PlansThatChange world_;
  WatchRoom room_;
  View view_;
  int made_ = 0;
};

TEST_F(PlanWatchQueueTest, MorePlansThanWaitAreMadeWhileOneIsSynced) {
  MakePlans(100);
  world_.TakeEvents();
  PlanWatchQueue queue(room_);
  for (int i = 0; i < 20; ++i) ReadOne(world_, queue, view_);  // and then it stops to read
  MakePlans(10'000);
  ASSERT_TRUE(Offer(queue).ok());
  EXPECT_LE(queue.waiting(), 1024u + kPageSize);
  ExpectExact(world_, queue, view_);
  // Only the plans that were missed were read again, and the last ones that still waited.
  EXPECT_LT(view_.told(), 100 + 10'000 + 1024 + 2 * static_cast<int64_t>(kPageSize));
}

TEST_F(PlanWatchQueueTest, WhatWasToldAndWentMeanwhileIsToldToHaveGone) {
  MakePlans(5'000);
  world_.TakeEvents();
  PlanWatchQueue queue(room_);
  for (int i = 0; i < 4'000; ++i) ReadOne(world_, queue, view_);
  for (int i = 0; i < 5'000; i += 2) world_.Delete(absl::StrCat("plans/", i));
  for (int i = 1; i < 5'000; i += 4) world_.TurnPin(absl::StrCat("plans/", i));
  for (int i = 3; i < 5'000; i += 8) world_.MoveToDisk(absl::StrCat("plans/", i));
  for (int i = 7; i < 5'000; i += 16) world_.Lose(absl::StrCat("plans/", i));
  ASSERT_TRUE(Offer(queue).ok());
  ExpectExact(world_, queue, view_);
  EXPECT_EQ(room_.left(), WatchRoom::kEvents);
}

TEST_F(PlanWatchQueueTest, PlansThatComeAndGoUntoldTakeNoRoom) {
  MakePlans(100);
  world_.TakeEvents();
  PlanWatchQueue queue(room_, {.gone = 10, .gone_alone = 0});
  ReadOne(world_, queue, view_);
  for (int i = 0; i < 50'000; ++i) {
    world_.Make(absl::StrCat("plans/brief-", i));
    world_.Lose(absl::StrCat("plans/brief-", i));
  }
  ASSERT_TRUE(Offer(queue).ok());
  EXPECT_LE(queue.waiting(), kPageSize + 10);
  ExpectExact(world_, queue, view_);
}

TEST_F(PlanWatchQueueTest, WhoReadsFasterThanPlansChangeGetsToTheEnd) {
  MakePlans(3'000);
  world_.TakeEvents();
  PlanWatchQueue queue(room_, {.waiting = 8, .restarts = 8});
  // Three events come for every four reads, about plans near to and far from the walk's place.
  for (int64_t i = 0; !view_.synced() && view_.told() < 100'000; ++i) {
    ReadOne(world_, queue, view_);
    if (i % 4 != 3) continue;
    MakePlans(1);
    world_.TurnPin(absl::StrCat("plans/", i * 7'919 % made_));
    world_.MoveToDisk(absl::StrCat("plans/", i * 104'729 % made_));
    ASSERT_TRUE(Offer(queue).ok()) << view_.told();
  }
  ExpectExact(world_, queue, view_);
}

TEST_F(PlanWatchQueueTest, WhatHappensWhileAPageIsReadIsToldAfterIt) {
  MakePlans(1);
  world_.TakeEvents();
  PlanWatchQueue queue(room_);
  ASSERT_EQ(queue.Next(), nullptr);
  PlanPage page = world_.PageAfter(queue.BeginPage(), kPageSize);
  world_.TurnPin("plans/0");
  ASSERT_TRUE(Offer(queue).ok());
  EXPECT_EQ(queue.Next(), nullptr);
  queue.AddPage(std::move(page));
  ExpectExact(world_, queue, view_);
}

TEST_F(PlanWatchQueueTest, WhatIsGoneWhileItsPageIsReadIsToldToHaveGone) {
  MakePlans(1);
  world_.TakeEvents();
  PlanWatchQueue queue(room_);
  PlanPage page = world_.PageAfter(queue.BeginPage(), kPageSize);
  world_.Delete("plans/0");
  ASSERT_TRUE(Offer(queue).ok());
  queue.AddPage(std::move(page));
  ExpectExact(world_, queue, view_);
}

// Regression: the watcher was told that a plan exists, then that it is gone, and nothing more.
TEST_F(PlanWatchQueueTest, APlanMadeAnewIsReadAfterTheFormerOneIsToldToHaveGone) {
  PlanWatchQueue queue(room_, {.waiting = 1});
  ASSERT_EQ(queue.Next(), nullptr);  // the first page is wanted, but not begun
  world_.Make("plans/anew");
  ASSERT_TRUE(Offer(queue).ok());
  view_.Apply(queue.Next()->told);
  world_.Delete("plans/anew");
  world_.Make("plans/anew");
  MakePlans(1);  // more than may wait
  ASSERT_TRUE(Offer(queue).ok());
  ASSERT_TRUE(queue.wants_page());
  queue.AddPage(world_.PageAfter(queue.BeginPage(), kPageSize));
  ExpectExact(world_, queue, view_);
}

TEST_F(PlanWatchQueueTest, OneWhoIsSyncedHearsEachStepInItsOrderOrBeginsAnew) {
  MakePlans(1);
  PlanWatchQueue queue(room_);
  ExpectExact(world_, queue, view_);
  world_.TakeEvents();
  for (int i = 0; i < 1024; ++i) world_.TurnPin("plans/0");
  const std::vector<PlanEventPtr> events = world_.TakeEvents();
  for (const PlanEventPtr& event : events) ASSERT_TRUE(queue.AddEvent(event, true).ok());
  for (const PlanEventPtr& event : {events[0], events[1]}) {
    const PlanEventPtr next = queue.Next();
    EXPECT_EQ(next, event);
    view_.Apply(next->told);
  }
  for (int i = 0; i < 3; ++i) world_.TurnPin("plans/0");
  ASSERT_TRUE(Offer(queue).ok());
  EXPECT_EQ(queue.waiting(), 0u);
  ExpectExact(world_, queue, view_);
  EXPECT_EQ(view_.resyncs(), 1);
}

// Regression: a flush of many plans ended the watch.
TEST_F(PlanWatchQueueTest, AFlushOfManyPlansIsToldByOneResync) {
  MakePlans(100'000);
  world_.TakeEvents();
  PlanWatchQueue queue(room_);
  ExpectExact(world_, queue, view_);
  for (int i = 0; i < 100'000; ++i) {
    if (i % 1'000 != 0) world_.Lose(absl::StrCat("plans/", i));  // the others are pinned
  }
  ASSERT_TRUE(Offer(queue).ok());
  EXPECT_LE(queue.waiting(), 1024u);
  EXPECT_EQ(room_.left(), WatchRoom::kEvents);
  ExpectExact(world_, queue, view_);
  EXPECT_EQ(view_.resyncs(), 1);
}

TEST_F(PlanWatchQueueTest, OneWhoNeverReadsAfterSyncedHoldsNoMoreHoweverMuchHappens) {
  MakePlans(1'000);
  world_.TakeEvents();
  PlanWatchQueue queue(room_);
  ExpectExact(world_, queue, view_);
  for (int i = 0; i < 50'000; ++i) {
    MakePlans(1);
    world_.Delete(absl::StrCat("plans/", i));
    ASSERT_TRUE(Offer(queue).ok());
    ASSERT_LE(queue.waiting(), 1025u);
  }
  EXPECT_EQ(room_.left(), WatchRoom::kEvents);
  ExpectExact(world_, queue, view_);
}

TEST_F(PlanWatchQueueTest, ManyWhoDoNotReadHoldOnlyTheNewestEventsAndTheSharedRoom) {
  constexpr size_t kWatchers = 50;
  MakePlans(500);
  world_.TakeEvents();
  WatchRoom room(1'000);
  const PlanWatchQueue::Limits limits{.waiting = 64, .gone = 400, .gone_alone = 16, .age = 2'000};
  std::vector<std::unique_ptr<PlanWatchQueue>> queues;
  std::vector<View> views(kWatchers);
  for (View& view : views) {
    queues.push_back(std::make_unique<PlanWatchQueue>(room, limits));
    for (int i = 0; i < 400; ++i) ReadOne(world_, *queues.back(), view);
  }
  std::vector<std::weak_ptr<const PlanEvent>> published;
  std::vector<bool> ended(kWatchers);
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    world_.Delete(absl::StrCat("plans/", i % 500));
    MakePlans(1);
    world_.TurnPin(absl::StrCat("plans/", random() % made_));
    for (const PlanEventPtr& event : world_.TakeEvents()) {
      published.push_back(event);
      for (size_t w = 0; w < kWatchers; ++w) {
        // Each wants others.
        const bool wanted = std::hash<std::string>()(event->told.plan().name()) % kWatchers <= w;
        if (ended[w] || queues[w]->AddEvent(event, wanted).ok()) continue;
        ended[w] = true;
        queues[w]->Clear();
      }
    }
  }
  int64_t held = 0;
  for (const auto& event : published) held += !event.expired();
  EXPECT_LE(held, 2'001 + 1'000 + 16 * static_cast<int64_t>(kWatchers));
  EXPECT_FALSE(ended[0]);  // it wants few
  EXPECT_TRUE(ended[kWatchers - 1]);
  EXPECT_LT(room.left(), 1'000);  // it is in use, and given back below
  queues.clear();
  EXPECT_EQ(room.left(), 1'000);
}

TEST_F(PlanWatchQueueTest, WhoWaitsWhileAllOthersHearOfThousandsBeginsAnew) {
  MakePlans(1);
  PlanWatchQueue queue(room_, {.age = 100});
  ExpectExact(world_, queue, view_);
  ASSERT_TRUE(Offer(queue).ok());  // one event waits
  EXPECT_EQ(queue.waiting(), 1u);
  MakePlans(101);
  for (const PlanEventPtr& event : world_.TakeEvents()) {
    ASSERT_TRUE(queue.AddEvent(event, false).ok());
  }
  EXPECT_EQ(queue.waiting(), 0u);
  ExpectExact(world_, queue, view_);
  EXPECT_EQ(view_.resyncs(), 1);
}

TEST_F(PlanWatchQueueTest, AWalkThatIsOverrunTooOftenEndsTheWatch) {
  MakePlans(64);
  world_.TakeEvents();
  PlanWatchQueue queue(room_, {.waiting = 4, .restarts = 3});
  absl::Status status;
  int rounds = 0;
  for (; status.ok() && rounds < 1'000; ++rounds) {
    for (int i = 0; i < 5; ++i) ReadOne(world_, queue, view_);
    for (int i = 0; i < 64; ++i) world_.TurnPin(absl::StrCat("plans/", i));
    status = Offer(queue);
  }
  EXPECT_EQ(GetErrorInfo(status).reason, "WATCH_TOO_SLOW");
  EXPECT_GT(rounds, 3 * 64 / 5);  // it was let through the list as often
}

TEST_F(PlanWatchQueueTest, APlanThatLeavesTheFilterIsNotToldAsItWas) {
  MakePlans(20);
  world_.TakeEvents();
  PlanWatchQueue queue(room_);
  ReadOne(world_, queue, view_);
  world_.TurnPin("plans/3");
  world_.TurnPin("plans/3");
  const auto events = world_.TakeEvents();
  ASSERT_TRUE(queue.AddEvent(events[0], true).ok());
  ASSERT_TRUE(queue.AddEvent(events[1], false).ok());
  ExpectExact(world_, queue, view_);
}

// Random events in random order, with events and pages delayed at random.
class AtRandom {
 public:
  explicit AtRandom(int seed) : random_(seed) {}

  void Run() {
    const int steps = 50 + Below(400);
    for (int step = 0; step < steps; ++step) {
      Step();
      for (PlanEventPtr& event : world_.TakeEvents()) late_.push_back(std::move(event));
    }
    DeliverPage();
    DeliverEvents(late_.size());
    ExpectExact(world_, queue_, view_);
    EXPECT_EQ(room_.left(), WatchRoom::kEvents);
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % n); }
  void Step() {
    const std::string name = absl::StrCat("plans/", Below(25));
    const int kind = Below(12);
    if (kind < 3) return world_.Make(name);
    if (kind == 3) return world_.Delete(name);
    if (kind == 4) return world_.Lose(name);
    if (kind == 5) return world_.MoveToDisk(name);
    if (kind == 6) return world_.TurnPin(name);
    if (kind == 7) return Below(20) == 0 ? world_.TurnClockBack() : void();
    if (kind == 8) return DeliverEvents(Below(6));
    if (kind == 9) return DeliverPage();
    if (const PlanEventPtr next = queue_.Next()) return view_.Apply(next->told);
    if (queue_.wants_page()) page_ = world_.PageAfter(queue_.BeginPage(), 3);
  }
  void DeliverEvents(size_t count) {
    for (; count > 0 && !late_.empty(); --count) {
      ASSERT_TRUE(queue_.AddEvent(late_.front(), true).ok());
      late_.pop_front();
      if (!view_.synced() || Below(4) == 0) continue;
      while (const PlanEventPtr next = queue_.Next()) view_.Apply(next->told);
    }
  }
  void DeliverPage() {
    if (!page_) return;
    queue_.AddPage(*std::move(page_));
    page_.reset();
  }

  std::mt19937 random_;
  PlansThatChange world_;
  WatchRoom room_;
  PlanWatchQueue queue_{room_,
                        {.waiting = static_cast<size_t>(1 + Below(6)),
                         .gone = 1'000,
                         .gone_alone = Below(3),
                         .restarts = 1 << 20,
                         .age = static_cast<uint64_t>(5 + Below(100))}};
  View view_;
  std::deque<PlanEventPtr> late_;  // published, not offered yet
  std::optional<PlanPage> page_;   // read, not added yet
};

TEST(PlanWatchQueueAtRandomTest, TheViewIsExactInTheEnd) {
  for (int seed = 0; seed < 1'000 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    AtRandom(seed).Run();
  }
}

}  // namespace
}  // namespace remesh::server
