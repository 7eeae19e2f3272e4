// SPDX-License-Identifier: Apache-2.0
#include "server/planning/plan_desk.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "server/questions/create_plan.h"
#include "server/questions/planning_test_spec.h"

namespace remesh::server {

using planner::Budget;

namespace {

using Answer = absl::StatusOr<PlanCache::Answer>;

// The test sets time and memory; `on_look_` runs whenever a budget reads the time.
class PlanDeskTest : public ::testing::Test {
 protected:
  static constexpr int kQuantum = 100;  // milliseconds, of both kinds of quick threads

  // Without `quick_pairs_max` every question is a large one.
  explicit PlanDeskTest(int64_t quick_pairs_max = 0)
      : desk_(cache_, {lookups_, long_lookups_, absl::Milliseconds(kQuantum)},
              {quick_planners_, planners_, absl::Milliseconds(kQuantum)},
              {.quick_pairs_max = quick_pairs_max,
               .now =
                   [this] {
                     Look();
                     return std::chrono::milliseconds(milliseconds_.load());
                   },
               .held_bytes = [this] { return held_.load(); }}) {}
  ~PlanDeskTest() override {
    if (!release_->HasBeenNotified()) release_->Notify();
    desk_.Stop();
    for (ThreadPool* pool : {&quick_planners_, &planners_, &lookups_, &long_lookups_}) pool->Stop();
  }

  struct Pending {
    absl::Notification done;
    Answer answer = absl::UnknownError("");
  };
  using PendingPtr = std::shared_ptr<Pending>;

  // Another question for each number of rows.
  PendingPtr Ask(int64_t rows, const std::string& caller = "a",
                 std::function<bool()> gone = nullptr) {
    auto pending = std::make_shared<Pending>();
    desk_.Find(
        {.turn = {.caller = caller}, .gone = std::move(gone)},
        [rows](Budget& budget) {
          v1::CreatePlanRequest request;
          *request.mutable_spec() = TestSpec();
          request.mutable_spec()->mutable_arrays(0)->set_shape(0, rows);
          return QuestionOf(request, nullptr, budget);
        },
        [pending](Answer answer) {
          pending->answer = std::move(answer);
          pending->done.Notify();
        });
    return pending;
  }
  // Both threads of `planners_`, for two callers, until release_.
  void HoldPlanners() {
    for (const char* caller : {"a", "b"}) {
      absl::Notification begun;
      planners_.Post({.caller = caller}, [&begun, release = release_] {
        begun.Notify();
        release->WaitForNotification();
      });
      begun.WaitForNotification();
    }
  }
  static Answer Wait(const PendingPtr& pending) {
    pending->done.WaitForNotification();
    return pending->answer;
  }
  // Once a planning thread is at work.
  void OnPlanning(std::function<void()> then) {
    absl::MutexLock lock(&mutex_);
    on_planning_ = std::move(then);
  }

  const std::shared_ptr<absl::Notification> release_ = std::make_shared<absl::Notification>();
  std::atomic<int64_t> milliseconds_{0};
  std::atomic<int64_t> held_{0};
  PlanCache cache_{1 << 30};
  ThreadPool lookups_{2, 100};
  ThreadPool long_lookups_{1, 100};
  ThreadPool quick_planners_{1, 100};
  ThreadPool planners_{{.threads = 2, .waiting_max = 100, .fair = true}};
  PlanDesk desk_;

 private:
  // A budget looks at the time when it begins, and later. That of planning begins after a miss.
  void Look() {
    std::function<void()> then;
    {
      absl::MutexLock lock(&mutex_);
      looks_ += cache_.stats().memory().misses() > 0;
      if (looks_ >= 2) then = std::exchange(on_planning_, nullptr);
    }
    if (then != nullptr) then();
  }

