// SPDX-License-Identifier: Apache-2.0
#include "server/server.h"

#include <grpcpp/create_channel.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/controller/values/names.h"
#include "server/testing/server_fixture.h"

namespace remesh::server {
namespace {

using Command = v1::AttachResponse;

class ServerTest : public ServerFixture {};

TEST_F(ServerTest, AStateMovesAndItsPlanIsFoundAgain) {
  AttachWorkers();
  CreateReadyState(kRows);
  const auto started = StartExecution(1, kColumns);
  ASSERT_TRUE(started.ok()) << started.status();
  const v1::Execution ended = AwaitEnd(started->name());
  EXPECT_EQ(ended.phase(), v1::Execution::SUCCEEDED) << ended.DebugString();
  EXPECT_EQ(ended.planning().cache(), v1::Planning::MISS);
  EXPECT_GT(ended.windows(), 0);
  EXPECT_EQ(ended.summary().total_bytes(), 256);
  ASSERT_EQ(ended.hosts_size(), 2);
  EXPECT_EQ(ended.hosts(0).windows_done(), ended.windows());
  for (const auto& worker : workers_) {
    EXPECT_TRUE(worker->Await(Command::kRetire, 1));
    EXPECT_GT(worker->operations(), 0);
  }
  auto state = GetState();
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->generation(), 2);
  EXPECT_EQ(state->phase(), v1::State::READY);
  EXPECT_EQ(state->spec().arrays(0).sharding().hlo_text(), kColumns);

