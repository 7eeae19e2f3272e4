// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "remesh/v1/plan.grpc.pb.h"
#include "remesh/v1/reshard.grpc.pb.h"
#include "remesh/v1/state.grpc.pb.h"
#include "remesh/v1/worker.grpc.pb.h"
#include "server/journal/journal.h"
#include "server/server.h"
#include "server/testing/scripted_worker.h"
#include "service/rpc/error_info.h"

namespace remesh::server {

// A whole server in this process, with its journal in a directory of its own, called through gRPC.
class ServerFixture : public testing::Test, public CoreObserver {
 protected:
  static constexpr char kState[] = "jobs/a/states/s";
  static constexpr char kRows[] = "{devices=[4,1]<=[4]}";
  static constexpr char kColumns[] = "{devices=[1,4]<=[4]}";

  ServerFixture();
  ~ServerFixture() override;

  void StartServer(const Journal::Options& options = {});
  void StopServer();
  // Host "a" with devices 0, 1 and host "b" with 2, 3.
  void AttachWorkers(ScriptedWorker::OnCommand on_command = {});

  // One array f32[8, 8], cut by `hlo` over devices 0 to 3, on an empty topology.
  static v1::State MakeState(const std::string& hlo);
  static v1::Targets MakeTargets(const std::string& hlo);
  // Creates kState and waits for it to be READY.
  void CreateReadyState(const std::string& hlo = kRows);

  absl::StatusOr<v1::State> Create(const v1::State& state, const std::string& request_id = "");
  absl::StatusOr<v1::State> GetState(const std::string& name = kState);
  absl::StatusOr<v1::Execution> StartExecution(const v1::StartExecutionRequest& request);
  absl::StatusOr<v1::Execution> StartExecution(int64_t generation, const std::string& hlo);
  absl::StatusOr<v1::Execution> GetExecution(const std::string& name);
  absl::StatusOr<v1::CreatePlanResponse> CreatePlan(const v1::PlanSpec& spec);
  // Waits for the execution's last phase; fails the test after 20 s.
  v1::Execution AwaitEnd(const std::string& execution);
  void AwaitPhase(v1::State::Phase phase);

  void OnLog(const Note&) override {}
  void OnExecutionEnded(const ExecutionEnded&) override {}
  void OnPlanned(const v1::Planning&, double) override {}
  void OnGauges(const ControllerGauges& gauges, const v1::CacheStats&) override {
    others_ = gauges.workers_of_other_version;
  }
  void OnFatal(const absl::Status& status) override { ADD_FAILURE() << status; }

  template <typename Response, typename Call>
  static absl::StatusOr<Response> Ask(Call call);
  // Evaluates `predicate` every 5 ms until it holds; false: it did not within 20 s.
  static bool Eventually(absl::FunctionRef<bool()> predicate);

  std::atomic<int64_t> others_ = 0;  // workers of another version
  const std::filesystem::path directory_;
  Core::Options core_options_;
  std::unique_ptr<Core> core_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::StateService::Stub> states_;
  std::unique_ptr<v1::PlanService::Stub> plans_;
  std::unique_ptr<v1::ReshardService::Stub> reshards_;
  std::unique_ptr<v1::WorkerService::Stub> workers_stub_;
  std::vector<std::unique_ptr<ScriptedWorker>> workers_;
};

// Blocks the controller's strand until it is destroyed.
class Holding {
 public:
  explicit Holding(Core& core) {
    v1::GetStateRequest none;
    none.set_name("jobs/a/states/none");
    core.Call(none, [held = held_, free = free_](const absl::StatusOr<Reply>&) {
      held->Notify();
      free->WaitForNotification();
    });
    held_->WaitForNotification();
  }
  ~Holding() { free_->Notify(); }

 private:
  const std::shared_ptr<absl::Notification> held_ = std::make_shared<absl::Notification>();
  const std::shared_ptr<absl::Notification> free_ = std::make_shared<absl::Notification>();
};

template <typename Response, typename Call>
absl::StatusOr<Response> ServerFixture::Ask(Call call) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  Response response;
  const absl::Status status = service::StatusFromGrpc(call(&context, &response));
  if (!status.ok()) return status;
  return response;
}

}  // namespace remesh::server
