// SPDX-License-Identifier: Apache-2.0
//
// The commands that answer in process, as a user runs them: the binary, its exit code, stdout and
// stderr.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "remesh/v1/plan.grpc.pb.h"
#include "service/error_info.h"

namespace remesh {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kExample[] = "client/testdata/example_spec.json";

struct Result {
  int code = -1;
  std::string out;
  std::string err;
};

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Runs `remeshctl ARGUMENTS`, which the shell reads.
Result Remeshctl(const std::string& arguments) {
  const char* folder = std::getenv("REMESH_BIN_DIR");
  const std::string err = absl::StrCat(testing::TempDir(), "/remeshctl_test.", getpid(), ".err");
  const std::string command =
      absl::StrCat("timeout 60 ", folder == nullptr ? "build/release/bin" : folder, "/remeshctl ",
                   arguments, " 2>", err);
  Result result;
  FILE* pipe = popen(command.c_str(), "r");
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) result.out.append(buffer, n);
  result.code = WEXITSTATUS(pclose(pipe));
  result.err = ReadAll(err);
  std::remove(err.c_str());
  return result;
}

TEST(RemeshctlTest, LayoutOfText) {
  const Result r = Remeshctl(
      "layout --shape 4,5 --sharding '{devices=[2,2]0,3,2,1}' --devices 10,11,12,13 -o json");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  const Json want = Json::parse(R"({"devices":[
      {"device":"10","boxes":[{"lo":["0","0"],"hi":["2","3"]}]},
      {"device":"11","boxes":[{"lo":["2","3"],"hi":["4","5"]}]},
      {"device":"12","boxes":[{"lo":["2","0"],"hi":["4","3"]}]},
      {"device":"13","boxes":[{"lo":["0","3"],"hi":["2","5"]}]}]})");
  EXPECT_EQ(Json::parse(r.out), want);
}

TEST(RemeshctlTest, DevicesThatHoldNothingAreListed) {
  const Result r =
      Remeshctl("layout --shape 3 --sharding '{devices=[4]<=[4]}' --devices 4-7 -o json");
  const Json devices = Json::parse(r.out)["devices"];
  ASSERT_EQ(devices.size(), 4u);
  EXPECT_EQ(devices[3], Json::parse(R"({"device":"7","boxes":[]})"));
}

TEST(RemeshctlTest, LayoutOfTheExample) {
  const Result r = Remeshctl(absl::StrCat("layout -f ", kExample, " -o json"));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(Json::parse(r.out), Json::parse(ReadAll("client/testdata/example_layout.json")));
}

TEST(RemeshctlTest, PlanOfTheExample) {
  const Result r = Remeshctl(absl::StrCat("plan -f - -o json < ", kExample));
  EXPECT_EQ(r.code, 0) << r.err;
  const Json response = Json::parse(r.out);
  const Json& summary = response["plan"]["summary"];
  EXPECT_EQ(summary["bytesTotal"], "128");
  EXPECT_EQ(summary["bytesKept"], "32");
  EXPECT_EQ(summary["bytesLocal"], "32");
  EXPECT_EQ(summary["bytesCrossing"], "64");
  EXPECT_EQ(summary["quality"], 1.0);
  EXPECT_EQ(summary["lowerBoundSeconds"], 3.2e-8);
  EXPECT_EQ(response["plan"]["transfers"], Json::array());
  EXPECT_EQ(response["planning"]["cache"], "MISS");
}

TEST(RemeshctlTest, TheFullViewListsTransfers) {
  const Result r = Remeshctl(absl::StrCat("plan --view full -o json -f ", kExample));
  EXPECT_EQ(r.code, 0) << r.err;
  const Json response = Json::parse(r.out);
  int64_t bytes = 0;
  for (const Json& transfer : response["plan"]["transfers"]) {
    bytes += std::stoll(transfer["bytes"].get<std::string>());
    EXPECT_EQ(transfer["array"], "w");
    EXPECT_EQ(transfer["relay"], false);
  }
  EXPECT_EQ(bytes, 128);
}

// Rows that turn around on their four devices, of which two are listed first.
TEST(RemeshctlTest, AFreeTargetOrderIsShown) {
  const std::string spec = absl::StrCat(testing::TempDir(), "/remeshctl_test.", getpid(), ".json");
  std::ofstream(spec) << R"({"topology":{"hosts":[
      {"name":"a","device_ids":[0,1],"nics":1,"nic_bytes_per_second":1e9,"fabric_bytes_per_second":1e11},
      {"name":"b","device_ids":[2,3],"nics":1,"nic_bytes_per_second":1e9,"fabric_bytes_per_second":1e11}]},
      "shardings":{"before":{"hlo_text":"{devices=[4,1]<=[4]}","devices":{"ids":[0,1,2,3]}},
                   "after":{"hlo_text":"{devices=[4,1]<=[4]}","devices":{"ids":[2,3,1,0]}}},
      "arrays":[{"name":"w","shape":[8,8],"element_type":"bf16","source":{"ref":"before"},"target":{"ref":"after"}}],
      "options":{"free_target_order":true}})";
  const Result json = Remeshctl(absl::StrCat("plan -o json -f ", spec));
  const Result table = Remeshctl(absl::StrCat("plan -f ", spec));
  std::remove(spec.c_str());
  ASSERT_EQ(json.code, 0) << json.err;
  const Json plan = Json::parse(json.out)["plan"];
  EXPECT_EQ(plan["summary"]["bytesKept"], "128");
  ASSERT_EQ(plan["targetDeviceLists"].size(), 1u);
  EXPECT_EQ(plan["targetDeviceLists"][0]["arrays"], Json::array({"w"}));
  EXPECT_EQ(plan["targetDeviceLists"][0]["devices"]["ids"], Json::array({"0", "1", "2", "3"}));
  EXPECT_NE(table.out.find("0,1,2,3 (4 devices, 1 arrays)"), std::string::npos) << table.out;
}

