// SPDX-License-Identifier: Apache-2.0
//
// The commands that ask a server, against servers that answer as a test needs it.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "client/testing/remeshctl.h"
#include "remesh/v1/admin.grpc.pb.h"
#include "remesh/v1/coordination.grpc.pb.h"
#include "remesh/v1/local.grpc.pb.h"
#include "remesh/v1/plan.grpc.pb.h"
#include "remesh/v1/reshard.grpc.pb.h"
#include "remesh/v1/state.grpc.pb.h"
#include "remesh/v1/worker.grpc.pb.h"
#include "service/rpc/error_info.h"
#include "service/testing/port_holder.h"

namespace remesh::client {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

// Answers with a plan of two transfers, in two parts.
class FakePlanService : public v1::PlanService::Service {
  grpc::Status CreatePlan(grpc::ServerContext*, const v1::CreatePlanRequest* request,
                          v1::CreatePlanResponse* response) override {
    if (request->spec().arrays().empty()) {
      return service::StatusToGrpc(
          MakeError(absl::StatusCode::kResourceExhausted, "too much",
                    {.reason = "MEMORY_LIMIT", .metadata = {{"needed_bytes", "77"}}}));
    }
    response->mutable_plan()->set_name("plans/x");
    response->mutable_planning()->set_cache(v1::Planning::HIT);
    response->mutable_planning()->set_hosts_assumed(2);
    return grpc::Status::OK;
  }
  grpc::Status ListPlans(grpc::ServerContext*, const v1::ListPlansRequest* request,
                         v1::ListPlansResponse*) override {
    return service::StatusToGrpc(
        InvalidField("filter.state", request->filter().state(), "must be a name"));
  }
  grpc::Status ExportPlan(grpc::ServerContext*, const v1::ExportPlanRequest* request,
                          grpc::ServerWriter<v1::ExportPlanResponse>* writer) override {
    v1::ExportPlanResponse part;
    part.set_data("file of " + request->name());
    writer->Write(part);
    return grpc::Status::OK;
  }
  grpc::Status GetPlan(grpc::ServerContext*, const v1::GetPlanRequest* request,
                       v1::Plan* response) override {
    response->set_name(request->name());
    response->set_hosts_assumed(3);
    return grpc::Status::OK;
  }
  grpc::Status StreamPlan(grpc::ServerContext* context, const v1::GetPlanRequest* request,
                          grpc::ServerWriter<v1::Plan>* writer) override {
    v1::Plan part;
    part.set_name(request->name());
    part.mutable_summary()->set_total_bytes(5);
    writer->Write(part);
    while (request->name() == "plans/silent" && !context->IsCancelled()) std::this_thread::yield();
    for (int i = 0; i < 2; ++i) {
      part.Clear();
      part.add_transfers()->set_window(i);
      writer->Write(part);
    }
    return grpc::Status::OK;
  }
};

void Sleep(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

// Longer than the --timeout that it is to outlast, which is long enough for an answer of a busy
// machine.
constexpr int kSilenceMs = 3000;
constexpr char kShorterThanSilence[] = " --timeout 2";

// A server of one service; `address` may be a Unix socket's.
class FakeServer {
 public:
  explicit FakeServer(grpc::Service& service, const std::string& address = "127.0.0.1:0") {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service);
    server_ = builder.BuildAndStart();
  }
  ~FakeServer() { server_->Shutdown(std::chrono::system_clock::now()); }

  int port() const { return port_; }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// A worker that writes down the calls it gets. Its state has no shards here.
class FakeLocalService : public v1::LocalService::Service {
  grpc::Status Seal(grpc::ServerContext*, const v1::SealRequest* request,
                    v1::SealResponse*) override {
    calls.push_back(absl::StrCat("seal ", request->write()));
    return grpc::Status::OK;
  }
  grpc::Status Unseal(grpc::ServerContext*, const v1::UnsealRequest* request,
                      v1::SealResponse*) override {
    calls.push_back(absl::StrCat("unseal ", request->write()));
    return grpc::Status::OK;
  }
  grpc::Status Allocate(grpc::ServerContext*, const v1::AllocateRequest*,
                        v1::ShardsResponse*) override {
    calls.push_back("allocate");
    return grpc::Status::OK;
  }
  // Generation 5 is the newest.
  grpc::Status GetShards(grpc::ServerContext*, const v1::GetShardsRequest* request,
                         v1::ShardsResponse*) override {
    calls.push_back(absl::StrCat("get ", request->generation()));
    if (request->generation() == 5) return grpc::Status::OK;
    ErrorInfo info{.reason = "GENERATION_NOT_FOUND"};
    if (request->generation() < 5) {
      info = {.reason = "GENERATION_RETIRED", .metadata = {{"latest_generation", "5"}}};
    }
    return service::StatusToGrpc(MakeError(absl::StatusCode::kNotFound, "not here", info));
  }

 public:
  std::vector<std::string> calls;
};

TEST(RemeshctlServerTest, AWriteIsNamedInEveryCallThatTakesOne) {
  using Calls = std::vector<std::string>;
  FakeLocalService service;
  const std::string path =
      absl::StrCat(testing::TempDir(), "/remeshctl_writes.", getpid(), ".sock");
  const FakeServer worker(service, "unix:" + path);
  const auto calls_of = [&](const std::string& command) {
    service.calls.clear();
    const Result r = Remeshctl(absl::StrCat(command, " --socket ", path));
    EXPECT_EQ(r.code, 0) << r.err;
    return service.calls;
  };
  EXPECT_EQ(calls_of("seal jobs/j/states/s"), (Calls{"seal "}));
  EXPECT_EQ(calls_of("seal jobs/j/states/s --write 7"), (Calls{"seal 7"}));
  EXPECT_EQ(calls_of("unseal jobs/j/states/s --write 7"), (Calls{"unseal 7"}));
  EXPECT_EQ(calls_of("put jobs/j/states/s /tmp --write 7"), (Calls{"allocate", "seal 7"}));
  EXPECT_EQ(calls_of("put jobs/j/states/s /tmp --unseal --write 7"),
            (Calls{"get 1", "get 5", "get 6", "unseal 7", "allocate", "seal 7"}));
}

// Lists one state, of the job that it is asked for.
class FakeStateService : public v1::StateService::Service {
  // A state in each phase that there is, and one that only later clients know.
  static grpc::Status ListEveryPhase(v1::ListStatesResponse* response) {
    for (int phase = v1::State::BUILDING; phase <= v1::State::Phase_MAX + 1; ++phase) {
      v1::State& state = *response->add_states();
      state.set_name(absl::StrCat("jobs/phases/states/s", phase));
      state.set_phase(static_cast<v1::State::Phase>(phase));
    }
    return grpc::Status::OK;
  }
  grpc::Status ListStates(grpc::ServerContext*, const v1::ListStatesRequest* request,
                          v1::ListStatesResponse* response) override {
    if (request->parent() == "jobs/phases") return ListEveryPhase(response);
    const std::string job = request->parent().empty() ? "all" : request->parent();
    v1::State& state = *response->add_states();
    state.set_name(job + "/states/s");
    if (job != "jobs/torn") return grpc::Status::OK;
    for (const auto& [host, write] : {std::pair("host-0", "7"), std::pair("host-1", "")}) {
      v1::HostWrite& one = *state.add_host_writes();
      one.set_host(host);
      one.set_write(write);
    }
    return grpc::Status::OK;
  }
  // Two messages, with a silence between them, or without end before them if the name ends so.
  grpc::Status WatchState(grpc::ServerContext* context, const v1::WatchStateRequest* request,
                          grpc::ServerWriter<v1::State>* writer) override {
    const bool is_silent = absl::EndsWith(request->name(), "/silent");
    while (is_silent && !context->IsCancelled()) std::this_thread::yield();
    v1::State state;
    state.set_name(request->name());
    writer->Write(state);
    Sleep(kSilenceMs);
    writer->Write(state);
    return grpc::Status::OK;
  }
};

// Answers with what it was asked.
class UpdatedState : public v1::StateService::Service {
  grpc::Status GetState(grpc::ServerContext*, const v1::GetStateRequest* request,
                        v1::State* state) override {
    state->set_name(request->name());
    state->set_uid("u");
    state->set_step(3);
    (*state->mutable_labels())["a"] = "1";
    return grpc::Status::OK;
  }
  grpc::Status UpdateState(grpc::ServerContext*, const v1::UpdateStateRequest* request,
                           v1::UpdateStateResponse* response) override {
    v1::State& state = *response->mutable_state();
    state.set_name(request->name());
    state.set_uid(request->uid());
    state.set_step(request->step());
    *state.mutable_labels() = request->labels();
    return grpc::Status::OK;
  }
};

TEST(RemeshctlTest, AnUpdateKeepsWhatIsNotGiven) {
  UpdatedState states;
  const FakeServer server(states);
  const auto update = [&](const std::string& flags) {
    return Remeshctl(absl::StrCat("states update jobs/j/states/s ", flags, " -o json --server ",
                                  server.address()));
  };
  const Json step = Json::parse(update("--step 4").out);
  EXPECT_EQ(step["step"], "4");
  EXPECT_EQ(step["uid"], "u");
  EXPECT_EQ(step["labels"]["a"], "1");
  const Json labels = Json::parse(update("--label b=x=y --label c= --uid v").out);
  EXPECT_EQ(labels["step"], "3");
  EXPECT_EQ(labels["uid"], "v");
  EXPECT_EQ(labels["labels"].size(), 2u);
  EXPECT_EQ(labels["labels"]["b"], "x=y");
  EXPECT_EQ(labels["labels"]["c"], "");
  EXPECT_THAT(update("--label b").err,
              HasSubstr("--label: value \"b\" must be KEY=VALUE, as in run=17"));
}

// DEGRADED states are not LOST.
TEST(RemeshctlServerTest, StatesAreListedByPhase) {
  FakeStateService service;
  const FakeServer server(service);
  const auto listed = [&](const std::string& phase) {
    return Remeshctl(absl::StrCat("states list -o name --parent jobs/phases --server ",
                                  server.address(), " --phase ", phase));
  };
  EXPECT_EQ(listed("LOST").out, "jobs/phases/states/s4\n");
  EXPECT_EQ(listed("DEGRADED").out, "jobs/phases/states/s5\n");
  EXPECT_EQ(listed("ready").out, "jobs/phases/states/s2\n");
  EXPECT_EQ(listed("gone").code, 2);
  EXPECT_NE(listed("gone").err.find("one of BUILDING, READY, MOVING, LOST, DEGRADED"),
            std::string::npos)
      << listed("gone").err;
}

// Regression: another server was asked only for the job of the current context.
TEST(RemeshctlServerTest, AContextsJobIsForItsServerOnly) {
  FakeStateService service;
  const FakeServer server(service);
  const std::string path = absl::StrCat(testing::TempDir(), "/remeshctl_jobs.yaml");
  std::ofstream(path) << "current_context: one\ncontexts: {one: {server: \"" << server.address()
                      << "\", job: j}}\n";
  const auto listed = [&](const std::string& flags, const std::string& environment) {
    return Remeshctl("states list -o name" + flags,
                     absl::StrCat("REMESH_CONFIG=", path, " ", environment))
        .out;
  };
  EXPECT_EQ(listed("", ""), "jobs/j/states/s\n");
  EXPECT_EQ(listed("", "REMESH_PARENT=jobs/k"), "jobs/k/states/s\n");
  EXPECT_EQ(listed(" --context one", "REMESH_PARENT=jobs/k"), "jobs/j/states/s\n");
  EXPECT_EQ(listed(" --context one", "REMESH_SERVER=127.0.0.1:1"), "jobs/j/states/s\n");
  EXPECT_EQ(listed("", "REMESH_SERVER=" + server.address()), "all/states/s\n");
  EXPECT_EQ(listed(" --server " + server.address(), ""), "all/states/s\n");
  EXPECT_EQ(listed(absl::StrCat(" --context one --server=", server.address()), ""),
            "all/states/s\n");
}

TEST(RemeshctlServerTest, WritesThatDifferAreListedByHost) {
  FakeStateService service;
  const FakeServer server(service);
  const Result r = Remeshctl("states list --parent jobs/torn --server " + server.address());
  EXPECT_NE(r.out.find(" 7 on host-0, none on host-1\n"), std::string::npos) << r.out;
}

// Workers that keep generation 2 of a state. On host-0 a trainer began write 8 of it, no more.
class FakeWorkerService : public v1::WorkerService::Service {
  static void AddOwed(const std::string& host, int64_t sealed, const std::string& write,
                      v1::ListWorkersResponse* response) {
    v1::Worker& worker = *response->add_workers();
    worker.mutable_registration()->set_host(host);
    v1::StateManifest& manifest = *worker.add_owed()->mutable_manifest();
    manifest.set_state("jobs/j/states/s");
    manifest.set_generation(2);
    manifest.set_phase(v1::SHARD_PHASE_READY);
    manifest.set_sealed_shards(sealed);
    manifest.set_total_shards(4);
    manifest.set_write(write);
  }
  grpc::Status ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                           v1::ListWorkersResponse* response) override {
    AddOwed("host-0", 1, "8", response);
    AddOwed("host-1", 4, "7", response);
    AddOwed("host-2", 4, "", response);
    return grpc::Status::OK;
  }
};

// Regression: a generation that was half rewritten looked like one that is whole, READY on all
// hosts, and was saved.
TEST(RemeshctlServerTest, OwedGenerationsShowWhatIsSealedAndOfWhichWrite) {
  FakeWorkerService service;
  const FakeServer server(service);
  const Result r = Remeshctl("workers owed --server " + server.address());
  EXPECT_EQ(r.code, 0) << r.err;
  const std::vector<std::string> words =
      absl::StrSplit(r.out, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  const std::string table = absl::StrJoin(words, " ");
  EXPECT_THAT(table, HasSubstr("GENERATION PHASE SEALED WRITE BYTES"));
  EXPECT_THAT(table, HasSubstr("host-0 jobs/j/states/s - 2 READY 1/4 8 "));
  EXPECT_THAT(table, HasSubstr("host-1 jobs/j/states/s - 2 READY 4/4 7 "));
  EXPECT_THAT(table, HasSubstr("host-2 jobs/j/states/s - 2 READY 4/4 - "));
}

// A worker in each phase, and one of an earlier server, which tells none.
class WorkersInPhases : public v1::WorkerService::Service {
  grpc::Status ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                           v1::ListWorkersResponse* response) override {
    for (const auto& [name, phase] :
         {std::pair("host-0", v1::Worker::ALIVE), std::pair("host-1", v1::Worker::LOST),
          std::pair("host-2", v1::Worker::AWAY),
          std::pair("host-3", v1::Worker::PHASE_UNSPECIFIED)}) {
      v1::Worker& worker = *response->add_workers();
      worker.set_name(absl::StrCat("workers/", name));
      worker.set_phase(phase);
      worker.set_alive(phase == v1::Worker::ALIVE || phase == v1::Worker::PHASE_UNSPECIFIED);
    }
    return grpc::Status::OK;
  }
};

// Regression: a worker that left while it held nothing was shown as LOST.
TEST(RemeshctlServerTest, AWorkerThatLeftIsAwayNotLost) {
  WorkersInPhases service;
  const FakeServer server(service);
  const std::string list = absl::StrCat("workers list --server ", server.address());
  const Result all = Remeshctl(list);
  EXPECT_THAT(all.out, testing::ContainsRegex("workers/host-0 +ALIVE "));
  EXPECT_THAT(all.out, testing::ContainsRegex("workers/host-1 +LOST "));
  EXPECT_THAT(all.out, testing::ContainsRegex("workers/host-2 +AWAY "));
  EXPECT_THAT(all.out, testing::ContainsRegex("workers/host-3 +ALIVE "));
  EXPECT_EQ(Remeshctl(list + " -o name --phase AWAY").out, "workers/host-2\n");
  EXPECT_EQ(Remeshctl(list + " -o name --phase LOST").out, "workers/host-1\n");
}

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

// A state whose first watch ends as with a server that stops.
class StoppingStateService : public v1::StateService::Service {
  grpc::Status WatchState(grpc::ServerContext*, const v1::WatchStateRequest* request,
                          grpc::ServerWriter<v1::State>* writer) override {
    const bool first = watches_++ == 0;
    v1::State state;
    state.set_name(request->name());
    state.set_generation(1);
    state.set_phase(v1::State::BUILDING);
    state.set_sealed_shards(1);
    state.set_total_shards(4);
    writer->Write(state);
    if (first) return {grpc::StatusCode::UNAVAILABLE, "stops"};
    state.set_phase(v1::State::READY);
    state.set_sealed_shards(4);
    writer->Write(state);
    return grpc::Status::OK;
  }
  std::atomic<int> watches_ = 0;
};

// Regression: a restart of the server ended the watch.
TEST(RemeshctlServerTest, AWatchOfAStateAttachesAgain) {
  StoppingStateService service;
  const FakeServer server(service);
  const Result r = Remeshctl("states watch jobs/j/states/s --server " + server.address());
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("; trying again for 30 s (--timeout)\n"));
  const std::string time = "2[0-9-]*T[0-9:]*Z  jobs/j/states/s  generation 1  ";
  EXPECT_THAT(r.out, testing::MatchesRegex(time + "BUILDING  sealed 1/4 .25 %.\n" + time +
                                           "READY  sealed 4/4\n"));
  StoppingStateService again;
  const FakeServer other(again);
  const Result same =
      Remeshctl("states get -w -o name jobs/j/states/s --server " + other.address());
  EXPECT_EQ(same.out, "jobs/j/states/s\njobs/j/states/s\n") << same.err;
}

