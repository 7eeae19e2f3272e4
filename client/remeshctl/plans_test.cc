// SPDX-License-Identifier: Apache-2.0
//
// Plans on a server: made, listed, watched, exported.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/testing/fake_plan_service.h"
#include "client/testing/fake_server.h"
#include "client/testing/remeshctl.h"
#include "remesh/v1/plan.grpc.pb.h"
#include "service/rpc/error_info.h"

namespace remesh::client {
namespace {

using Json = nlohmann::ordered_json;

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

}  // namespace
}  // namespace remesh::client
