// SPDX-License-Identifier: Apache-2.0
//
// States on a server and on its workers: lists, writes, watches.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/testing/fake_server.h"
#include "client/testing/remeshctl.h"
#include "remesh/v1/local.grpc.pb.h"
#include "remesh/v1/plan.grpc.pb.h"
#include "remesh/v1/state.grpc.pb.h"
#include "service/rpc/error_info.h"

namespace remesh::client {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

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
  v1::PlanService::Service service;
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

}  // namespace
}  // namespace remesh::client