// Regression: the message was empty. As the worker's, this server knows none of the calls.
TEST(RemeshctlServerTest, AWorkersSocketIsNoServer) {
  FakePlanService service;
  const std::string socket =
      absl::StrCat("unix:", testing::TempDir(), "/remeshctl_test.", getpid(), ".sock");
  const FakeServer server(service, socket);
  const Result r = Remeshctl("states list --server " + socket);
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(r.err, absl::StrCat("remeshctl: ", socket,
                                ": it serves no such call; is that a worker's socket, which "
                                "--socket takes?\n  code: UNIMPLEMENTED\n  reason: CALL_FAILED\n"));
  const FakeServer other(service);
  const Result old = Remeshctl("states list --server " + other.address());
  EXPECT_NE(old.err.find(": it serves no such call; is that a server of another version?\n"),
            std::string::npos)
      << old.err;
}

class FakeAdminService : public v1::AdminService::Service {
  grpc::Status BackUpJournal(grpc::ServerContext*, const v1::BackUpJournalRequest*,
                             grpc::ServerWriter<v1::BackUpJournalResponse>* writer) override {
    v1::BackUpJournalResponse part;
    part.mutable_header()->set_journal_uid("uid");
    part.mutable_header()->set_file_bytes(5);
    writer->Write(part);
    part.set_data("hello");
    writer->Write(part);
    part.mutable_trailer()->set_sha256(kHelloSha256);
    writer->Write(part);
    return grpc::Status::OK;
  }

