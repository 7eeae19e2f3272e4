// SPDX-License-Identifier: Apache-2.0
#include "worker/local/local_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "base/strand.h"

namespace remesh::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kAwaited[] = "jobs/a/states/b";
constexpr uid_t kCaller = 1000, kOtherCaller = 1001, kThirdCaller = 1002;

// The calls of a host that has nothing. The test's thread is the strand.
class LocalCallsTest : public ::testing::Test {
 protected:
  using Answer = std::optional<absl::StatusOr<v1::ShardsResponse>>;

  LocalCallsTest() {
    std::string path = ::testing::TempDir() + "/remesh_calls.XXXXXX";
    directory_ = mkdtemp(path.data());
    store_ = *BufferStore::Open({.directory = directory_, .boot_id = "boot", .devices = 1});
    buffers_ = std::make_unique<StateBuffers>(
        "host-a", store_.get(), &queue_, &queue_,
        StateBuffers::Hooks{.moved_by = [](const std::string&) { return ""; },
                            .changed = [](const v1::StateManifest&) {},
                            .reserved = [](const std::string&, const absl::Status&) {}});
    Limit({});
  }
  ~LocalCallsTest() override {
    calls_->Close();
    files_.Stop();
    strand_.Stop();
    std::filesystem::remove_all(directory_);
  }

  void Limit(LocalCalls::Limits limits) {
    calls_ = std::make_unique<LocalCalls>(
        buffers_.get(), &host_, [this](const std::string& state) { wanted_.push_back(state); },
        limits);
  }
  // Assigns a generation of which this host has no shard.
  void AssignNothing(const std::string& state, int64_t generation) {
    v1::Assignment nothing;
    nothing.set_state(state);
    nothing.set_generation(generation);
    nothing.set_committed(generation > 1);
    if (buffers_->Assign(nothing)) calls_->Retry(state);
  }
  // Returns where the call's answer will be.
  std::shared_ptr<Answer> Allocate(uid_t user, const std::string& state = kAwaited) {
    v1::AllocateRequest request;
    request.set_state(state);
    request.set_wait(true);
    auto answer = std::make_shared<Answer>();
    calls_->Allocate(++last_call_, request, user, [answer](auto shards) { *answer = shards; });
    return answer;
  }
  std::shared_ptr<Answer> GetShards(int64_t generation, const std::string& state = kAwaited) {
    v1::GetShardsRequest request;
    request.set_state(state);
    request.set_generation(generation);
    request.set_wait(true);
    auto answer = std::make_shared<Answer>();
    calls_->GetShards(++last_call_, request, kCaller, [answer](auto shards) { *answer = shards; });
    return answer;
  }
  std::optional<absl::Status> GetHost() {
    v1::GetHostRequest request;
    request.set_wait(true);
    std::optional<absl::Status> end;
    calls_->GetHost(++last_call_, request, kCaller,
                    [&end](const auto& host) { end = host.status(); });
    return end;
  }
  static std::string Reason(const Answer& answer) {
    return answer ? GetErrorInfo(answer->status()).reason : "waits";
  }

  std::string directory_;
  std::unique_ptr<BufferStore> store_;
  Strand strand_, files_;
  FilesQueue queue_{&strand_, &files_};
  std::unique_ptr<StateBuffers> buffers_;
  HostFacts host_;
  std::vector<std::string> wanted_;
  LocalCalls::CallId last_call_ = 0;
  std::unique_ptr<LocalCalls> calls_;
};

