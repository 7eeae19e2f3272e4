// SPDX-License-Identifier: Apache-2.0
//
// Commands about jobs and the deletion of states, against a server that answers as a test needs it.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "client/testing/remeshctl.h"
#include "remesh/v1/state.grpc.pb.h"
#include "service/rpc/error_info.h"

namespace remesh::client {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;
using Words = std::vector<std::string>;

// States that can be listed and deleted.
class FakeStates : public v1::StateService::Service {
 public:
  v1::State& Add(const std::string& name, v1::State::Phase phase = v1::State::READY,
                 int64_t step = 0, int64_t created = 0) {
    v1::State& state = states[name];
    state.set_name(name);
    state.set_uid(absl::StrCat("uid of ", name));
    state.set_phase(phase);
    state.set_step(step);
    state.set_total_bytes(1000);
    state.mutable_create_time()->set_seconds(created);
    state.mutable_spec()->add_arrays()->set_name("w");
    return state;
  }

  grpc::Status ListStates(grpc::ServerContext*, const v1::ListStatesRequest* request,
                          v1::ListStatesResponse* response) override {
    absl::MutexLock lock(&mutex);
    views.push_back(request->view());
    const std::string prefix = request->parent().empty() ? "" : request->parent() + "/";
    for (const auto& [name, state] : states) {
      if (!name.starts_with(prefix)) continue;
      *response->add_states() = state;
      if (request->view() == v1::ListStatesRequest::BASIC) {
        response->mutable_states()->rbegin()->clear_spec();
      }
    }
    return grpc::Status::OK;
  }
  grpc::Status DeleteState(grpc::ServerContext* context, const v1::DeleteStateRequest* request,
                           v1::DeleteStateResponse* response) override {
    absl::MutexLock lock(&mutex);
    asked.push_back(absl::StrCat(request->name(), request->wait() ? " wait" : ""));
    uids.push_back(request->uid());
    if (states.erase(request->name()) == 0) {
      return service::StatusToGrpc(
          MakeError(absl::StatusCode::kNotFound, "does not exist", {.reason = "NOT_FOUND"}));
    }
    if (comes_back) Add("jobs/j/states/world.000007");
    if (request->name() == stuck && request->wait()) {
      while (!context->IsCancelled()) absl::SleepFor(absl::Milliseconds(5));
      return grpc::Status::CANCELLED;
    }
    for (const std::string& host : absent[request->name()]) response->add_absent_hosts(host);
    return grpc::Status::OK;
  }

  absl::Mutex mutex;
  std::map<std::string, v1::State> states;
  std::map<std::string, Words> absent;  // by state
  std::string stuck;                    // the state that hosts never free
  bool comes_back = false;              // the job still runs
  Words asked;                          // deletions
  Words uids;                           // that they named
  std::vector<int> views;
};

class JobsTest : public testing::Test {
 protected:
  JobsTest() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }
  ~JobsTest() override { server_->Shutdown(std::chrono::system_clock::now()); }

  // With what a person types.
  Result RunTyping(const std::string& typed, const std::string& arguments) {
    const std::string path = absl::StrCat(testing::TempDir(), "/typed.", getpid());
    std::ofstream(path) << typed;
    return Remeshctl(absl::StrCat(arguments, " --server 127.0.0.1:", port_, " < ", path));
  }
  Result Call(const std::string& arguments) { return RunTyping("", arguments); }
  // The words of a table, one space apart.
  static std::string WordsOf(const std::string& table) {
    const Words words = absl::StrSplit(table, absl::ByAnyChar(" \n"), absl::SkipEmpty());
    return absl::StrJoin(words, " ");
  }
  static std::string Save(int world, int number, const std::string& job = "j") {
    return absl::StrFormat("jobs/%s/states/save.%06d.%08d", job, world, number);
  }

  int port_ = 0;
  FakeStates service_;
  std::unique_ptr<grpc::Server> server_;
};