 public:
  static constexpr char kHelloSha256[] =
      "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
};

// Regression: only the table had the digest and the path.
TEST(RemeshctlServerTest, ABackupsDigestIsInEveryForm) {
  FakeAdminService service;
  const FakeServer server(service);
  const std::string file = absl::StrCat(testing::TempDir(), "/remeshctl_test.", getpid(), ".db");
  const auto backup = [&](const std::string& form) {
    const Result r = Remeshctl(absl::StrCat("journal backup ", file, " --force -o ", form,
                                            " --server ", server.address()));
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out;
  };
  const Json json = Json::parse(backup("json"));
  EXPECT_EQ(json.value("file", ""), file);
  EXPECT_EQ(json.value("sha256", ""), FakeAdminService::kHelloSha256);
  EXPECT_EQ(json["journalUid"], "uid");
  EXPECT_EQ(json["fileBytes"], "5");
  const std::string yaml = backup("yaml");
  EXPECT_NE(yaml.find(absl::StrCat("\nsha256: \"", FakeAdminService::kHelloSha256, "\"\n")),
            std::string::npos)
      << yaml;
  EXPECT_EQ(backup("name"), file + "\n");
  EXPECT_NE(backup("table").find(FakeAdminService::kHelloSha256), std::string::npos);
  std::remove(file.c_str());
}