TEST_F(LocalCallsTest, AUserMayHaveSoManyCallsThatWait) {
  Limit({.of_user = 2, .all = 10});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Reason(*Allocate(kCaller)), "waits");
  const auto refused = Allocate(kCaller);
  EXPECT_EQ(Reason(*refused), "WAITING_CALLS");
  EXPECT_EQ((*refused)->status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorInfo((*refused)->status()).metadata["uid"], "1000");
  EXPECT_EQ(GetErrorInfo((*refused)->status()).metadata["waiting_max"], "2");
  EXPECT_EQ(Reason(*Allocate(kOtherCaller)), "waits");
  std::optional<absl::Status> lent;
  v1::LendRequest lend;
  lend.set_state(kAwaited);
  calls_->Lend(++last_call_, lend, kCaller, [&](const auto& answer) { lent = answer.status(); });
  ASSERT_TRUE(lent.has_value());
  EXPECT_EQ(GetErrorInfo(*lent).reason, "WAITING_CALLS");
  // A call that need not wait is answered, and one that ends makes room.
  EXPECT_EQ(Reason(*GetShards(0)), "INVALID_FIELD");
  calls_->Cancel(1);
  EXPECT_EQ(Reason(*Allocate(kCaller)), "waits");
  EXPECT_EQ(Reason(*Allocate(kCaller)), "WAITING_CALLS");
}

TEST_F(LocalCallsTest, CallsThatWaitForTheHostCountAmongThoseThatWait) {
  Limit({.of_user = 1, .all = 10});
  EXPECT_EQ(Reason(*Allocate(kCaller)), "waits");
  const std::optional<absl::Status> refused = GetHost();
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(GetErrorInfo(*refused).reason, "WAITING_CALLS");
  host_.OnWelcome({});
  ASSERT_TRUE(GetHost().has_value());
}

TEST_F(LocalCallsTest, AllUsersTogetherMayHaveSoManyCallsThatWait) {
  Limit({.of_user = 2, .all = 3});
  for (const uid_t user : {kCaller, kCaller, kOtherCaller})
    EXPECT_EQ(Reason(*Allocate(user)), "waits");
  EXPECT_EQ(Reason(*Allocate(kThirdCaller)), "WAITING_CALLS");
  AssignNothing(kAwaited, 1);  // all of them are answered
  EXPECT_EQ(calls_->waiting(), 0);
  EXPECT_EQ(Reason(*Allocate(kThirdCaller, "jobs/a/states/other")), "waits");
}

TEST_F(LocalCallsTest, AChangeOfAStateAnswersTheCallsOfThatStateAlone) {
  const auto call = Allocate(kCaller), other = Allocate(kCaller, "jobs/a/states/bb"),
             earlier = Allocate(kCaller, "jobs/a/states/a");
  AssignNothing(kAwaited, 1);
  EXPECT_TRUE(call->has_value() && (*call)->ok());
  EXPECT_EQ(Reason(*other), "waits");
  EXPECT_EQ(Reason(*earlier), "waits");
  AssignNothing("jobs/a/states/bb", 1);
  EXPECT_TRUE(other->has_value() && (*other)->ok());
  EXPECT_EQ(calls_->waiting(), 1);
}

// A host without shards was sent a state's first generation that it asked for, and of no later one:
// the call waited until its deadline.
TEST_F(LocalCallsTest, AGenerationWithoutShardsHereIsAskedForUntilItIsKnown) {
  const auto first = GetShards(1), third = GetShards(3);
  EXPECT_THAT(wanted_, ElementsAre(kAwaited));
  AssignNothing(kAwaited, 1);
  ASSERT_TRUE(first->has_value() && (*first)->ok());
  EXPECT_THAT((*first)->value().shards(), IsEmpty());
  EXPECT_EQ(Reason(*third), "waits");
  calls_->AskAgain();
  EXPECT_THAT(wanted_, ElementsAre(kAwaited, kAwaited));
  AssignNothing(kAwaited, 1);  // as before
  EXPECT_EQ(Reason(*third), "waits");
  calls_->AskAgain();
  EXPECT_THAT(wanted_, ElementsAre(kAwaited, kAwaited, kAwaited));
  AssignNothing(kAwaited, 3);
  ASSERT_TRUE(third->has_value() && (*third)->ok());
  EXPECT_EQ((*third)->value().generation(), 3);
  EXPECT_THAT((*third)->value().shards(), IsEmpty());
  EXPECT_EQ(Reason(*GetShards(2)), "GENERATION_RETIRED");
  calls_->AskAgain();
  EXPECT_EQ(wanted_.size(), 3u) << "no call waits any more";
}

