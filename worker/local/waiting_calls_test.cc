// SPDX-License-Identifier: Apache-2.0
// Calls that wait for a host, a state or a generation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/synchronization/notification.h"
#include "worker/local/testing/local_service_fixture.h"

namespace remesh::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(LocalServiceTest, WhoWaitsForItsHostWaitsUntilItWasAttachedOnce) {
  OnStrand([this] {
    host_ = HostFacts(TwoDevices(), {.address = "planner:7070", .tls_server_name = ""});
    return true;
  });
  EXPECT_EQ(GetHost(/*wait=*/true, 50).code(), absl::StatusCode::kDeadlineExceeded);
  std::thread later([this] {
    UntilACallWaits();
    strand_.Post([this] {
      v1::Welcome welcome;
      welcome.set_cluster_uid("cluster");
      welcome.add_device_ids(6);
      welcome.add_device_ids(7);
      host_.OnWelcome(welcome);
      calls_->Welcomed();
    });
  });
  ASSERT_TRUE(GetHost(/*wait=*/true).ok());
  later.join();
  EXPECT_EQ(facts_.cluster_uid(), "cluster");
  EXPECT_TRUE(facts_.attached());
  EXPECT_EQ(facts_.devices(0).id(), 6);
  EXPECT_EQ(facts_.devices(1).id(), 7);
  OnStrand([this] {
    host_.OnDisconnected();
    return true;
  });
  ASSERT_TRUE(GetHost(/*wait=*/true).ok()) << "it has been attached";
  EXPECT_FALSE(facts_.attached());
  EXPECT_EQ(facts_.devices(1).id(), 7);
}

TEST_F(LocalServiceTest, CallsWaitForTheState) {
  std::thread later([this] {
    UntilACallWaits();
    Assign();
  });
  EXPECT_TRUE(Allocate(/*wait=*/true).ok());
  later.join();
  EXPECT_TRUE(Allocate(/*wait=*/true).ok());
  std::thread seal([this] {
    UntilACallWaits();
    v1::SealRequest request;
    request.set_state(kLocalState);
    grpc::ClientContext context;
    v1::SealResponse response;
    EXPECT_TRUE(stub_->Seal(&context, request, &response).ok());
  });
  EXPECT_TRUE(GetShards(1, /*wait=*/true).ok());
  seal.join();
  EXPECT_EQ(GetShards(2, true, 50).code(), absl::StatusCode::kDeadlineExceeded);
}