  absl::Mutex mutex_;
  int looks_ ABSL_GUARDED_BY(mutex_) = 0;  // of planning
  std::function<void()> on_planning_ ABSL_GUARDED_BY(mutex_);
};

// Regression: a library's exception ended the process.
TEST_F(PlanDeskTest, AFaultIsAnswered) {
  absl::Status status;
  absl::Notification ended;
  desk_.Run(
      {.turn = {.caller = "a"}, .gone = nullptr},
      [](Budget&) -> absl::Status { throw std::out_of_range("no such key"); },
      [&](absl::Status end) {
        status = std::move(end);
        ended.Notify();
      });
  ended.WaitForNotification();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
}

// Regression: the same on the threads that plan.
TEST_F(PlanDeskTest, AFaultWhilePlanningIsAnswered) {
  OnPlanning([] { throw std::bad_alloc(); });
  EXPECT_TRUE(absl::IsInternal(Wait(Ask(8)).status()));
  OnPlanning(nullptr);
  EXPECT_TRUE(Wait(Ask(8)).ok());
}

TEST_F(PlanDeskTest, PlanningThatTakesTooLongNamesTheLimit) {
  OnPlanning([this] { milliseconds_ += 60'001; });
  const Answer answer = Wait(Ask(8));
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kDeadlineExceeded) << answer.status();
  EXPECT_EQ(GetErrorInfo(answer.status()).reason, "PLANNING_TIMEOUT");
  EXPECT_EQ(GetErrorInfo(answer.status()).metadata["planning_timeout"], "1m");
  EXPECT_TRUE(Wait(Ask(8)).ok()) << "the next has its own time";
}

TEST_F(PlanDeskTest, PlanningThatTakesTooMuchMemoryNamesTheLimit) {
  OnPlanning([this] { held_ = (int64_t{1} << 30) + 1; });
  const Answer answer = Wait(Ask(8));
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kResourceExhausted) << answer.status();
  EXPECT_EQ(GetErrorInfo(answer.status()).reason, "PLANNING_MEMORY");
  EXPECT_EQ(GetErrorInfo(answer.status()).metadata["planning_memory_limit"], "1073741824");
  EXPECT_TRUE(Wait(Ask(8)).ok()) << "what is held before does not count";
}

// Regression: a refusal of one caller also refused all callers that waited with an equal question.
TEST_F(PlanDeskTest, WhoMayNotWaitTakesNoOtherCallersPlace) {
  HoldPlanners();
  while (planners_.Post({.caller = "greedy"}, [] {})) continue;
  const PendingPtr modest = Ask(8, "modest");
  while (cache_.stats().memory().misses() == 0) std::this_thread::yield();  // it is about to wait
  const Answer refused = Wait(Ask(8, "greedy"));
  EXPECT_EQ(GetErrorInfo(refused.status()).reason, "PLANNER_BUSY") << refused.status();
  release_->Notify();
  const Answer answer = Wait(modest);
  EXPECT_TRUE(answer.ok()) << answer.status();
}

TEST_F(PlanDeskTest, PlanningEndsWhenAllCallersHaveGone) {
  std::atomic<bool> gone{false};
  OnPlanning([&] {
    gone = true;
    milliseconds_ += 1000;  // callers are looked at now and then
  });
  EXPECT_TRUE(absl::IsCancelled(Wait(Ask(8, "a", [&] { return gone.load(); })).status()));
  EXPECT_EQ(cache_.stats().computations(), 0);
}

TEST_F(PlanDeskTest, OneCallerWhoStaysKeepsThePlanOfOthersWhoHaveGone) {
  std::atomic<bool> gone{false};
  PendingPtr second;
  OnPlanning([&] {
    second = Ask(8, "b");
    while (cache_.stats().single_flight_waits() == 0) std::this_thread::yield();
    gone = true;
    milliseconds_ += 1000;
  });
  const PendingPtr first = Ask(8, "a", [&] { return gone.load(); });
  first->done.WaitForNotification();
  EXPECT_TRUE(Wait(second).ok()) << Wait(second).status();
  EXPECT_EQ(cache_.stats().computations(), 1);
}

TEST_F(PlanDeskTest, OneCallerLeavesAThreadToOthers) {
  absl::Notification begun;
  OnPlanning([&begun, release = release_] {
    begun.Notify();
    release->WaitForNotification();
  });
  const PendingPtr slow = Ask(8, "a");
  begun.WaitForNotification();
  const PendingPtr next = Ask(16, "a");
  EXPECT_TRUE(Wait(Ask(24, "b")).ok());
  EXPECT_FALSE(slow->done.HasBeenNotified());
  EXPECT_FALSE(next->done.HasBeenNotified());
  release_->Notify();
  EXPECT_TRUE(Wait(slow).ok());
  EXPECT_TRUE(Wait(next).ok());
}

TEST_F(PlanDeskTest, WhatIsKeptDoesNotWaitForPlanning) {
  ASSERT_TRUE(Wait(Ask(8)).ok());
  HoldPlanners();
  const Answer answer = Wait(Ask(8));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->cache, v1::Planning::HIT);
  release_->Notify();
}

TEST_F(PlanDeskTest, WhatCannotWaitIsRefused) {
  planners_.Stop();
  lookups_.Stop();
  EXPECT_EQ(GetErrorInfo(Wait(Ask(8)).status()).reason, "SHUTTING_DOWN");
}

TEST_F(PlanDeskTest, ALookupThatOverstaysBeginsAgainElsewhere) {
  std::atomic<int> asked{0};
  absl::Notification done;
  Answer found = absl::UnknownError("");
  desk_.Find(
      {.turn = {.caller = "a"}, .gone = nullptr},
      [&](Budget& budget) -> absl::StatusOr<PlanCache::Question> {
        if (++asked == 1) milliseconds_ += kQuantum + 1;
        if (!budget.Check().ok()) return budget.Check();
        v1::CreatePlanRequest request;
        *request.mutable_spec() = TestSpec();
        return QuestionOf(request, nullptr, budget);
      },
      [&](Answer answer) {
        found = std::move(answer);
        done.Notify();
      });
  done.WaitForNotification();
  EXPECT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(asked, 2);
}

TEST_F(PlanDeskTest, OtherWorkHasTheSameLimits) {
  absl::Notification done;
  absl::Status ended;
  desk_.Run(
      {.turn = {.caller = "a"}, .gone = nullptr},
      [&](Budget& budget) {
        milliseconds_ += 60'001;
        return budget.Check();
      },
      [&](absl::Status status) {
        ended = std::move(status);
        done.Notify();
      });
  done.WaitForNotification();
  EXPECT_EQ(GetErrorInfo(ended).reason, "PLANNING_TIMEOUT") << ended;
}

// Questions are small here.
class QuickPlanningTest : public PlanDeskTest {
 protected:
  QuickPlanningTest() : PlanDeskTest(1'000) {}
};

TEST_F(QuickPlanningTest, SmallPlansDoNotWaitForLargeOnesOfAnyNumberOfCallers) {
  HoldPlanners();
  for (const char* caller : {"c", "d", "e"}) planners_.Post({.caller = caller}, [] {});
  EXPECT_TRUE(Wait(Ask(8, "z")).ok());
  EXPECT_FALSE(release_->HasBeenNotified());
}

TEST_F(QuickPlanningTest, WhatOverstaysMakesWayAndBeginsAgain) {
  HoldPlanners();
  absl::Notification overstayed;
  OnPlanning([&] {
    milliseconds_ += kQuantum + 1;
    overstayed.Notify();
  });
  const PendingPtr slow = Ask(8, "c");
  overstayed.WaitForNotification();
  EXPECT_TRUE(Wait(Ask(16, "z")).ok()) << "the only quick thread is free again";
  EXPECT_FALSE(slow->done.HasBeenNotified());
  release_->Notify();
  EXPECT_TRUE(Wait(slow).ok()) << Wait(slow).status();
  EXPECT_EQ(cache_.stats().computations(), 2);
}

TEST_F(QuickPlanningTest, EqualQuestionsThatOverstayArePlannedOnce) {
  PendingPtr second;
  OnPlanning([&] {
    second = Ask(8, "b");
    while (cache_.stats().single_flight_waits() == 0) std::this_thread::yield();
    milliseconds_ += kQuantum + 1;
  });
  EXPECT_TRUE(Wait(Ask(8, "a")).ok());
  EXPECT_TRUE(Wait(second).ok()) << Wait(second).status();
  EXPECT_EQ(cache_.stats().computations(), 1);
}

TEST(PlanningBudgetTest, WhatAThreadTakesFromTheHeapIsCounted) {
  const int64_t before = HeapBytesOfThread();
  auto block = std::make_unique<std::vector<char>>(1 << 20);
  const int64_t held = HeapBytesOfThread() - before;
  if (held == 0) GTEST_SKIP() << "a sanitizer owns the heap";
  EXPECT_GE(held, 1 << 20);
  EXPECT_LE(held, 2 << 20);
  block = nullptr;
  EXPECT_EQ(HeapBytesOfThread(), before);
}

}  // namespace
}  // namespace remesh::server