// The move that took this host's shards away left an empty generation.
TEST_F(LocalCallsTest, AHostWhoseShardsMovedAwayAsksForLaterGenerations) {
  v1::Assignment moved_away;
  moved_away.set_state(kAwaited);
  moved_away.set_generation(2);
  ASSERT_TRUE(store_->Create(moved_away, v1::SHARD_PHASE_READY).ok());
  const auto call = GetShards(3);
  EXPECT_EQ(Reason(*call), "waits");
  EXPECT_THAT(wanted_, ElementsAre(kAwaited));
  calls_->AskAgain();
  EXPECT_THAT(wanted_, ElementsAre(kAwaited, kAwaited));
  AssignNothing(kAwaited, 3);
  ASSERT_TRUE(call->has_value() && (*call)->ok());
  EXPECT_EQ((*call)->value().generation(), 3);
}

TEST_F(LocalCallsTest, AHostWithShardsNeedNotAskAgain) {
  v1::Assignment assignment;
  assignment.set_state(kAwaited);
  assignment.set_generation(1);
  v1::AssignedArray& array = *assignment.add_arrays();
  array.set_name("w");
  array.set_element_type("u8");
  array.add_shape(4);
  v1::Box& box = *assignment.add_shards()->mutable_box();
  box.add_lo(0);
  box.add_hi(4);
  ASSERT_TRUE(store_->Create(assignment, v1::SHARD_PHASE_BUILDING).ok());
  const auto call = GetShards(2);
  EXPECT_THAT(wanted_, ElementsAre(kAwaited));
  calls_->AskAgain();
  EXPECT_THAT(wanted_, ElementsAre(kAwaited));
}

// Regression: it gave out memory of generation 1 of a state that had moved on without it.
TEST_F(LocalCallsTest, AHostThatComesBackGivesOutMemoryOnlyOfWhatIsReportedAgain) {
  v1::Assignment first;
  first.set_state(kAwaited);
  first.set_generation(1);
  v1::AssignedArray& array = *first.add_arrays();
  array.set_name("w");
  array.set_element_type("u8");
  array.add_shape(4);
  v1::Box& box = *first.add_shards()->mutable_box();
  box.add_lo(0);
  box.add_hi(4);
  buffers_->Assign(first);
  buffers_->OnWelcome();
  const auto call = Allocate(kCaller), other = Allocate(kCaller);
  EXPECT_EQ(Reason(*call), "waits");
  EXPECT_THAT(wanted_, ElementsAre(kAwaited, kAwaited));
  EXPECT_EQ(calls_->waiting(), 2);
  AssignNothing(kAwaited, 2);
  EXPECT_EQ(Reason(*call), "STATE_COMMITTED");
  EXPECT_EQ(Reason(*other), "STATE_COMMITTED");
  EXPECT_EQ(store_->bytes(), 0);
  // The state is as it was, and the planner reports it again.
  buffers_->Assign(first);
  buffers_->OnWelcome();
  const auto later = Allocate(kCaller);
  EXPECT_EQ(Reason(*later), "waits");
  const auto go = std::make_shared<absl::Notification>();
  files_.Post([go] { go->WaitForNotification(); });
  buffers_->Assign(first);
  calls_->Retry(kAwaited);
  EXPECT_GT(store_->bytes(), 0) << "memory is being reserved";
  go->Notify();
}

TEST_F(LocalCallsTest, ManyStatesAreAskedForInTurn) {
  constexpr int kStates = LocalCalls::kAskedAtOnce + 20;
  for (int i = 0; i < kStates; ++i) GetShards(2, absl::StrCat("jobs/a/states/", i));
  wanted_.clear();
  calls_->AskAgain();
  EXPECT_EQ(wanted_.size(), size_t{LocalCalls::kAskedAtOnce});
  calls_->AskAgain();
  EXPECT_EQ(wanted_.size(), 2u * LocalCalls::kAskedAtOnce);
  EXPECT_EQ(std::set<std::string>(wanted_.begin(), wanted_.end()).size(), size_t{kStates});
}

}  // namespace
}  // namespace remesh::worker
