// SPDX-License-Identifier: Apache-2.0
//
// Executions: starts, waits over restarts, progress, predictions.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/testing/fake_plan_service.h"
#include "client/testing/fake_server.h"
#include "client/testing/remeshctl.h"
#include "remesh/v1/reshard.grpc.pb.h"
#include "service/testing/port_holder.h"

namespace remesh::client {
namespace {

using testing::HasSubstr;

// An execution whose first watch ends as with a server that stops, after it was silent for a while
// or when the server does stop.
class FakeReshardService : public v1::ReshardService::Service {
  grpc::Status WatchExecution(grpc::ServerContext* context,
                              const v1::WatchExecutionRequest* request,
                              grpc::ServerWriter<v1::Execution>* writer) override {
    const bool first = watches_++ == 0;
    v1::Execution execution;
    execution.set_name(request->name());
    execution.set_phase(first ? v1::Execution::TRANSFERRING : v1::Execution::SUCCEEDED);
    writer->Write(execution);
    if (!first) return grpc::Status::OK;
    for (int i = 0; i < kSilenceMs / 10 && !context->IsCancelled(); ++i) Sleep(10);
    return {grpc::StatusCode::UNAVAILABLE, "stops"};
  }

  // The deadline, as the id of the execution.
  grpc::Status StartExecution(grpc::ServerContext*, const v1::StartExecutionRequest* request,
                              v1::Execution* execution) override {
    execution->set_name(absl::StrCat("jobs/j/executions/", request->deadline().seconds(), "s",
                                     request->deadline().nanos(), "ns"));
    return grpc::Status::OK;
  }

 public:
  std::atomic<int> watches_ = 0;
};

// Regression: gRPC connected only every 5 s, because no call waited in it between the tries.
TEST(RemeshctlServerTest, AWaitFindsARestartedServerSoon) {
  FakeReshardService service;
  auto server = std::make_unique<FakeServer>(service);
  const std::string address = server->address();
  const service::PortHolder port(server->port());
  std::thread restarts([&] {
    while (service.watches_ == 0) Sleep(10);
    port.Listen();
    server.reset();
    port.RefuseOne();
    server = std::make_unique<FakeServer>(service, address);
  });
  const Result r = Remeshctl(
      "executions watch jobs/j/executions/e -o json --call-timeout 4 --server " + address);
  restarts.join();
  EXPECT_EQ(r.code, 0) << r.err;
}

// Regression: what was shorter than a millisecond became 0, the default of five minutes.
TEST(RemeshctlServerTest, ADeadlineKeepsItsNanoseconds) {
  FakeReshardService service;
  const FakeServer server(service);
  for (const auto& [given, sent] : std::vector<std::pair<const char*, const char*>>{
           {"1e-6", "0s1000ns"}, {"1e-9", "0s1ns"}, {"2.0000005", "2s500ns"}}) {
    const Result r = Remeshctl(absl::StrCat(
        "reshard jobs/j/states/s --plan plans/p --generation 1 --no-wait -o name --deadline ",
        given, " --server ", server.address()));
    EXPECT_EQ(r.out, absl::StrCat("jobs/j/executions/", sent, "\n")) << r.err;
  }
}

// Regression: the silence of a long move counted as absence, so the first restart ended the wait.
TEST(RemeshctlServerTest, AWaitRidesOverARestartAfterALongSilence) {
  FakeReshardService service;
  const FakeServer server(service);
  const Result r = Remeshctl(absl::StrCat(
      "executions watch jobs/j/executions/e -o json --call-timeout 2 --server ", server.address()));
  EXPECT_EQ(r.code, 0) << r.err;
}

// An execution that moves, with host-b behind, until the call is cancelled.
class EndlessMove : public v1::ReshardService::Service {
  grpc::Status WatchExecution(grpc::ServerContext* context,
                              const v1::WatchExecutionRequest* request,
                              grpc::ServerWriter<v1::Execution>* writer) override {
    writer->Write(Now(request->name()));
    while (!context->IsCancelled()) Sleep(10);
    return grpc::Status::CANCELLED;
  }
  grpc::Status GetExecution(grpc::ServerContext*, const v1::GetExecutionRequest* request,
                            v1::Execution* execution) override {
    *execution = Now(request->name());
    return grpc::Status::OK;
  }
  grpc::Status CancelExecution(grpc::ServerContext*, const v1::CancelExecutionRequest* request,
                               v1::Execution* execution) override {
    *execution = Now(request->name());
    return grpc::Status::OK;
  }
  static v1::Execution Now(const std::string& name) {
    v1::Execution execution;
    execution.set_name(name);
    execution.set_phase(v1::Execution::TRANSFERRING);
    execution.set_target_generation(2);
    execution.set_windows(10);
    for (const auto& [host, done] : {std::pair("host-a", 8), std::pair("host-b", 2)}) {
      v1::HostProgress& progress = *execution.add_hosts();
      progress.set_host(host);
      progress.set_windows_done(done);
      progress.set_received_bytes(1000);
    }
    return execution;
  }
};

// Regression: the bound of a call ended no wait, so a script could not bound one.
TEST(RemeshctlServerTest, ATimeoutBoundsTheWaitAndTheMoveGoesOn) {
  EndlessMove service;
  const FakeServer server(service);
  const Result r =
      Remeshctl("executions watch jobs/j/executions/e --timeout 0.5 --server " + server.address());
  EXPECT_EQ(r.code, 3) << r.err;
  EXPECT_THAT(r.err, HasSubstr("no longer waiting: 0.5 s have passed (--timeout)"));
  EXPECT_THAT(r.err, HasSubstr("jobs/j/executions/e may still run: see remeshctl executions get"));
}

// Regression: without a terminal a wait said nothing until its end.
TEST(RemeshctlServerTest, AWaitWithoutATerminalSaysHowFarItIs) {
  EndlessMove service;
  const FakeServer server(service);
  const Result r =
      Remeshctl("executions watch jobs/j/executions/e --timeout 8 --server " + server.address());
  EXPECT_EQ(r.code, 3) << r.err;
  EXPECT_THAT(r.err, HasSubstr("transferring  50 %  2.00 kB  behind: host-b (2 of 10 windows)\n"));
}

TEST(RemeshctlServerTest, AnExecutionShowsHowFarItIsAndWhoIsBehind) {
  EndlessMove service;
  const FakeServer server(service);
  const Result r = Remeshctl("executions get jobs/j/executions/e --server " + server.address());
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, testing::ContainsRegex("done +50 %\n"));
  EXPECT_THAT(r.out, testing::ContainsRegex("behind +host-b .2 of 10 windows.\n"));
}

// Regression: the answer looked as if nothing had been done.
TEST(RemeshctlServerTest, ACancelSaysThatItIsUnderWay) {
  EndlessMove service;
  const FakeServer server(service);
  const Result r = Remeshctl("executions cancel jobs/j/executions/e --server " + server.address());
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err,
            "cancelling jobs/j/executions/e; its end: remeshctl executions watch "
            "jobs/j/executions/e\n");
}

