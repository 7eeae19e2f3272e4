// SPDX-License-Identifier: Apache-2.0
// What callers see while every planning thread is busy.
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/callers/caller.h"
#include "server/grpc/fill_stream.h"
#include "server/questions/planning_test_spec.h"
#include "server/testing/server_fixture.h"

namespace remesh::server {
namespace {

v1::PlanSpec SpecOfRows(int64_t rows) {
  v1::PlanSpec spec = TestSpec();
  spec.mutable_arrays(0)->set_shape(0, rows);
  return spec;
}

class BusyTest : public ServerFixture {
 protected:
  static constexpr int kWaitingMax = 2;

  BusyTest() {
    core_options_.planner_threads = 1;
    core_options_.waiting_max = kWaitingMax;
    StopServer();
    StartServer();
  }
  ~BusyTest() override {
    if (!free_.HasBeenNotified()) free_.Notify();
    StopServer();  // its thread may still be reading free_
  }

  // Holds every planning thread but that of executions until Free().
  void Occupy() {
    OccupyPatient();
    Hold(core_->quick_planners());
  }
  // Holds the only thread for large plans.
  void OccupyPatient() { Hold(core_->planners()); }
  void Free() { free_.Notify(); }
  // Also fills the places to wait, each with a task of another caller.
  void Fill() {
    for (const char* caller : {"a", "b"}) {
      ASSERT_TRUE(core_->planners().Post(Turn{.caller = caller}, [] {}));
      ASSERT_TRUE(core_->quick_planners().Post(Turn{.caller = caller}, [] {}));
    }
  }

  // Holds one thread of the pool.
  void Hold(ThreadPool& pool, const std::string& caller = "") {
    absl::Notification begun;
    ASSERT_TRUE(pool.Post({.caller = caller}, [this, &begun] {
      begun.Notify();
      free_.WaitForNotification();
    }));
    begun.WaitForNotification();
  }

  absl::Status ReadPlan(const v1::GetPlanRequest& request,
                        absl::Duration most = absl::Seconds(20)) {
    return Ask<v1::Plan>([&](auto* context, auto* response) {
             context->set_deadline(absl::ToChronoTime(absl::Now() + most));
             const auto stream = plans_->StreamPlan(context, request);
             while (stream->Read(response)) continue;
             return stream->Finish();
           })
        .status();
  }
  absl::Status ReadProgram(const std::string& plan) {
    v1::GetHostProgramRequest request;
    request.set_plan(plan);
    request.set_host("host-0");
    return Ask<v1::HostProgram>([&](auto* context, auto* response) {
             const auto stream = plans_->GetHostProgram(context, request);
             while (stream->Read(response)) continue;
             return stream->Finish();
           })
        .status();
  }

  // Uses a TCP channel with a fixed flow control window: an in-process channel, or one with a large
  // window, accepts everything that the server writes even if the client does not read.
  void ConnectByTcp() {
    grpc::ChannelArguments direct;
    direct.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    direct.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    plans_ = v1::PlanService::NewStub(grpc::CreateCustomChannel(
        absl::StrCat("127.0.0.1:", server_->port()), grpc::InsecureChannelCredentials(), direct));
  }

  absl::Notification free_;
};

TEST_F(BusyTest, WhatIsKnownIsAnswered) {
  const auto made = CreatePlan(SpecOfRows(8));
  ASSERT_TRUE(made.ok()) << made.status();
  Occupy();
  const auto again = CreatePlan(SpecOfRows(8));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->planning().cache(), v1::Planning::HIT);
  v1::GetPlanRequest get;
  get.set_name(made->plan().name());
  get.set_view(v1::FULL);
  EXPECT_TRUE(Ask<v1::Plan>([&](auto* c, auto* r) { return plans_->GetPlan(c, get, r); }).ok());
  const auto list =
      Ask<v1::ListPlansResponse>([&](auto* c, auto* r) { return plans_->ListPlans(c, {}, r); });
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->plans_size(), 1);
  EXPECT_TRUE(
      Ask<v1::CacheStats>([&](auto* c, auto* r) { return plans_->GetCacheStats(c, {}, r); }).ok());
  EXPECT_TRUE(Ask<v1::Topology>([&](auto* c, auto* r) {
                return workers_stub_->GetTopology(c, {}, r);
              }).ok());
}

TEST_F(BusyTest, MoreQuestionsThanMayWaitAreRefused) {
  Occupy();
  Fill();
  const absl::Status busy = CreatePlan(SpecOfRows(16)).status();
  EXPECT_EQ(busy.code(), absl::StatusCode::kResourceExhausted) << busy;
  EXPECT_EQ(GetErrorInfo(busy).reason, "PLANNER_BUSY");
}

TEST_F(BusyTest, SmallPlansDoNotWaitForLargeOnesOfAnyNumberOfCallers) {
  OccupyPatient();
  for (const char* caller : {"a", "b"}) {
    ASSERT_TRUE(core_->planners().Post(Turn{.caller = caller}, [] {}));
  }
  const auto small = CreatePlan(SpecOfRows(40));
  EXPECT_TRUE(small.ok()) << small.status();
}