class FakeCoordinationService : public v1::CoordinationService::Service {
  grpc::Status ListWorlds(grpc::ServerContext*, const v1::ListWorldsRequest* request,
                          v1::ListWorldsResponse* response) override {
    parent_ = request->parent();
    v1::World& world = *response->add_worlds();
    world.set_name("jobs/a/worlds/main");
    world.set_phase(v1::World::FORMED);
    world.set_epoch(7);
    world.set_min_size(3);
    world.set_max_size(3);
    for (int rank = 0; rank < 3; ++rank) {
      v1::WorldMember& member = *world.add_members();
      member.set_rank(rank);
      member.set_host("host-" + std::to_string(rank));
      member.set_pid(100 + rank);
    }
    v1::World::Waiting& waiting = *world.add_waiting();
    waiting.set_name("save");
    waiting.add_absent(1);
    return grpc::Status::OK;
  }

 public:
  std::string parent_;
};

TEST(RemeshctlServerTest, WorldsSayWhomTheyWaitFor) {
  FakeCoordinationService service;
  const FakeServer server(service);
  const Result list = Remeshctl("worlds list --parent jobs/a --server " + server.address());
  EXPECT_EQ(list.code, 0) << list.err;
  EXPECT_EQ(service.parent_, "jobs/a");
  EXPECT_NE(list.out.find("save: 1@host-1"), std::string::npos) << list.out;
  EXPECT_NE(list.out.find("3/3"), std::string::npos) << list.out;

  const std::string at = " --server " + server.address();
  const Result one = Remeshctl("worlds describe jobs/a/worlds/main" + at);
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_NE(one.out.find("host-2"), std::string::npos) << one.out;
  EXPECT_NE(one.out.find("save since"), std::string::npos) << one.out;
  EXPECT_EQ(Json::parse(Remeshctl("worlds describe jobs/a/worlds/main -o json" + at).out)["epoch"],
            "7");
  const Result none = Remeshctl("worlds describe jobs/a/worlds/mein" + at);
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.err.find("jobs/a/worlds/main"), std::string::npos) << none.err;
}

