// SPDX-License-Identifier: Apache-2.0
#include "server/cache/plan_watchers.h"

#include <gtest/gtest.h>

#include <vector>

namespace remesh::server {
namespace {

struct Recorder : PlanWatcher {
  void Offer(const PlanEventPtr& event) override { events.push_back(event); }
  void End(const absl::Status&) override {}
  std::vector<PlanEventPtr> events;
};

TEST(PlanWatchersTest, AThousandUnreadWatchersHoldOneCopyOfAnEvent) {
  PlanWatchers watchers;
  std::vector<std::shared_ptr<Recorder>> recorders(1000);
  for (auto& recorder : recorders) {
    recorder = std::make_shared<Recorder>();
    watchers.Add(recorder);
  }
  watchers.Publish(v1::WatchPlansResponse());
  watchers.EndAll(absl::OkStatus());  // all has been told then
  for (const auto& recorder : recorders) {
    ASSERT_EQ(recorder->events.size(), 1u);
    EXPECT_EQ(recorder->events[0], recorders[0]->events[0]);
  }
}

}  // namespace
}  // namespace remesh::server