// The newest save is the one of the newest world, though its step is lower; a half-written one does
// not count as covered.
TEST_F(JobsTest, JobsAreListedByTheirSaves) {
  service_.Add(Save(1, 9), v1::State::READY, 900, 100);
  service_.Add(Save(2, 1), v1::State::DEGRADED, 850, 200);
  service_.Add("jobs/j/states/world.000002", v1::State::READY, 0, 300);
  (*service_.Add(Save(2, 2), v1::State::BUILDING).mutable_labels())["remesh-reserved"] = "1";
  service_.Add(Save(1, 1, "k"), v1::State::READY, 10, 50);
  service_.Add(Save(1, 2, "k"), v1::State::BUILDING, 20, 60);
  service_.Add("jobs/none/states/parameters", v1::State::READY, 5, 70);
  const Result r = Call("jobs list");
  EXPECT_EQ(r.code, 0) << r.err;
  const std::string words = WordsOf(r.out);
  EXPECT_THAT(words,
              HasSubstr("JOB SAVES NEWEST STEP BYTES AGE COVERED LAST SEEN RESERVED j 2 2/1 850"));
  EXPECT_THAT(words, HasSubstr(" d yes 1970-01-01T00:05:00Z 1.00 kB k 2 1/2 20 "));
  EXPECT_THAT(words,
              HasSubstr(" d no 1970-01-01T00:01:00Z - none 0 - - - - - 1970-01-01T00:01:10Z"));
  EXPECT_EQ(service_.views, std::vector<int>{v1::ListStatesRequest::BASIC});
  const Json jobs = Json::parse(Call("jobs list -o json").out)["jobs"];
  ASSERT_EQ(jobs.size(), 3u);
  EXPECT_EQ(jobs[0]["newest"]["name"], Save(2, 1));
  EXPECT_EQ(jobs[0]["newest"]["totalBytes"], 1000);
  EXPECT_EQ(jobs[0]["states"], 4);
  EXPECT_EQ(jobs[0]["saves"], 2) << "what is reserved is no save";
  EXPECT_EQ(jobs[0]["reservedBytes"], 1000);
  EXPECT_EQ(jobs[0]["lastSeenTime"], "1970-01-01T00:05:00Z") << "of a claim or a save";
  EXPECT_EQ(jobs[1]["newest"]["phase"], "BUILDING");
  EXPECT_EQ(jobs[1]["newestCovered"]["step"], 10);
  EXPECT_FALSE(jobs[2].contains("newest"));
  EXPECT_EQ(Call("jobs list -o name").out, "jobs/j\njobs/k\njobs/none\n");
  EXPECT_EQ(Call("jobs list -o name --parent jobs/k").out, "jobs/k\n");
}

TEST_F(JobsTest, AJobIsDeletedOldestSaveFirstAndItsWorldsLast) {
  for (const char* name : {"jobs/j/states/world.000001", "jobs/j/states/tmp.000001.x"}) {
    service_.Add(name);
  }
  service_.Add(Save(10, 1));
  service_.Add(Save(2, 3));
  service_.Add(Save(1, 1, "k"));
  service_.absent[Save(2, 3)] = {"host-2", "host-7"};
  service_.absent[Save(10, 1)] = {"host-7"};
  const Result r = Call("jobs delete j --yes -o wide");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(service_.asked,
            (Words{Save(2, 3) + " wait", Save(10, 1) + " wait", "jobs/j/states/tmp.000001.x wait",
                   "jobs/j/states/world.000001 wait"}));
  EXPECT_EQ(service_.uids[0], "uid of " + Save(2, 3)) << "what was listed, not what came since";
  EXPECT_EQ(service_.states.size(), 1u) << "another job's";
  EXPECT_THAT(r.err, HasSubstr(Save(10, 1)));
  EXPECT_THAT(r.err, HasSubstr("deleted 4 states\n"));
  EXPECT_THAT(WordsOf(r.out), HasSubstr("host-2 1 states " + Save(2, 3) + " host-7 2 states " +
                                        Save(2, 3) + "," + Save(10, 1)));
  const Result gone = Call("jobs delete jobs/j --yes");
  EXPECT_EQ(gone.code, 1);
  EXPECT_THAT(gone.err, HasSubstr("jobs/j has no states"));
}

TEST_F(JobsTest, NothingIsDeletedUnlessAPersonSaysYes) {
  service_.Add(Save(1, 1));
  for (const char* typed : {"", "\n", "n\n", "yess\n"}) {
    const Result r = RunTyping(typed, "jobs delete j");
    EXPECT_EQ(r.code, 1);
    EXPECT_THAT(r.err, HasSubstr("Delete all 1 states of jobs/j, 1.00 kB?"));
    EXPECT_THAT(r.err, HasSubstr("reason: NOT_CONFIRMED"));
  }
  EXPECT_EQ(service_.asked, Words{});
  const Result r = RunTyping("Y\n", "jobs delete j -o json");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(Json::parse(r.out)["deleted"], Json::array({Save(1, 1)}));
}