// Regression: it overwrote any file without a word, and "-" became a file of that name.
TEST(RemeshctlServerTest, AnExportedPlanReplacesNoFileUnlessForced) {
  FakePlanService service;
  const FakeServer server(service);
  const std::string file = absl::StrCat(testing::TempDir(), "/remeshctl_test.", getpid(), ".plan");
  const auto exported = [&](const std::string& words) {
    return Remeshctl(absl::StrCat("plans export x ", words, " --server ", server.address()));
  };
  std::ofstream(file) << "mine";
  const Result refused = exported(file);
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find(file + " already exists"), std::string::npos) << refused.err;
  EXPECT_EQ(ReadAll(file), "mine");
  EXPECT_EQ(exported(file + " --force").code, 0);
  EXPECT_EQ(ReadAll(file), "file of plans/x");
  std::remove(file.c_str());
  EXPECT_EQ(exported(file).code, 0);
  EXPECT_EQ(ReadAll(file), "file of plans/x");
  std::remove(file.c_str());
  EXPECT_EQ(exported("-").out, "file of plans/x");
}

// Regression: --timeout was said to limit the call, but a watch waited without end.
TEST(RemeshctlServerTest, TheTimeoutOfAWatchIsThatOfItsFirstAnswer) {
  FakeStateService service;
  const FakeServer server(service);
  const auto watch = [&](const std::string& state, const char* timeout) {
    return Remeshctl(absl::StrCat("states watch jobs/j/states/", state, " -o name", timeout,
                                  " --server ", server.address()));
  };
  const Result silent = watch("silent", " --timeout 0.2");
  EXPECT_EQ(silent.code, 1);
  EXPECT_NE(silent.err.find("said nothing for 0.2 s (--timeout)"), std::string::npos) << silent.err;
  const Result seldom = watch("seldom", kShorterThanSilence);
  EXPECT_EQ(seldom.code, 0) << seldom.err;
  EXPECT_EQ(seldom.out, "jobs/j/states/seldom\njobs/j/states/seldom\n");
  const Result help = Remeshctl("states watch --help");
  EXPECT_NE(help.out.find("Longest wait for the first answer, seconds"), std::string::npos)
      << help.out;
}

