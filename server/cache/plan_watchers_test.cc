// SPDX-License-Identifier: Apache-2.0
#include "server/cache/plan_watchers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "base/error.h"

namespace remesh::server {
namespace {

struct CountsEvents : PlanWatcher {
  void OnEvent() override { ++calls; }
  void End(const absl::Status& status) override { ended = status; }
  std::atomic<int> calls = 0;
  absl::Status ended = absl::UnknownError("not ended");
};

v1::WatchPlansResponse EventOfKind(v1::WatchPlansResponse::Event kind) {
  v1::WatchPlansResponse event;
  event.set_event(kind);
  return event;
}

TEST(PlanWatchersTest, AThousandUnreadWatchersHoldOneCopyOfAnEvent) {
  PlanWatchers watchers;
  const auto watcher = std::make_shared<CountsEvents>();
  std::vector<PlanWatchers::Watch> watches;
  for (int i = 0; i < 1000; ++i) watches.push_back(watchers.Add(watcher));
  watchers.Publish(v1::WatchPlansResponse());
  const PlanEventPtr event = *watchers.Event(watches[0].next_event);
  ASSERT_NE(event, nullptr);
  for (const PlanWatchers::Watch& watch : watches) {
    EXPECT_EQ(*watchers.Event(watch.next_event), event);
  }
}

TEST(PlanWatchersTest, EventsAreReadInTheirOrderFromTheBeginOfTheWatch) {
  PlanWatchers watchers;
  const auto watcher = std::make_shared<CountsEvents>();
  watchers.Add(watcher);
  watchers.Publish(EventOfKind(v1::WatchPlansResponse::CREATED));
  const uint64_t next = watchers.Add(watcher).next_event;
  EXPECT_EQ(*watchers.Event(next), nullptr);
  watchers.Publish(EventOfKind(v1::WatchPlansResponse::PINNED));
  watchers.Publish(EventOfKind(v1::WatchPlansResponse::DELETED));
  EXPECT_EQ((*watchers.Event(next))->event(), v1::WatchPlansResponse::PINNED);
  EXPECT_EQ((*watchers.Event(next + 1))->event(), v1::WatchPlansResponse::DELETED);
  EXPECT_EQ(*watchers.Event(next + 2), nullptr);
}

TEST(PlanWatchersTest, OnlyTheNewestEventsAreKeptHoweverFewAreRead) {
  PlanWatchers watchers(/*kept=*/4);
  const uint64_t next = watchers.Add(std::make_shared<CountsEvents>()).next_event;
  std::vector<std::weak_ptr<const v1::WatchPlansResponse>> published;
  for (uint64_t i = 0; i < 1000; ++i) {
    watchers.Publish(v1::WatchPlansResponse());
    published.push_back(*watchers.Event(next + i));
  }
  int held = 0;
  for (const auto& event : published) held += event.expired() ? 0 : 1;
  EXPECT_EQ(held, 4);
  EXPECT_TRUE(watchers.Event(next + 996).ok());
  const absl::Status status = watchers.Event(next + 995).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorInfo(status).reason, "WATCH_TOO_SLOW");
  EXPECT_EQ(GetErrorInfo(status).metadata.at("events_max"), "4");
}

TEST(PlanWatchersTest, NoEventIsKeptWhenTheLastWatcherHasGone) {
  PlanWatchers watchers;
  const PlanWatchers::Watch watch = watchers.Add(std::make_shared<CountsEvents>());
  watchers.Publish(v1::WatchPlansResponse());
  const std::weak_ptr<const v1::WatchPlansResponse> event = *watchers.Event(watch.next_event);
  watchers.Remove(watch.id);
  watchers.EndAll(absl::OkStatus());  // the strand has done the above by then
  EXPECT_TRUE(event.expired());
  EXPECT_FALSE(watchers.any());
}

TEST(PlanWatchersTest, WatchersAreCalledForEachEventAndAtTheEnd) {
  PlanWatchers watchers;
  const auto watcher = std::make_shared<CountsEvents>();
  watchers.Add(watcher);
  watchers.Publish(v1::WatchPlansResponse());
  watchers.EndAll(absl::AbortedError("the end"));
  EXPECT_GE(watcher->calls, 1);
  EXPECT_EQ(watcher->ended.message(), "the end");
  const auto late = std::make_shared<CountsEvents>();
  watchers.Add(late);
  watchers.EndAll(absl::OkStatus());
  EXPECT_EQ(late->ended.message(), "the end");
}

}  // namespace
}  // namespace remesh::server