// A move that took far longer than was predicted.
class FinishedMove : public v1::ReshardService::Service {
  grpc::Status GetExecution(grpc::ServerContext*, const v1::GetExecutionRequest* request,
                            v1::Execution* execution) override {
    execution->set_name(request->name());
    execution->set_phase(v1::Execution::SUCCEEDED);
    execution->set_target_generation(2);
    execution->set_predicted_seconds(0.0215);
    execution->mutable_planning()->set_hosts_assumed(1);
    execution->mutable_transfer_start_time()->set_seconds(100);
    execution->mutable_transfer_end_time()->set_seconds(101);
    execution->mutable_transfer_end_time()->set_nanos(270'000'000);
    return grpc::Status::OK;
  }
};

// Regression: nothing told that the prediction was for another network.
TEST(RemeshctlServerTest, AMoveIsComparedWithItsPrediction) {
  FinishedMove service;
  const FakeServer server(service);
  const Result r = Remeshctl("executions get jobs/j/executions/e --server " + server.address());
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("predicted 21.5 ms, took 1.27 s, 59 x\n"));
  EXPECT_THAT(r.out, HasSubstr("far slower than predicted: compare the capacities"));
}

// Regression: nothing but the JSON told that a prediction is for capacities that were not given.
TEST(RemeshctlServerTest, AssumedCapacitiesAreShownWithThePrediction) {
  FinishedMove moves;
  const FakeServer of_moves(moves);
  const Result move =
      Remeshctl("executions get jobs/j/executions/e --server " + of_moves.address());
  EXPECT_THAT(move.out, testing::ContainsRegex("capacities +assumed for 1 host, so"));
  FakePlanService plans;
  const FakeServer of_plans(plans);
  const Result plan =
      Remeshctl(absl::StrCat("plan -f ", kExample, " --server ", of_plans.address()));
  EXPECT_THAT(plan.out, testing::ContainsRegex("capacities +assumed for 2 hosts, so"));
  const Result kept = Remeshctl("plans get plans/x --server " + of_plans.address());
  EXPECT_THAT(kept.out, testing::ContainsRegex("capacities +assumed for 3 hosts, so"));
  const Result here = Remeshctl(absl::StrCat("plan --here -f ", kExample));
  EXPECT_EQ(here.out.find("assumed"), std::string::npos) << here.out;
}

}  // namespace
}  // namespace remesh::client