// Lists another set of plans each time, and then none any more.
class ChangingPlanService : public v1::PlanService::Service {
  grpc::Status ListPlans(grpc::ServerContext*, const v1::ListPlansRequest* request,
                         v1::ListPlansResponse* response) override {
    const int list = lists_++;
    if (list == 3) return service::StatusToGrpc(absl::UnavailableError("stopped"));
    if (request->filter().tier() != v1::MEMORY) return grpc::Status::OK;
    if (list < 2) Add("plans/a", /*pinned=*/list == 1, *response);
    if (list > 0) Add("plans/b", /*pinned=*/false, *response);
    return grpc::Status::OK;
  }
  static void Add(const std::string& name, bool pinned, v1::ListPlansResponse& response) {
    v1::Plan& plan = *response.add_plans();
    plan.set_name(name);
    plan.set_pinned(pinned);
  }
  std::atomic<int> lists_ = 0;
};

TEST(RemeshctlServerTest, AWatchOfPlansPrintsWhatIsNewChangedAndGoneBetweenLists) {
  const auto watch = [](const std::string& command) {
    ChangingPlanService service;
    const FakeServer server(service);
    const Result r = Remeshctl(
        absl::StrCat(command, " --interval 0.01 --tier memory --server ", server.address()));
    EXPECT_EQ(r.code, 1);
    EXPECT_NE(r.err.find("stopped"), std::string::npos) << r.err;
    return r.out;
  };
  const std::string lines =
      "EXISTING plans/a\n"
      "CHANGED plans/a: pinned no -> yes\n"
      "NEW plans/b\n"
      "GONE plans/a\n";
  EXPECT_EQ(watch("plans watch"), lines);
  EXPECT_EQ(watch("cache watch"), lines);
  const std::string json = watch("plans watch -o json");
  const Json first = Json::parse(json.substr(0, json.find('\n')));
  EXPECT_EQ(first["event"], "EXISTING");
  EXPECT_EQ(first["plan"]["name"], "plans/a");
}