// Calls that their callers had given up were made nevertheless, ahead of the others.
TEST_F(LocalServiceTest, ACallWhoseCallerHasGoneBeforeItsTurnIsNotMade) {
  Assign();
  ASSERT_TRUE(Allocate().ok());
  absl::Notification go;
  strand_.Post([&] { go.WaitForNotification(); });
  v1::SealRequest seal;
  seal.set_state(kLocalState);
  EXPECT_EQ(Call(&v1::LocalService::Stub::Seal, seal, &seals_, 50).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(GetShards(7, /*wait=*/true, 50).code(), absl::StatusCode::kDeadlineExceeded);
  AwaitArrival();
  // The worker counted their 50 ms from their arrival.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  go.Notify();
  EXPECT_EQ(OnStrand([this] { return calls_->waiting(); }), 0);
  EXPECT_EQ(Reason(GetShards(1)), "NOT_READABLE");
}

// Each Seal, even one that was refused, looked at every waiting call.
TEST_F(LocalServiceTest, ASealLooksAtNoCallThatWaitsForSomethingElse) {
  constexpr int kWaiting = 100;
  OnStrand([this] {
    v1::AllocateRequest request;
    request.set_wait(true);
    for (int i = 0; i < kWaiting; ++i) {
      request.set_state(absl::StrCat("jobs/a/states/", i));
      calls_->Allocate(1'000'000 + i, request, getuid(), [](const auto&) {});
    }
    return 0;
  });
  EXPECT_EQ(Reason(Seal()), "STATE_NOT_FOUND");
  EXPECT_EQ(OnStrand([this] { return calls_->retries(); }), 0);
  EXPECT_EQ(OnStrand([this] { return calls_->waiting(); }), kWaiting);
  OnStrand([this] { return calls_->Close(), 0; });
}

TEST_F(LocalServiceTest, ARetiredGenerationIsRefusedAtOnce) {
  Assign();
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Seal().ok());
  ASSERT_TRUE(
      OnStrand([this] { return store_->Create(Assignment(2), v1::SHARD_PHASE_BUILDING); }).ok());
  ASSERT_TRUE(GetShards(1, /*wait=*/true).ok());  // both generations are here
  OnStrand([this] { return store_->Drop(kLocalState, 1), 0; });
  const absl::Status refused = GetShards(1, /*wait=*/true);
  EXPECT_EQ(refused.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Reason(refused), "GENERATION_RETIRED");
  EXPECT_EQ(GetErrorInfo(refused).metadata["latest_generation"], "2");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("is at generation 2"));
  // The call waits for a generation that may still come.
  EXPECT_EQ(GetShards(3, true, 50).code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(LocalServiceTest, ARetiredGenerationIsRefusedWhereTheNewOneHasNoShard) {
  v1::Assignment nothing;
  nothing.set_state(kLocalState);
  nothing.set_generation(2);
  Assign(nothing);
  EXPECT_EQ(Reason(GetShards(1, /*wait=*/true)), "GENERATION_RETIRED");
}

TEST_F(LocalServiceTest, AHostWithoutShardsIsAnsweredAtOnce) {
  v1::Assignment nothing;
  nothing.set_state(kLocalState);
  nothing.set_generation(1);
  std::thread later([&] {
    UntilACallWaits();
    Assign(nothing);
  });
  ASSERT_TRUE(Allocate(/*wait=*/true).ok());
  later.join();
  EXPECT_THAT(wanted_, ElementsAre(kLocalState));
  EXPECT_EQ(shards_.generation(), 1);
  EXPECT_TRUE(shards_.shards().empty());
  ASSERT_TRUE(Seal().ok());
  EXPECT_EQ(seals_.total_shards(), 0);
  EXPECT_EQ(Reason(Seal("w")), "SHARD_NOT_FOUND");
  // The worker made no buffers for the state and reported nothing.
  EXPECT_TRUE(store_->List().empty());
  EXPECT_TRUE(changes_.empty());
  // When the worker attaches again, the planner may report otherwise.
  strand_.Post([this] { buffers_->OnWelcome(); });
  EXPECT_EQ(Reason(Allocate()), "STATE_NOT_FOUND");
  nothing.set_committed(true);
  Assign(nothing);
  EXPECT_EQ(Reason(Allocate(/*wait=*/true)), "STATE_COMMITTED");
}

TEST_F(LocalServiceTest, WantedStatesAreReportedAgain) {
  std::thread waiting([this] { EXPECT_TRUE(Allocate(/*wait=*/true).ok()); });
  UntilACallWaits();
  strand_.Post([this] { calls_->SendWanted(); });
  Assign();
  waiting.join();
  strand_.Post([this] { calls_->SendWanted(); });  // no call waits any more
  EXPECT_THAT(OnStrand([this] { return wanted_; }), ElementsAre(kLocalState, kLocalState));
}

TEST_F(LocalServiceTest, WaitingCallsEndWithTheWorker) {
  std::thread closer([this] {
    UntilACallWaits();
    strand_.Post([this] { calls_->Close(); });
  });
  EXPECT_EQ(Reason(GetShards(1, /*wait=*/true)), "WORKER_STOPS");
  closer.join();
}

TEST_F(LocalServiceTest, NoCallWaitsBehindAnAllocate) {
  Assign();
  absl::Notification go;
  files_.Post([&] { go.WaitForNotification(); });
  std::thread allocating([this] { EXPECT_TRUE(Allocate().ok()); });
  UntilACallWaits();
  EXPECT_EQ(Reason(Seal()), "NOT_ALLOCATED");
  EXPECT_EQ(Reason(GetShards(1)), "GENERATION_NOT_FOUND");
  go.Notify();
  allocating.join();
  EXPECT_EQ(shards_.shards_size(), 3);
  EXPECT_TRUE(Seal().ok());
}

}  // namespace
}  // namespace remesh::worker