  EXPECT_EQ(AwaitEnd(StartExecution(2, kRows)->name()).phase(), v1::Execution::SUCCEEDED);
  const v1::Execution again = AwaitEnd(StartExecution(3, kColumns)->name());
  EXPECT_EQ(again.phase(), v1::Execution::SUCCEEDED);
  EXPECT_EQ(again.planning().cache(), v1::Planning::HIT);
}

TEST_F(ServerTest, StatesGenerationsAndExecutionsSurviveARestart) {
  AttachWorkers();
  CreateReadyState(kRows);
  const v1::Execution ended = AwaitEnd(StartExecution(1, kColumns)->name());
  const v1::State before = *GetState();
  StopServer();
  StartServer();
  EXPECT_EQ(GetState()->phase(), v1::State::LOST);
  EXPECT_EQ(GetState()->lost_hosts_size(), 2);
  AttachWorkers();
  AwaitPhase(v1::State::READY);
  EXPECT_EQ(GetState()->SerializeAsString(), before.SerializeAsString());
  EXPECT_EQ(GetExecution(ended.name())->phase(), v1::Execution::SUCCEEDED);
  EXPECT_EQ(AwaitEnd(StartExecution(2, kRows)->name()).phase(), v1::Execution::SUCCEEDED);
}

TEST_F(ServerTest, AWorkerKilledInMidTransferFailsTheExecutionAndKeepsTheSource) {
  AttachWorkers([](ScriptedWorker&, const Command& command) {
    return command.has_grant();
  });  // moves nothing
  CreateReadyState(kRows);
  const auto started = StartExecution(1, kColumns);
  ASSERT_TRUE(started.ok()) << started.status();
  ASSERT_TRUE(workers_[0]->Await(Command::kGrant, 1));
  workers_[1]->Kill();
  const v1::Execution ended = AwaitEnd(started->name());
  EXPECT_EQ(ended.phase(), v1::Execution::FAILED);
  EXPECT_EQ(GetErrorInfo(service::StatusFromProto(ended.error())).reason, "WORKER_LOST");
  EXPECT_EQ(workers_[0]->CommandCount(Command::kAbort), 1);
  EXPECT_EQ(GetState()->phase(), v1::State::LOST);
  EXPECT_EQ(GetState()->generation(), 1);
  AttachWorkers();
  AwaitPhase(v1::State::READY);
  EXPECT_EQ(AwaitEnd(StartExecution(1, kColumns)->name()).phase(), v1::Execution::SUCCEEDED);
}

TEST_F(ServerTest, CancelEndsAnExecutionBeforeItsCommit) {
  AttachWorkers([](ScriptedWorker&, const Command& command) { return command.has_grant(); });
  CreateReadyState(kRows);
  const v1::Execution started = *StartExecution(1, kColumns);
  ASSERT_TRUE(workers_[0]->Await(Command::kGrant, 1));
  EXPECT_EQ(GetErrorInfo(StartExecution(1, kColumns).status()).reason, "STATE_MOVING");
  v1::CancelExecutionRequest request;
  request.set_name(started.name());
  const auto cancel = [&] {
    return Ask<v1::Execution>(
        [&](auto* c, auto* r) { return reshards_->CancelExecution(c, request, r); });
  };
  ASSERT_TRUE(cancel().ok());
  EXPECT_EQ(AwaitEnd(started.name()).phase(), v1::Execution::CANCELLED);
  EXPECT_EQ(GetErrorInfo(cancel().status()).reason, "EXECUTION_ENDED");
  EXPECT_EQ(GetState()->phase(), v1::State::READY);
}

TEST_F(ServerTest, AReadyStateKeepsItsStep) {
  AttachWorkers();
  CreateReadyState(kRows);
  const v1::State state = *GetState();
  v1::UpdateStateRequest request;
  request.set_name(state.name());
  request.set_uid(state.uid());
  request.set_step(state.step());
  const auto update = [&] {
    return Ask<v1::UpdateStateResponse>(
        [&](auto* c, auto* r) { return states_->UpdateState(c, request, r); });
  };
  EXPECT_EQ(update()->state().uid(), state.uid());
  request.set_step(state.step() + 1);
  EXPECT_EQ(GetErrorInfo(update().status()).reason, "STATE_COMMITTED");
  request.clear_uid();
  EXPECT_EQ(GetErrorInfo(update().status()).metadata["field"], "uid");
  EXPECT_EQ(GetState()->step(), state.step());
}

TEST_F(ServerTest, WatchesSendTheLastPhaseAndEnd) {
  AttachWorkers();
  CreateReadyState(kRows);
  const v1::Execution started = *StartExecution(1, kColumns);
  grpc::ClientContext context;
  v1::WatchExecutionRequest request;
  request.set_name(started.name());
  auto reader = reshards_->WatchExecution(&context, request);
  v1::Execution seen;
  while (reader->Read(&seen)) {
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(seen.phase(), v1::Execution::SUCCEEDED);
}

TEST_F(ServerTest, AWatchOfTheWrongKindIsRefusedAndTheServerLives) {
  AttachWorkers();
  CreateReadyState(kRows);
  const v1::Execution moved = AwaitEnd(StartExecution(1, kColumns)->name());
  grpc::ClientContext execution_context, state_context;
  v1::WatchExecutionRequest watch_execution;
  watch_execution.set_name(kState);
  v1::Execution execution;
  auto executions = reshards_->WatchExecution(&execution_context, watch_execution);
  EXPECT_FALSE(executions->Read(&execution));
  const grpc::Status execution_end = executions->Finish();
  EXPECT_EQ(execution_end.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(GetErrorInfo(service::StatusFromGrpc(execution_end)).metadata["field"], "name");
  v1::WatchStateRequest watch_state;
  watch_state.set_name(moved.name());
  v1::State state;
  auto states = states_->WatchState(&state_context, watch_state);
  EXPECT_FALSE(states->Read(&state));
  EXPECT_EQ(states->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(GetState()->phase(), v1::State::READY);
}

TEST_F(ServerTest, AWatchedStateThatIsDeletedEndsTheWatch) {
  AttachWorkers();
  CreateReadyState(kRows);
  grpc::ClientContext context;
  v1::WatchStateRequest request;
  request.set_name(kState);
  auto reader = states_->WatchState(&context, request);
  v1::State seen;
  ASSERT_TRUE(reader->Read(&seen));
  EXPECT_EQ(seen.phase(), v1::State::READY);
  v1::DeleteStateRequest remove;
  remove.set_name(kState);
  EXPECT_TRUE(Ask<v1::DeleteStateResponse>([&](auto* c, auto* r) {
                return states_->DeleteState(c, remove, r);
              }).ok());
  while (reader->Read(&seen)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
  for (const auto& worker : workers_) EXPECT_TRUE(worker->Await(Command::kForgetState, 1));
}

TEST_F(ServerTest, ANewerLifeOfAWorkerEndsTheOlderOnesStream) {
  AttachWorkers();
  ScriptedWorker newer(channel_, WorkerIdentity("a", 0, 2, 2));
  const grpc::Status end = workers_[0]->AwaitEnd();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(GetErrorInfo(service::StatusFromGrpc(end)).reason, "SUPERSEDED");
  v1::Register process_before = WorkerIdentity("a", 0, 2, 1);
  process_before.set_incarnation(1);  // as it was welcomed
  ScriptedWorker older(channel_, process_before);
  EXPECT_EQ(older.AwaitEnd().error_code(), grpc::StatusCode::ABORTED);
}

// Regression: the stream kept them, up to 1 GiB, for as long as the worker did not read.
TEST_F(ServerTest, AStreamThatIsSupersededDropsTheCommandsThatWait) {
  AttachWorkers();
  grpc::ClientContext context;
  const auto stream = workers_stub_->Attach(&context);
  v1::AttachRequest message;
  *message.mutable_register_() = WorkerIdentity("c", 4, 2);
  ASSERT_TRUE(stream->Write(message));
  Command command;
  ASSERT_TRUE(stream->Read(&command));
  EXPECT_TRUE(command.has_welcome());
  constexpr int kStates = 20;
  for (int i = 0; i < kStates; ++i) {  // each sends a command to all of its hosts
    v1::State state = MakeState(kRows);
    state.set_name(absl::StrCat("jobs/a/states/", i));
    auto& ids = *state.mutable_spec()->mutable_arrays(0)->mutable_sharding()->mutable_devices();
    ids.set_ids(3, 4);
    ASSERT_TRUE(Create(state).ok());
  }
  ScriptedWorker newer(channel_, WorkerIdentity("c", 4, 2, 2));
  ASSERT_TRUE(newer.Await(Command::kWelcome, 1));
  int read = 0;
  while (stream->Read(&command)) ++read;
  EXPECT_LE(read, 2);  // commands that were already on their way
  EXPECT_EQ(GetErrorInfo(service::StatusFromGrpc(stream->Finish())).reason, "SUPERSEDED");
}

// Regression: ten thousand messages of any length could wait.
TEST_F(ServerTest, AWorkerWhoseMessagesWaitForTheControllerMaySayNoMoreThanSomeMegabytes) {
  grpc::ClientContext context;
  const auto stream = workers_stub_->Attach(&context);
  v1::AttachRequest message;
  *message.mutable_register_() = WorkerIdentity("a", 0, 2);
  ASSERT_TRUE(stream->Write(message));
  v1::AttachResponse welcome;
  ASSERT_TRUE(stream->Read(&welcome));
  {
    const Holding holding(*core_);
    message.mutable_register_()->set_host(std::string(16 << 20, 'x'));
    int written = 0;
    while (written < 40 && stream->Write(message)) ++written;
    EXPECT_LT(written, 30);
    context.TryCancel();
  }
  const grpc::Status end = stream->Finish();
  EXPECT_FALSE(end.ok());
}

TEST_F(ServerTest, ShutdownEndsStreamsAndWatchesWithUnavailable) {
  AttachWorkers();
  CreateReadyState(kRows);
  grpc::ClientContext context;
  v1::WatchStateRequest request;
  request.set_name(kState);
  auto reader = states_->WatchState(&context, request);
  v1::State seen;
  ASSERT_TRUE(reader->Read(&seen));
  server_->Shutdown();
  while (reader->Read(&seen)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(workers_[0]->AwaitEnd().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServerTest, AConnectionEndsWhenItIsWithoutACallForTooLong) {
  const auto server = *Server::Start({.idle_max = std::chrono::milliseconds(100)}, *core_);
  grpc::ChannelArguments direct;
  direct.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto channel = grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", server->port()),
                                                 grpc::InsecureChannelCredentials(), direct);
  const auto within = [](std::chrono::milliseconds time) {
    return std::chrono::system_clock::now() + time;
  };
  grpc::ClientContext context;
  const auto call = v1::PlanService::NewStub(channel)->WatchPlans(&context, {});
  ASSERT_TRUE(channel->WaitForConnected(within(std::chrono::seconds(20))));
  const auto ended = [&](auto time) {
    return channel->WaitForStateChange(GRPC_CHANNEL_READY, within(time));
  };
  EXPECT_FALSE(ended(std::chrono::milliseconds(500)));
  context.TryCancel();
  EXPECT_TRUE(ended(std::chrono::seconds(20)));
}

TEST_F(ServerTest, ChangesOfAnEarlierWorldAreRefusedByName) {
  AttachWorkers();
  CreateReadyState(kRows);
  const std::string scope = absl::StrCat("jobs/", *ParseStateName("name", kState), "/worlds/main");
  core_->fences().Set(scope, 8);
  v1::Fence fence;
  fence.set_scope(scope);
  v1::CreateStateRequest create;
  v1::DeleteStateRequest remove;
  v1::StartExecutionRequest start;
  *create.mutable_state() = MakeState(kRows);
  create.mutable_state()->set_name(absl::StrCat(kState, "2"));
  remove.set_name(kState);
  start.set_state(kState);
  start.set_expected_generation(1);
  *start.mutable_targets() = MakeTargets(kColumns);
  const auto change = [&](int64_t epoch) {
    fence.set_epoch(epoch);
    for (v1::Fence* each :
         {create.mutable_fence(), start.mutable_fence(), remove.mutable_fence()}) {
      *each = fence;
    }
    return std::vector<absl::Status>{Ask<v1::State>([&](auto* c, auto* r) {
                                       return states_->CreateState(c, create, r);
                                     }).status(),
                                     StartExecution(start).status(),
                                     Ask<v1::DeleteStateResponse>([&](auto* c, auto* r) {
                                       return states_->DeleteState(c, remove, r);
                                     }).status()};
  };
  for (const absl::Status& status : change(7)) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(GetErrorInfo(status).reason, "STALE_EPOCH");
    EXPECT_EQ(GetErrorInfo(status).metadata["epoch"], "8");
  }
  EXPECT_EQ(GetState()->phase(), v1::State::READY);
  start.set_validate_only(true);
  for (const absl::Status& status : change(8)) EXPECT_TRUE(status.ok()) << status;
}

TEST_F(ServerTest, RepeatedRequestsStartOneExecutionAndOneState) {
  AttachWorkers();
  const v1::State state = MakeState(kRows);
  ASSERT_TRUE(Create(state, "id-1").ok());
  EXPECT_EQ(Create(state, "id-1")->name(), kState);
  EXPECT_EQ(Create(state, "id-2").status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Create(MakeState(kColumns), "id-1").status().code(), absl::StatusCode::kAlreadyExists);
  AwaitPhase(v1::State::READY);
  v1::StartExecutionRequest request;
  request.set_state(kState);
  request.set_expected_generation(1);
  *request.mutable_targets() = MakeTargets(kColumns);
  request.set_request_id("id-3");
  const v1::Execution first = *StartExecution(request);
  EXPECT_EQ(StartExecution(request)->name(), first.name());
  AwaitEnd(first.name());
  EXPECT_EQ(StartExecution(request)->name(), first.name());
}

// Regression: a state was laid out without any limit, whether its caller waited or not.
TEST_F(ServerTest, StatesAreLaidOutUnderTheLimitsOfPlanning) {
  StopServer();
  core_options_.planning.timeout = absl::ZeroDuration();
  StartServer();
  AttachWorkers();
  EXPECT_EQ(GetErrorInfo(Create(MakeState(kRows)).status()).reason, "PLANNING_TIMEOUT");
}

TEST_F(ServerTest, ValidateOnlyPlansAndMovesNothing) {
  AttachWorkers();
  CreateReadyState(kRows);
  v1::StartExecutionRequest request;
  request.set_state(kState);
  request.set_expected_generation(1);
  *request.mutable_targets() = MakeTargets(kColumns);
  request.set_validate_only(true);
  const auto preview = StartExecution(request);
  ASSERT_TRUE(preview.ok()) << preview.status();
  EXPECT_EQ(preview->name(), "");
  EXPECT_EQ(preview->summary().total_bytes(), 256);
  EXPECT_EQ(GetState()->phase(), v1::State::READY);
  EXPECT_EQ(workers_[0]->CommandCount(Command::kPrepare), 0);
}

TEST_F(ServerTest, APlanThatWasOnlyValidatedCanBeRun) {
  AttachWorkers();
  CreateReadyState(kRows);
  v1::StartExecutionRequest request;
  request.set_state(kState);
  request.set_expected_generation(1);
  *request.mutable_targets() = MakeTargets(kColumns);
  request.set_validate_only(true);
  const auto preview = StartExecution(request);
  ASSERT_TRUE(preview.ok()) << preview.status();
  request.set_validate_only(false);
  request.set_plan(preview->plan());
  const auto started = StartExecution(request);
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_EQ(started->plan(), preview->plan());
  EXPECT_EQ(AwaitEnd(started->name()).phase(), v1::Execution::SUCCEEDED);
}

TEST_F(ServerTest, AListOfStatesMayLeaveOutTheirSpecs) {
  AttachWorkers();
  CreateReadyState(kRows);
  v1::ListStatesRequest request;
  const auto list = [&](v1::ListStatesRequest::View view) {
    request.set_view(view);
    return Ask<v1::ListStatesResponse>(
        [&](auto* c, auto* r) { return states_->ListStates(c, request, r); });
  };
  v1::State whole = *GetState();
  EXPECT_EQ(list(v1::ListStatesRequest::FULL)->states(0).SerializeAsString(),
            whole.SerializeAsString());
  EXPECT_EQ(list(v1::ListStatesRequest::VIEW_UNSPECIFIED)->states(0).SerializeAsString(),
            whole.SerializeAsString());
  whole.clear_spec();
  EXPECT_EQ(list(v1::ListStatesRequest::BASIC)->states(0).SerializeAsString(),
            whole.SerializeAsString());
  const absl::Status unknown = list(static_cast<v1::ListStatesRequest::View>(7)).status();
  EXPECT_EQ(GetErrorInfo(unknown).metadata["field"], "view") << unknown;
}

}  // namespace
}  // namespace remesh::server
