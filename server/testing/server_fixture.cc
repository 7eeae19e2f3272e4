// SPDX-License-Identifier: Apache-2.0
#include "server/testing/server_fixture.h"

#include <cstdlib>
#include <thread>

namespace remesh::server {
namespace {

std::filesystem::path NewDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "remesh-server-XXXXXX").string();
  return mkdtemp(pattern.data());
}

v1::Sharding Hlo(const std::string& text) {
  v1::Sharding sharding;
  sharding.set_hlo_text(text);
  for (int64_t id = 0; id < 4; ++id) sharding.mutable_devices()->add_ids(id);
  return sharding;
}

}  // namespace

ServerFixture::ServerFixture() : directory_(NewDirectory()) {
  core_options_.controller.lost_after =
      std::chrono::seconds(60);  // scripted workers have no heartbeat
  StartServer();
}

ServerFixture::~ServerFixture() {
  StopServer();
  std::filesystem::remove_all(directory_);
}

void ServerFixture::StartServer(const Journal::Options& options) {
  auto journal = Journal::Open((directory_ / "journal.db").string(), options);
  ASSERT_TRUE(journal.ok()) << journal.status();
  auto core = Core::Start(core_options_, *std::move(journal), *this);
  ASSERT_TRUE(core.ok()) << core.status();
  core_ = *std::move(core);
  auto server = Server::Start({}, *core_);
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  channel_ = server_->InProcessChannel();
  states_ = v1::StateService::NewStub(channel_);
  plans_ = v1::PlanService::NewStub(channel_);
  reshards_ = v1::ReshardService::NewStub(channel_);
  workers_stub_ = v1::WorkerService::NewStub(channel_);
}

void ServerFixture::StopServer() {
  // Before the server: gRPC 1.51 crashes when a call begins on the in-process channel of a server
  // that has shut down.
  workers_.clear();
  server_ = nullptr;
  core_ = nullptr;
}

void ServerFixture::AttachWorkers(ScriptedWorker::OnCommand on_command) {
  workers_.clear();
  workers_.push_back(
      std::make_unique<ScriptedWorker>(channel_, WorkerIdentity("a", 0, 2), on_command));
  workers_.push_back(
      std::make_unique<ScriptedWorker>(channel_, WorkerIdentity("b", 2, 2), on_command));
  for (const auto& worker : workers_) ASSERT_TRUE(worker->Await(v1::AttachResponse::kWelcome, 1));
}

v1::State ServerFixture::MakeState(const std::string& hlo) {
  v1::State state;
  state.set_name(kState);
  v1::StateArray& array = *state.mutable_spec()->add_arrays();
  array.set_name("w");
  array.add_shape(8);
  array.add_shape(8);
  array.set_element_type("f32");
  *array.mutable_sharding() = Hlo(hlo);
  return state;
}

v1::Targets ServerFixture::MakeTargets(const std::string& hlo) {
  v1::Targets targets;
  v1::TargetArray& array = *targets.add_arrays();
  array.set_name("w");
  *array.mutable_sharding() = Hlo(hlo);
  return targets;
}

void ServerFixture::CreateReadyState(const std::string& hlo) {
  const auto state = Create(MakeState(hlo));
  ASSERT_TRUE(state.ok()) << state.status();
  AwaitPhase(v1::State::READY);
}

void ServerFixture::AwaitPhase(v1::State::Phase phase) {
  EXPECT_TRUE(Eventually([&] {
    const auto state = GetState();
    return state.ok() && state->phase() == phase;
  })) << GetState()->DebugString();
}

absl::StatusOr<v1::State> ServerFixture::Create(const v1::State& state,
                                                const std::string& request_id) {
  v1::CreateStateRequest request;
  *request.mutable_state() = state;
  request.set_request_id(request_id);
  return Ask<v1::State>([&](auto* context, auto* response) {
    return states_->CreateState(context, request, response);
  });
}

absl::StatusOr<v1::State> ServerFixture::GetState(const std::string& name) {
  v1::GetStateRequest request;
  request.set_name(name);
  return Ask<v1::State>(
      [&](auto* context, auto* response) { return states_->GetState(context, request, response); });
}

absl::StatusOr<v1::Execution> ServerFixture::StartExecution(
    const v1::StartExecutionRequest& request) {
  return Ask<v1::Execution>([&](auto* context, auto* response) {
    return reshards_->StartExecution(context, request, response);
  });
}

absl::StatusOr<v1::Execution> ServerFixture::StartExecution(int64_t generation,
                                                            const std::string& hlo) {
  v1::StartExecutionRequest request;
  request.set_state(kState);
  request.set_expected_generation(generation);
  *request.mutable_targets() = MakeTargets(hlo);
  return StartExecution(request);
}

absl::StatusOr<v1::Execution> ServerFixture::GetExecution(const std::string& name) {
  v1::GetExecutionRequest request;
  request.set_name(name);
  return Ask<v1::Execution>([&](auto* context, auto* response) {
    return reshards_->GetExecution(context, request, response);
  });
}

absl::StatusOr<v1::CreatePlanResponse> ServerFixture::CreatePlan(const v1::PlanSpec& spec) {
  v1::CreatePlanRequest request;
  *request.mutable_spec() = spec;
  return Ask<v1::CreatePlanResponse>([&](auto* context, auto* response) {
    return plans_->CreatePlan(context, request, response);
  });
}

v1::Execution ServerFixture::AwaitEnd(const std::string& execution) {
  EXPECT_TRUE(Eventually([&] {
    const auto found = GetExecution(execution);
    return found.ok() && found->has_end_time();
  })) << GetExecution(execution)->DebugString();
  return *GetExecution(execution);
}

bool ServerFixture::Eventually(absl::FunctionRef<bool()> predicate) {
  for (int i = 0; i < 4000; ++i) {
    if (predicate()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace remesh::server