TEST_F(JobsTest, AJobThatMovesAndAllJobsAtOnceAreRefused) {
  service_.Add(Save(1, 1));
  service_.Add(Save(1, 2), v1::State::MOVING).set_execution("jobs/j/executions/e");
  const Result moves = Call("jobs delete j --yes");
  EXPECT_EQ(moves.code, 1);
  EXPECT_THAT(moves.err, HasSubstr("remeshctl executions cancel jobs/j/executions/e"));
  for (const char* job : {"-", "jobs/-", "jobs/", "''"}) {
    const Result all = Call(absl::StrCat("jobs delete ", job, " --yes"));
    EXPECT_NE(all.code, 0) << job;
  }
  EXPECT_EQ(service_.asked, Words{});
}

TEST_F(JobsTest, AHostThatDoesNotAnswerHoldsUpOneDeletionOnly) {
  for (int number : {1, 2, 3}) service_.Add(Save(1, number));
  service_.stuck = Save(1, 1);
  const Result r = Call("jobs delete j --yes --timeout 2");
  EXPECT_EQ(r.code, 3) << "what became of the first is not known";
  EXPECT_THAT(r.err, HasSubstr("reason: OUTCOME_UNKNOWN"));
  EXPECT_EQ(service_.asked, (Words{Save(1, 1) + " wait", Save(1, 2), Save(1, 3)}));
}

TEST_F(JobsTest, AJobThatStillRunsIsSaidTo) {
  service_.Add(Save(1, 1));
  service_.comes_back = true;
  const Result r = Call("jobs delete j --yes");
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.err, HasSubstr("jobs/j has states again, such as jobs/j/states/world.000007"));
}

TEST_F(JobsTest, ADeletionWaitsUnlessToldNotToAndNamesAbsentHosts) {
  for (const char* flags : {"", " --wait", " --no-wait"}) {
    service_.Add("jobs/j/states/s");
    service_.absent["jobs/j/states/s"] = {"host-2", "host-7"};
    const Result r = Call(absl::StrCat("states delete jobs/j/states/s", flags));
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.out, "");
    EXPECT_EQ(r.err,
              "remeshctl: jobs/j/states/s is deleted; hosts that are away may hold buffers of it "
              "until they are back: host-2, host-7\n");
  }
  EXPECT_EQ(service_.asked,
            (Words{"jobs/j/states/s wait", "jobs/j/states/s wait", "jobs/j/states/s"}));
  EXPECT_EQ(service_.uids[0], "");
  service_.Add("jobs/j/states/s");
  const Result json = Call("states delete jobs/j/states/s -o json");
  EXPECT_EQ(Json::parse(json.out)["absentHosts"], Json::array({"host-2", "host-7"}));
  EXPECT_EQ(json.err, "");
}

TEST_F(JobsTest, ADeletionThatTakesLongSaysThatItGoesOn) {
  service_.Add("jobs/j/states/s");
  service_.stuck = "jobs/j/states/s";
  const Result r = Call("states delete jobs/j/states/s --timeout 1");
  EXPECT_EQ(r.code, 3);
  EXPECT_THAT(r.err, HasSubstr("the deletion goes on once the server has it"));
}

// The spec of each state would be sent and thrown away.
TEST_F(JobsTest, AListOfStatesAsksForSpecsOnlyToShowThem) {
  service_.Add("jobs/j/states/s");
  using Request = v1::ListStatesRequest;
  for (const auto& [format, view] :
       std::map<std::string, int>{{"table", Request::BASIC},
                                  {"name", Request::BASIC},
                                  {"wide", Request::VIEW_UNSPECIFIED},
                                  {"json", Request::VIEW_UNSPECIFIED},
                                  {"yaml", Request::VIEW_UNSPECIFIED}}) {
    service_.views.clear();
    const Result r = Call("states list -o " + format);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(service_.views, std::vector<int>{view}) << format;
  }
}

}  // namespace
}  // namespace remesh::client