// Regression: the message named a field of the call, which no user has written.
TEST(RemeshctlServerTest, ARefusedFilterNamesItsFlag) {
  FakePlanService service;
  const FakeServer server(service);
  for (const char* command : {"plans list", "plans watch", "cache watch", "cache export ."}) {
    const Result r = Remeshctl(absl::StrCat(command, " --state x --server ", server.address()));
    EXPECT_EQ(r.code, 1) << command;
    EXPECT_EQ(r.err.find("remeshctl: --state: value \"x\" must be a name\n"), 0u) << r.err;
    EXPECT_EQ(r.err.find("filter.state"), std::string::npos) << r.err;
  }
}

TEST(RemeshctlServerTest, PlansOnAServer) {
  FakePlanService service;
  const FakeServer server(service);
  const std::string where = " -o json --server " + server.address();
  Result r = Remeshctl(absl::StrCat("plan -f ", kExample, where));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(Json::parse(r.out)["planning"]["cache"], "HIT");
  r = Remeshctl(absl::StrCat("plan --view full -f ", kExample, where));
  EXPECT_EQ(r.code, 0) << r.err;
  const Json plan = Json::parse(r.out)["plan"];
  EXPECT_EQ(plan["name"], "plans/x");
  EXPECT_EQ(plan["summary"]["totalBytes"], "5");
  EXPECT_EQ(plan["transfers"].size(), 2u);
  EXPECT_EQ(plan["transfers"][1]["window"], 1);
  // $REMESH_SERVER is used too, unless --here is given.
  const std::string env = "REMESH_SERVER=" + server.address();
  const std::string question = absl::StrCat("plan -o json -f ", kExample);
  EXPECT_EQ(Json::parse(Remeshctl(question, env).out)["planning"]["cache"], "HIT");
  EXPECT_EQ(Json::parse(Remeshctl(question + " --here", env).out)["planning"]["cache"], "MISS");
  // A stream may take longer than a call, but must not be silent for as long.
  r = Remeshctl("plans get silent --full --timeout 0.2" + where);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("said nothing for 0.2 s"), std::string::npos) << r.err;
  r = Remeshctl("plan -f /dev/null" + where);
  EXPECT_EQ(r.code, 1);
  r = Remeshctl("plan -f client/testdata/no_arrays.json" + where);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("reason: MEMORY_LIMIT\n  needed_bytes: 77"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace remesh::client