TEST_F(BusyTest, StatesAreMadeWhileItIsBusy) {
  AttachWorkers();
  Occupy();
  Fill();
  const auto state = Create(MakeState(kRows));
  EXPECT_TRUE(state.ok()) << state.status();
}

TEST_F(BusyTest, ExecutionsDoNotWaitForQuestions) {
  AttachWorkers();
  CreateReadyState();
  Occupy();
  Fill();
  const auto execution = StartExecution(1, "{devices=[1,4]<=[4]}");
  EXPECT_TRUE(execution.ok()) << execution.status();
}

TEST_F(BusyTest, AMoveThatIsKnownIsAnswered) {
  AttachWorkers();
  CreateReadyState();
  AwaitEnd(StartExecution(1, "{devices=[1,4]<=[4]}")->name());
  AwaitEnd(StartExecution(2, kRows)->name());
  Occupy();
  Fill();
  v1::StartExecutionRequest request;
  request.set_state(kState);
  request.set_expected_generation(3);
  *request.mutable_targets() = MakeTargets("{devices=[1,4]<=[4]}");
  request.set_validate_only(true);
  const auto known = StartExecution(request);
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_EQ(known->planning().cache(), v1::Planning::HIT);
}

// Regression: eight callers that read plans stopped the executions of all jobs, because workers
// fetch their programs when they prepare.
TEST_F(BusyTest, HostProgramsDoNotWaitForOtherStreams) {
  const auto made = CreatePlan(SpecOfRows(8));
  ASSERT_TRUE(made.ok()) << made.status();
  for (int reader = 0; reader < core_options_.stream_threads; ++reader) {
    Hold(core_->streamers().pool(), absl::StrCat("reader ", reader));
  }
  const absl::Status status = ReadProgram(made->plan().name());
  EXPECT_TRUE(status.ok()) << status;
}

// Regression: a move of 16,384 hosts behind one address was aborted, because most of the hosts were
// refused their programs.
TEST(ProgramsTest, AsManyMayWaitAsThereMayBeHosts) {
  EXPECT_GE(Core::Options().programs_waiting_max / 4, EnrolmentRules().hosts_max);
}

// For plans and for programs; three callers that use their quarter leave threads for others, too.
TEST_F(BusyTest, ACallerHasAQuarterOfTheThreadsOfStreams) {
  for (ThreadPool* pool : {&core_->streamers().pool(), &core_->programs().pool()}) {
    for (const char* reader : {"a", "b", "c"}) {
      for (int i = 0; i < core_options_.stream_threads / 4; ++i) Hold(*pool, reader);
    }
    ASSERT_TRUE(pool->Post({.caller = "a"}, [this] { free_.WaitForNotification(); }));
    auto answered = std::make_shared<absl::Notification>();
    ASSERT_TRUE(pool->Post({.caller = "d"}, [answered] { answered->Notify(); }));
    EXPECT_TRUE(answered->WaitForNotificationWithTimeout(absl::Seconds(20)));
  }
}

// Regression: two unread streams held all threads that their caller may have, and two unread
// streams of each of four callers held all threads.
TEST_F(BusyTest, WhoDoesNotReadHoldsNoThreadOfStreams) {
  v1::PlanSpec spec = SpecOfRows(8);
  for (int i = 0; i < 6'000; ++i) {  // more than a connection buffers
    v1::ArraySpec& array = *spec.add_arrays();
    array = spec.arrays(0);
    array.set_name(absl::StrCat("array ", i));
  }
  const auto made = CreatePlan(spec);
  ASSERT_TRUE(made.ok()) << made.status();
  v1::GetPlanRequest get;
  get.set_name(made->plan().name());
  get.set_view(v1::FULL);
  ConnectByTcp();
  std::deque<grpc::ClientContext> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::Plan>>> unread;
  for (int i = 0; i < core_options_.stream_threads / 4; ++i) {
    unread.push_back(plans_->StreamPlan(&contexts.emplace_back(), get));
    unread.back()->WaitForInitialMetadata();  // it is being written
  }
  const absl::Status status = ReadPlan(get);
  EXPECT_TRUE(status.ok()) << status;
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  for (const auto& reader : unread) reader->Finish();
}

// A stream beyond StreamThreads::kOfCallerMax waits, and ends when its call is cancelled.
TEST_F(BusyTest, StreamsThatWaitForOthersOfTheirCallerEndWithTheirCall) {
  const auto made = CreatePlan(SpecOfRows(8));
  ASSERT_TRUE(made.ok()) << made.status();
  v1::GetPlanRequest get;
  get.set_name(made->plan().name());
  get.set_view(v1::FULL);
  std::deque<grpc::ClientContext> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::Plan>>> unread;
  for (size_t i = 0; i < StreamThreads::kOfCallerMax; ++i) {
    unread.push_back(plans_->StreamPlan(&contexts.emplace_back(), get));
    unread.back()->WaitForInitialMetadata();
  }
  grpc::ClientContext waiting;
  const auto waits = plans_->StreamPlan(&waiting, get);
  waiting.TryCancel();
  EXPECT_EQ(waits->Finish().error_code(), grpc::StatusCode::CANCELLED);
  contexts.front().TryCancel();
  EXPECT_EQ(unread.front()->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return ReadPlan(get).ok(); }));
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  for (size_t i = 1; i < unread.size(); ++i) unread[i]->Finish();
}