TEST(RemeshctlTest, YamlIsTaken) {
  const Result json = Remeshctl(absl::StrCat("plan -o json -f ", kExample));
  const Result yaml = Remeshctl("plan -o json -f client/testdata/example_spec.yaml");
  EXPECT_EQ(yaml.code, 0) << yaml.err;
  EXPECT_EQ(Json::parse(yaml.out)["plan"]["name"], Json::parse(json.out)["plan"]["name"]);
}

TEST(RemeshctlTest, ShardingPrintsCanonicalText) {
  EXPECT_EQ(Remeshctl("sharding '{last_tile_dim_replicate devices=[2,1,2]<=[4]}'").out,
            "{devices=[2,1,2]<=[4] last_tile_dim_replicate}\n");
  EXPECT_EQ(Remeshctl(R"(sharding '#sdy.sharding<mesh<["x"=4]>, [{"x"}, {}]>')").out,
            "{devices=[4,1]<=[4]}\n");
}

TEST(RemeshctlTest, RefusalsSayWhy) {
  Result r = Remeshctl("sharding '{devices=[2,2'");
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(r.out, "");
  EXPECT_NE(r.err.find("reason: INVALID_FIELD"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("field: hlo_text"), std::string::npos) << r.err;
  r = Remeshctl("plan -f client/testdata/no_arrays.json");
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("field: topology\n"), std::string::npos) << r.err;
  r = Remeshctl("plan -f no/such/file");
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("no/such/file"), std::string::npos);
}

TEST(RemeshctlTest, UsageErrorsAreTwo) {
  for (const char* arguments :
       {"", "nonsense", "layout", "layout --shape 4", "plan", "sharding", "plan -f x --view half",
        "layout -f x --shape 1 --sharding '{replicated}' --devices 1"}) {
    const Result r = Remeshctl(arguments);
    EXPECT_EQ(r.code, 2) << arguments;
    EXPECT_EQ(r.out, "") << arguments;
    EXPECT_NE(r.err, "") << arguments;
  }
  EXPECT_EQ(Remeshctl("--help").code, 0);
}

TEST(RemeshctlTest, UsageErrorsNameWhatIsWrong) {
  for (const auto& [arguments, said] : std::vector<std::pair<const char*, const char*>>{
           {"nonsense", "\"nonsense\" is no command"},
           {"plans nonsense", "\"nonsense\" is no command"},
           {"plan -f x --view half", "half not in {basic,full}"},
           {"reshard jobs/a/states/b --plan plans/x --generation 0",
            "value \"0\" must be a number above 0"},
           {"plan -f x --timeout nan", "value \"nan\" must be a number above 0"}}) {
    const Result r = Remeshctl(arguments);
    EXPECT_EQ(r.code, 2) << arguments;
    EXPECT_NE(r.err.find(said), std::string::npos) << r.err;
  }
}

// Answers with a plan of two transfers, in two parts.
class FakePlanService : public v1::PlanService::Service {
  grpc::Status CreatePlan(grpc::ServerContext*, const v1::CreatePlanRequest* request,
                          v1::CreatePlanResponse* response) override {
    if (request->spec().arrays().empty()) {
      return StatusToGrpc(
          MakeError(absl::StatusCode::kResourceExhausted, "too much",
                    {.reason = "MEMORY_LIMIT", .metadata = {{"needed_bytes", "77"}}}));
    }
    response->mutable_plan()->set_name("plans/x");
    response->mutable_planning()->set_cache(v1::Planning::HIT);
    return grpc::Status::OK;
  }
  grpc::Status StreamPlan(grpc::ServerContext*, const v1::GetPlanRequest* request,
                          grpc::ServerWriter<v1::Plan>* writer) override {
    v1::Plan part;
    part.set_name(request->name());
    part.mutable_summary()->set_bytes_total(5);
    writer->Write(part);
    for (int i = 0; i < 2; ++i) {
      part.Clear();
      part.add_transfers()->set_window(i);
      writer->Write(part);
    }
    return grpc::Status::OK;
  }
};

TEST(RemeshctlTest, PlansOnAServer) {
  FakePlanService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const std::string where = absl::StrCat(" -o json --server 127.0.0.1:", port);
  Result r = Remeshctl(absl::StrCat("plan -f ", kExample, where));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(Json::parse(r.out)["planning"]["cache"], "HIT");
  r = Remeshctl(absl::StrCat("plan --view full -f ", kExample, where));
  EXPECT_EQ(r.code, 0) << r.err;
  const Json plan = Json::parse(r.out)["plan"];
  EXPECT_EQ(plan["name"], "plans/x");
  EXPECT_EQ(plan["summary"]["bytesTotal"], "5");
  EXPECT_EQ(plan["transfers"].size(), 2u);
  EXPECT_EQ(plan["transfers"][1]["window"], 1);
  r = Remeshctl("plan -f /dev/null" + where);
  EXPECT_EQ(r.code, 1);
  r = Remeshctl("plan -f client/testdata/no_arrays.json" + where);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("reason: MEMORY_LIMIT\n  needed_bytes: 77"), std::string::npos) << r.err;
  server->Shutdown();
}

}  // namespace
}  // namespace remesh