// Regression: a stream that was cancelled while it waited kept its place until its turn came.
TEST_F(BusyTest, AWaitingStreamThatIsCancelledLeavesItsPlaceToTheNext) {
  ConnectByTcp();
  const auto made = CreatePlan(SpecOfRows(8));
  ASSERT_TRUE(made.ok()) << made.status();
  v1::GetPlanRequest get;
  get.set_name(made->plan().name());
  const std::string caller = "peer 127.0.0.1";
  for (size_t i = 0; i < StreamThreads::kOfCallerMax; ++i) {
    ASSERT_TRUE(core_->streamers().Enter(caller, nullptr, [] { return true; }));
  }
  // One stream of a caller may wait here.
  const auto wait = [&] { return ReadPlan(get, absl::Milliseconds(200)).code(); };
  EXPECT_EQ(wait(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(Eventually([&] { return wait() == absl::StatusCode::kDeadlineExceeded; }));
  for (size_t i = 0; i < StreamThreads::kOfCallerMax; ++i) core_->streamers().Leave(caller);
  EXPECT_TRUE(Eventually([&] { return ReadPlan(get).ok(); }));
}

TEST_F(BusyTest, QuestionsOfCallersWhoHaveGoneAreNotPlanned) {
  Occupy();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  v1::CreatePlanRequest request;
  *request.mutable_spec() = SpecOfRows(24);
  v1::CreatePlanResponse response;
  EXPECT_EQ(plans_->CreatePlan(&context, request, &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  const auto stats = [&] {
    return Ask<v1::CacheStats>([&](auto* c, auto* r) { return plans_->GetCacheStats(c, {}, r); });
  };
  Free();
  // The thread has reached the question after the one that was given up.
  // Until then the abandoned question keeps its place in the queue.
  auto planned = CreatePlan(SpecOfRows(32));
  while (GetErrorInfo(planned.status()).reason == "PLANNER_BUSY")
    planned = CreatePlan(SpecOfRows(32));
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(stats()->computations(), 1);
}

// Regression: texts that were not read had no limit in all.
TEST(FillWithTextTest, TextsThatWaitForTheirReadersAreBounded) {
  using Piece = v1::RenderPlanResponse;
  constexpr size_t kPartBytes = size_t{1} << 20;
  KeptBytes kept(8 * kPartBytes);  // a caller may have two
  std::string got;
  const auto text_of = [&](const char* caller, size_t bytes) {
    return FillWithText<Piece>(
        kept, caller, [bytes]() -> absl::StatusOr<std::string> { return std::string(bytes, 'x'); },
        [](std::string part) {
          Piece piece;
          piece.set_text(std::move(part));
          return piece;
        });
  };
  const auto read = [&](auto& text, bool more) {
    return text([&](const Piece& piece) {
      got += piece.text();
      return more;
    });
  };
  std::optional first = text_of("a", 2 * kPartBytes);
  EXPECT_TRUE(read(*first, false).ok());
  auto second = text_of("a", kPartBytes + 1);
  EXPECT_EQ(GetErrorInfo(read(second, false)).reason, "UNREAD_ANSWERS");
  auto other = text_of("b", 2 * kPartBytes);
  EXPECT_TRUE(read(other, false).ok());
  auto small = text_of("a", kPartBytes);
  EXPECT_TRUE(read(small, false).ok());
  got.clear();
  EXPECT_TRUE(read(*first, true).ok());
  EXPECT_EQ(got.size(), kPartBytes);  // the second part
  first.reset();
  auto third = text_of("a", 2 * kPartBytes);
  EXPECT_TRUE(read(third, true).ok());
}

TEST(CallerTest, AllConnectionsOfAnAddressAreOneCaller) {
  EXPECT_EQ(AddressOfPeer("ipv4:10.0.0.7:4711"), "10.0.0.7");
  EXPECT_EQ(AddressOfPeer("ipv6:%5B2001:db8:1:2::7%5D:4711"), "2001:db8:1:2::/64");
  EXPECT_EQ(AddressOfPeer("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:80"), "2001:db8:1:2::/64");
  EXPECT_EQ(AddressOfPeer("ipv6:%5Bfe80::1%25eth0%5D:80"), "fe80::/64");
  EXPECT_EQ(AddressOfPeer("ipv6:%5B::ffff:10.0.0.7%5D:80"), "10.0.0.7");
  EXPECT_EQ(AddressOfPeer("unix:/run/remesh.sock"), "unix:/run/remesh.sock");
}

}  // namespace
}  // namespace remesh::server
