// SPDX-License-Identifier: Apache-2.0
//
// The commands that answer in process, as a user runs them: the binary, its exit code, stdout and
// stderr.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "remesh/v1/admin.grpc.pb.h"
#include "remesh/v1/plan.grpc.pb.h"
#include "remesh/v1/reshard.grpc.pb.h"
#include "remesh/v1/state.grpc.pb.h"
#include "service/error_info.h"

namespace remesh::client {
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

// Runs `ENVIRONMENT remeshctl ARGUMENTS`, which the shell reads.
Result Remeshctl(const std::string& arguments, const std::string& environment = "") {
  const char* folder = std::getenv("REMESH_BIN_DIR");
  const std::string err = absl::StrCat(testing::TempDir(), "/remeshctl_test.", getpid(), ".err");
  const std::string command =
      absl::StrCat(environment, " timeout 60 ", folder == nullptr ? "build/release/bin" : folder,
                   "/remeshctl ", arguments, " 2>", err);
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
  EXPECT_EQ(summary["totalBytes"], "128");
  EXPECT_EQ(summary["keptBytes"], "32");
  EXPECT_EQ(summary["localBytes"], "32");
  EXPECT_EQ(summary["crossingBytes"], "64");
  EXPECT_EQ(summary["quality"], 1.0);
  EXPECT_EQ(summary["lowerBoundSeconds"], 3.2e-8);
  EXPECT_EQ(response["plan"]["transfers"], Json::array());
  EXPECT_EQ(response["planning"]["cache"], "MISS");
}

TEST(RemeshctlTest, APlanMadeHereCountsWhatItMoves) {
  const Json plan =
      Json::parse(Remeshctl(absl::StrCat("plan -f ", kExample, " -o json")).out)["plan"];
  EXPECT_EQ(plan["sourceDevices"], "4");
  EXPECT_EQ(plan["targetDevices"], "4");
  EXPECT_EQ(plan["sourceHosts"], "2");
  EXPECT_EQ(plan["targetHosts"], "2");
  EXPECT_EQ(plan["arrays"], "1");
  EXPECT_GT(plan["computeSeconds"], 0);
}

// Regression: the plan's name looked like a server's, but `plans get` found no such plan.
TEST(RemeshctlTest, APlanMadeHereIsSaidToBeOnNoServer) {
  const Result table = Remeshctl(absl::StrCat("plan -f ", kExample));
  EXPECT_NE(table.out.find("in this process: no server has this plan"), std::string::npos)
      << table.out;
  const Result name = Remeshctl(absl::StrCat("plan -o name -f ", kExample));
  EXPECT_EQ(name.out.find("plans/"), 0u) << name.out;
  EXPECT_NE(name.err.find("in this process: no server has this plan"), std::string::npos)
      << name.err;
  EXPECT_EQ(Remeshctl(absl::StrCat("plan -o json -f ", kExample)).err, "");
}

// Regression: it printed "0 ns", although the binding constraint took 0.032 ns.
TEST(RemeshctlTest, LessThanANanosecondIsNotNothing) {
  std::string spec = ReadAll(kExample);
  for (size_t at; (at = spec.find("\"nic_bytes_per_second\":1e9,")) != spec.npos;)
    spec.replace(at, 27, "\"nic_bytes_per_second\":1e12,");
  const std::string file = absl::StrCat(testing::TempDir(), "/remeshctl_test.", getpid(), ".fast");
  std::ofstream(file) << spec;
  const Result table = Remeshctl("plan -f " + file);
  std::remove(file.c_str());
  EXPECT_NE(table.out.find(" in 0.032 ns\n"), std::string::npos) << table.out;
}

TEST(RemeshctlTest, RangesOfDevicesAreSpelledEitherWay) {
  constexpr char kLayout[] = "layout --shape 8 --sharding '{devices=[4]<=[4]}' -o json --devices ";
  const Result dots = Remeshctl(absl::StrCat(kLayout, "10..12,7"));
  EXPECT_EQ(dots.code, 0) << dots.err;
  EXPECT_EQ(dots.out, Remeshctl(absl::StrCat(kLayout, "10,11,12,7")).out);
  EXPECT_EQ(dots.out, Remeshctl(absl::StrCat(kLayout, "10-12,7")).out);
  for (const char* bad : {"10..", "12..10", "10...12", "..3"})
    EXPECT_EQ(Remeshctl(absl::StrCat(kLayout, bad)).code, 1) << bad;
}

TEST(RemeshctlTest, AServerThatCannotBeReachedIsSaidInPlainWords) {
  const Result r = Remeshctl("states list --server 127.0.0.1:1 --timeout 5");
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(r.err,
            "remeshctl: cannot reach 127.0.0.1:1: connection refused; does it run there?\n"
            "  code: UNAVAILABLE\n  reason: UNREACHABLE\n");
}

// The address that a command calls, taken from the error that no server answers there.
std::string Called(const std::string& arguments, const std::string& environment) {
  const Result r = Remeshctl(absl::StrCat(arguments, " --timeout 5"), environment);
  const size_t at = r.err.find("cannot reach ");
  return at == std::string::npos ? r.err : r.err.substr(at + 13, r.err.find(": ", at) - at - 13);
}

TEST(RemeshctlTest, AContextSaysWhereToCallUnlessFlagsOrEnvironmentDo) {
  const std::string path = absl::StrCat(testing::TempDir(), "/remeshctl_contexts.yaml");
  std::ofstream(path)
      << "# mine\ncurrent_context: one\ncontexts:\n"
      << "  one: {server: \"127.0.0.1:1\"}\n  two: {server: \"127.0.0.1:2\", job: j}\n";
  const std::string environment = "REMESH_CONFIG=" + path;
  EXPECT_EQ(Called("states list", environment), "127.0.0.1:1");
  EXPECT_EQ(Called("states list --context two", environment), "127.0.0.1:2");
  EXPECT_EQ(Called("--context=two states list", environment), "127.0.0.1:2");
  EXPECT_EQ(Called("states list", environment + " REMESH_CONTEXT=two"), "127.0.0.1:2");
  EXPECT_EQ(Called("states list --server 127.0.0.1:3", environment), "127.0.0.1:3");
  EXPECT_EQ(Called("states list", environment + " REMESH_SERVER=127.0.0.1:3"), "127.0.0.1:3");
  // A flag beats the environment, also what the context leaves out.
  EXPECT_EQ(Called("states list --context two",
                   environment + " REMESH_SERVER=127.0.0.1:3 REMESH_TLS_CA=/no/such"),
            "127.0.0.1:2");
  const Result unknown = Remeshctl("states list --context three", environment);
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.err.find("has no context \"three\"; it has: one, two"), std::string::npos)
      << unknown.err;

  EXPECT_EQ(Remeshctl("config use-context two", environment).code, 0);
  EXPECT_EQ(Called("states list", environment), "127.0.0.1:2");
  EXPECT_EQ(ReadAll(path).find("# mine\n"), 0u) << "the rest of the file stays";
  EXPECT_NE(Remeshctl("config get-contexts", environment).out.find("*        two"),
            std::string::npos);
  EXPECT_EQ(Remeshctl("config use-context three", environment).code, 1);
}

TEST(RemeshctlTest, ABadFileOfContextsIsNamed) {
  const std::string path = absl::StrCat(testing::TempDir(), "/remeshctl_bad_contexts.yaml");
  const std::pair<const char*, const char*> cases[] = {
      {"contexts: {a: {servers: x}}", "contexts.a.servers"},
      {"contexts: {a: {}}", "contexts.a.server"},
      {"contexts: {a: {server: localhost}}",
       "contexts.a.server: value \"localhost\" must be HOST:PORT"},
      {"contexts: []", "contexts: value \"[]\" must be a map from names to contexts"},
      {"contexts: {a: {server: \"x:1\", tls_ca: y}}", "contexts.a.tls_cert"},
      {"context: a", "context"},
      {"[a", "remeshctl_bad_contexts.yaml"},
  };
  for (const auto& [text, named] : cases) {
    std::ofstream(path) << text << "\n";
    const Result r = Remeshctl("states list", "REMESH_CONFIG=" + path);
    EXPECT_EQ(r.code, 1) << text;
    EXPECT_NE(r.err.find(named), std::string::npos) << r.err;
    EXPECT_EQ(Remeshctl("version", "REMESH_CONFIG=" + path).code, 0) << text;
  }
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
  EXPECT_EQ(plan["summary"]["keptBytes"], "128");
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

TEST(RemeshctlTest, TheExampleOfEveryFormOfShardingMovesNothing) {
  const Result plan = Remeshctl("plan -o json -f docs/shardings.yaml");
  EXPECT_EQ(plan.code, 0) << plan.err;
  const Json summary = Json::parse(plan.out)["plan"]["summary"];
  EXPECT_EQ(summary["totalBytes"], "640");
  EXPECT_EQ(summary["keptBytes"], "640");
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
  EXPECT_NE(r.err.find("remeshctl: hlo_text: "), std::string::npos) << r.err;
  r = Remeshctl("plan -f client/testdata/no_arrays.json");
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("topology: is missing; "), std::string::npos) << r.err;
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
           {"plan -f x --timeout nan", "value \"nan\" must be a number above 0"},
           {"plam", "\"plam\" is no command; did you mean \"plan\"?"},
           {"states lits", "did you mean \"list\"?"},
           {"plan --flie x", "remeshctl: unknown flag --flie; did you mean --file?"},
           {"plans list --sourc-devices 8",
            "unknown flag --sourc-devices; did you mean --source-devices?"},
           {"states list --contxt x", "unknown flag --contxt; did you mean --context?"},
           {"states --server a:1 list",
            "unknown flag --server here; a command's flags stand after it"},
           {"plans list --context", "--context needs a value"}}) {
    const Result r = Remeshctl(arguments);
    EXPECT_EQ(r.code, 2) << arguments;
    EXPECT_NE(r.err.find(said), std::string::npos) << r.err;
  }
}

TEST(RemeshctlTest, WhatIsMissingIsNamed) {
  for (const auto& [arguments, said] : std::vector<std::pair<const char*, const char*>>{
           {"config", "config: a command is missing, one of view, get-contexts, use-context"},
           {"", "remeshctl: a command is missing, one of layout, sharding, "},
           {"plans precompute --state jobs/a/states/b", "--lose-one, --drain-one, --return-one or"},
           {"topology show hgx-h100 --oversubscription 2", "--oversubscription requires --racks"},
           {"plans list --source-devices 5..3",
            "--source-devices: value \"5..3\" must be a number"},
           {"journal backup ''", "FILE: value \"\" must be the path of a file"},
           {"plans export x ''", "FILE: value \"\" must be the path of a file"},
           {"plans list --older 1x", "--older: value \"1x\" must have a unit"}}) {
    const Result r = Remeshctl(arguments);
    EXPECT_EQ(r.code, 2) << arguments;
    EXPECT_NE(r.err.find(said), std::string::npos) << r.err;
  }
}

// Regression: a missing file ended with 1 but a missing folder with 2.
TEST(RemeshctlTest, AFolderThatIsMissingIsAFailure) {
  for (const char* arguments : {"put jobs/a/states/b no/such", "get jobs/a/states/b no/such",
                                "cache export no/such", "cache import no/such"}) {
    const Result r = Remeshctl(arguments);
    EXPECT_EQ(r.code, 1) << arguments;
    EXPECT_NE(r.err.find("no/such: there is no such folder"), std::string::npos) << r.err;
  }
}

TEST(RemeshctlTest, AFileThatCannotBeWrittenSaysWhy) {
  const Result r = Remeshctl(absl::StrCat("plan --html /no/such/x -f ", kExample));
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("cannot write /no/such/x: No such file or directory"), std::string::npos)
      << r.err;
}

// Refuses values that the parser would cut to the range of their type, and names flag, value and
// range.
TEST(RemeshctlTest, NumbersOutOfRangeAreRefused) {
  constexpr char kReshard[] = "reshard jobs/a/states/b --plan plans/x ";
  for (const auto& [arguments, flag, value, limit] : std::vector<std::array<std::string, 4>>{
           {absl::StrCat(kReshard, "--deadline 1e18"), "--deadline", "1e18", "2592000"},
           {absl::StrCat(kReshard, "--deadline 1e-10"), "--deadline", "1e-10", "from 1e-9"},
           {absl::StrCat(kReshard, "--timeout 1e18"), "--timeout", "1e18", "2592000"},
           {absl::StrCat(kReshard, "--generation 99999999999999999999"), "--generation",
            "99999999999999999999", "9223372036854775807"},
           {absl::StrCat(kReshard, "--generation 1.5"), "--generation", "1.5", "whole"},
           {absl::StrCat(kReshard, "--window-bytes 0x10"), "--window-bytes", "0x10", "whole"},
           {absl::StrCat(kReshard, "--lost-devices 1,-2"), "--lost-devices", "-2", "from 0"},
           {"plans list --timeout 1e300", "--timeout", "1e300", "2592000"},
           {"plans list --hits-min 99999999999999999999", "--hits-min", "99999999999999999999",
            "9223372036854775807"},
           {"topology show hgx-h100 --hosts 99999999999999999999", "--hosts",
            "99999999999999999999", "9223372036854775807"},
           {"plans precompute --state jobs/a/states/b --plus-minus 3000000000", "--plus-minus",
            "3000000000", "2147483647"},
           {"get jobs/a/states/b . --generation -1", "--generation", "-1", "above 0"}}) {
    const Result r = Remeshctl(arguments);
    EXPECT_EQ(r.code, 2) << arguments;
    EXPECT_NE(r.err.find(flag + ":"), std::string::npos) << r.err;
    EXPECT_NE(r.err.find(absl::StrCat("\"", value, "\" must be ")), std::string::npos) << r.err;
    EXPECT_NE(r.err.find(limit), std::string::npos) << r.err;
  }
}

TEST(RemeshctlTest, ADigitInFrontIsNoOctalNumber) {
  const Result r = Remeshctl("topology show hgx-h100 --hosts 010 -o json");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(Json::parse(r.out)["hosts"].size(), 10u);
}

TEST(RemeshctlTest, AnAnswerThatIsNotWrittenIsAFailure) {
  for (const std::string& arguments :
       {absl::StrCat("plan -o json -f ", kExample),
        absl::StrCat("plan --full -o json -f ", kExample),
        absl::StrCat("plan --full -f ", kExample), absl::StrCat("layout -f ", kExample),
        absl::StrCat("layout -o json -f ", kExample), std::string("sharding '{replicated}'"),
        std::string("topology list"), std::string("--help"), std::string("--version"),
        std::string("help"), std::string("version"), std::string("completion bash")}) {
    const Result r = Remeshctl(arguments + " > /dev/full");
    EXPECT_EQ(r.code, 1) << arguments;
    EXPECT_NE(r.err.find("stdout does not take the whole answer"), std::string::npos)
        << arguments << ": " << r.err;
  }
}

TEST(RemeshctlTest, ServersAreHostAndPort) {
  for (const char* address : {"http://127.0.0.1:7070", "127.0.0.1", "localhost:", "localhost:http",
                              "localhost:99999", "::1:7070", ""}) {
    const Result r = Remeshctl(absl::StrCat("states list --server=", address));
    EXPECT_EQ(r.code, 2) << address;
    EXPECT_NE(r.err.find(absl::StrCat("--server: value \"", address, "\" must be HOST:PORT")),
              std::string::npos)
        << r.err;
  }
  const Result r = Remeshctl("states list --timeout 1 --server [::1]:1");
  EXPECT_EQ(r.code, 1) << r.err;
}

TEST(RemeshctlTest, ErrorsOfFilesNameTheFile) {
  Result r = Remeshctl("plan -f client/testdata");
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("client/testdata: Is a directory"), std::string::npos) << r.err;
  const std::string file = absl::StrCat(testing::TempDir(), "/remeshctl_test.", getpid(), ".yaml");
  std::ofstream(file) << "arrays: [\nx: }";
  r = Remeshctl("plan -f " + file);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find(file + ": line "), std::string::npos) << r.err;
  r = Remeshctl("plan -f - < " + file);
  EXPECT_NE(r.err.find("remeshctl: stdin: line "), std::string::npos) << r.err;
  // What is refused only after reading, too.
  std::string spec = ReadAll(kExample);
  spec.replace(spec.find("\"hlo_text\":\""), 12, "\"hlo_text\":\"?");
  std::ofstream(file) << spec;
  for (const char* command : {"plan -f ", "layout -f "}) {
    r = Remeshctl(command + file);
    EXPECT_EQ(r.code, 1);
    EXPECT_EQ(r.err.find(absl::StrCat("remeshctl: ", file, ": ")), 0u) << r.err;
  }
  std::remove(file.c_str());
}

// Each with a text that the message must contain exactly once.
TEST(RemeshctlTest, ErrorsOfSpecsHelp) {
  const std::string spec = ReadAll(kExample);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = spec;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const std::string file = absl::StrCat(testing::TempDir(), "/remeshctl_test.", getpid(), ".spec");
  for (const auto& [text, said] : std::vector<std::pair<std::string, std::string>>{
           {with("\"hlo_text\"", "\"hlo_txt\""), "did you mean \"hlo_text\"?"},
           {with("\"device_lists\"", "\"deviceList\""), "did you mean \"deviceLists\"?"},
           {with("\"nics\"", "\"nicks\""), "did you mean \"nics\"?"},
           {with("\"bf16\"", "\"bfloat16\""), "did you mean \"bf16\"?"},
           {with("\"bf16\"", "\"torch.float8_e4m3fn\""), "did you mean \"f8e4m3fn\"?"},
           {with(",\"nic_bytes_per_second\":1e9", ""), "nic_bytes_per_second: is missing; "},
           {with(",\"element_type\":\"bf16\"", ""), "element_type: is missing; "}}) {
    std::ofstream(file) << text;
    const Result r = Remeshctl("plan -f " + file);
    EXPECT_EQ(r.code, 1) << said;
    const size_t at = r.err.find(said);
    ASSERT_NE(at, std::string::npos) << said << "\n" << r.err;
    EXPECT_EQ(r.err.find(said, at + 1), std::string::npos) << r.err;
    EXPECT_EQ(r.err.find("expectation"), std::string::npos) << r.err;
  }
  std::remove(file.c_str());
}

TEST(RemeshctlTest, AnotherKindOfFileIsNamed) {
  const Result r = Remeshctl(absl::StrCat("states create -f ", kExample, " --server 127.0.0.1:1"));
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("this is a remesh.v1.PlanSpec, and a remesh.v1.State is wanted here"),
            std::string::npos)
      << r.err;
}

TEST(RemeshctlTest, AnswersInYamlAndNames) {
  const Result yaml = Remeshctl(absl::StrCat("plan -o yaml -f ", kExample));
  EXPECT_EQ(yaml.code, 0) << yaml.err;
  EXPECT_NE(yaml.out.find("\n  summary:\n    totalBytes: \"128\"\n"), std::string::npos)
      << yaml.out;
  EXPECT_NE(yaml.out.find("\n  transfers: []\n"), std::string::npos) << yaml.out;
  const Result name = Remeshctl(absl::StrCat("plan -o name -f ", kExample));
  EXPECT_EQ(name.out.find("plans/"), 0u) << name.out;
  EXPECT_NE(yaml.out.find(name.out.substr(0, name.out.size() - 1)), std::string::npos);
  const Result names = Remeshctl("topology list -o name");
  EXPECT_NE(names.out.find("hgx-h100\n"), std::string::npos) << names.out;
  EXPECT_NE(Remeshctl("topology list -o wide").out.find("PRESET"), std::string::npos);
  EXPECT_EQ(Remeshctl(absl::StrCat("plan --full -o yaml -f ", kExample)).code, 1);
}

TEST(RemeshctlTest, FullAndViewFullAgree) {
  const auto transfers = [](const std::string& flags) {
    const Result r = Remeshctl(absl::StrCat("plan -o json -f ", kExample, flags));
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(r.out)["plan"]["transfers"];
  };
  EXPECT_EQ(transfers(" --full"), transfers(" --view full"));
  EXPECT_EQ(transfers(" --view basic"), Json::array());
  EXPECT_EQ(Remeshctl("plans get plans/x --full --view basic").code, 2);
  const Result table = Remeshctl(absl::StrCat("plan --full -f ", kExample));
  EXPECT_NE(table.out.find("WINDOW  FROM  TO  BYTES  RELAY  ARRAY  BOX"), std::string::npos)
      << table.out;
}

TEST(RemeshctlTest, HelpAndVersion) {
  EXPECT_EQ(Remeshctl("help").out, Remeshctl("--help").out);
  EXPECT_EQ(Remeshctl("help plans get").out, Remeshctl("plans get --help").out);
  EXPECT_EQ(Remeshctl("version").out, Remeshctl("--version").out);
  EXPECT_EQ(Remeshctl("help nonsense").code, 1);
  EXPECT_NE(Remeshctl("help plams").err.find("did you mean \"plans\"?"), std::string::npos);
}

// A shell that has loaded the output of `remeshctl completion`.
class CompletionTest : public testing::Test {
 protected:
  CompletionTest() {
    std::string path = testing::TempDir() + "/remeshctl_completion.XXXXXX";
    folder_ = mkdtemp(path.data());
  }
  ~CompletionTest() override { std::filesystem::remove_all(folder_); }

  static bool Has(const std::string& shell) {
    return std::system(absl::StrCat("command -v ", shell, " >/dev/null").c_str()) == 0;
  }
  void Load(const std::string& shell) {
    std::ofstream(folder_ + "/completion") << Remeshctl("completion " + shell).out;
  }
  // The output and errors of `script`, one word a line.
  std::string Run(const std::string& shell, const std::string& script) {
    std::ofstream(folder_ + "/script") << script;
    const std::string command = absl::StrCat("cd ", folder_, " && HOME=", folder_,
                                             " TERM=xterm timeout 60 ", shell, " script 2>&1");
    FILE* pipe = popen(command.c_str(), "r");
    std::string out;
    char buffer[4096];
    for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) out.append(buffer, n);
    EXPECT_EQ(pclose(pipe), 0) << out;
    return absl::StrJoin(absl::StrSplit(out, absl::ByAnyChar(" \n"), absl::SkipEmpty()), " ");
  }

  // The completions of `words`, of which the last is incomplete.
  std::string Bash(const std::string& words) {
    return Run("bash", absl::StrCat("source ./completion\nCOMP_WORDS=(", words,
                                    ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_remeshctl\n",
                                    "echo \"${COMPREPLY[*]}\"\n"));
  }
  std::string Fish(const std::string& line) {
    return Run("fish --no-config", absl::StrCat("source ./completion\ncomplete -C '", line,
                                                "' | string replace -r '\\t.*' ''\n"));
  }
  // A shell with a terminal, where TAB is pressed after `line`; it writes down what it would add.
  std::string Zsh(const std::string& line) {
    return Run("zsh -f", absl::StrCat(R"(zmodload zsh/zpty
rm -f told
zpty shell zsh -f -i
zpty -w shell 'source ./completion'
zpty -w shell 'compadd() {
  emulate -L zsh
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
  local -a hits
  builtin compadd -A hits "$@"
  print -l -- $hits >> told.new
}'
zpty -w shell 'comppostfuncs=(tell); tell() { mv told.new told }; print -n > told.new'
zpty -w -n shell ')",
                                      line, R"('$'\t'
for i in {1..300}; do [[ -e told ]] && break; sleep 0.1; done
zpty -d shell
cat told
)"));
  }

  std::string folder_;
};

TEST_F(CompletionTest, BashCompletes) {
  Load("bash");
  EXPECT_EQ(Bash("remeshctl pla"), "plan plans");
  EXPECT_EQ(Bash("remeshctl plans unp"), "unpin");
  EXPECT_EQ(Bash("remeshctl plan -f x --vi"), "--view");
  EXPECT_EQ(Bash("remeshctl plan --view f"), "full");
  EXPECT_EQ(Bash("remeshctl plans get --output ''"), "table wide json yaml name");
  EXPECT_EQ(Bash("remeshctl completion z"), "zsh");
  EXPECT_EQ(Remeshctl("completion tcsh").code, 2);
}

// Regression: zsh offered only files, because bash's script means something else there.
TEST_F(CompletionTest, ZshCompletes) {
  if (!Has("zsh")) GTEST_SKIP() << "zsh is not installed";
  Load("zsh");
  EXPECT_EQ(ReadAll(folder_ + "/completion").find("#compdef remeshctl\n"), 0u);
  EXPECT_EQ(Zsh("remeshctl pla"), "plan plans");
  EXPECT_EQ(Zsh("remeshctl plans unp"), "unpin");
  EXPECT_EQ(Zsh("remeshctl plan -f x --vi"), "--view");
  EXPECT_EQ(Zsh("remeshctl plan --view f"), "full");
  EXPECT_EQ(Zsh("remeshctl plans get --output "), "table wide json yaml name");
}

// Regression: it offered only files, and printed errors.
TEST_F(CompletionTest, FishCompletes) {
  if (!Has("fish")) GTEST_SKIP() << "fish is not installed";
  Load("fish");
  EXPECT_EQ(Fish("remeshctl pla"), "plan plans");
  EXPECT_EQ(Fish("remeshctl plans unp"), "unpin");
  EXPECT_EQ(Fish("remeshctl plan -f x --vi"), "--view");
  EXPECT_EQ(Fish("remeshctl plan --view f"), "full");
  EXPECT_EQ(Fish("remeshctl plans get --output "), "json name table wide yaml");
}

// Only remesh-worker documents the default of the workers' socket.
TEST(RemeshctlTest, TheSocketDefaultsToTheWorkers) {
  const Result r = Remeshctl("put jobs/a/states/b . --timeout 1");
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("/run/remesh/worker.sock"), std::string::npos) << r.err;
  EXPECT_NE(
      ReadAll("worker/config.example.yaml").find("\n# socket_path: \"/run/remesh/worker.sock\""),
      std::string::npos);
}

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
    return grpc::Status::OK;
  }
  grpc::Status ListPlans(grpc::ServerContext*, const v1::ListPlansRequest* request,
                         v1::ListPlansResponse*) override {
    return service::StatusToGrpc(
        InvalidField("filter.state", request->filter().state(), "must be a name"));
  }
  grpc::Status WatchPlans(grpc::ServerContext*, const v1::WatchPlansRequest* request,
                          grpc::ServerWriter<v1::WatchPlansResponse>*) override {
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

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// Lists one state, of the job that it is asked for.
class FakeStateService : public v1::StateService::Service {
  grpc::Status ListStates(grpc::ServerContext*, const v1::ListStatesRequest* request,
                          v1::ListStatesResponse* response) override {
    const std::string job = request->parent().empty() ? "all" : request->parent();
    response->add_states()->set_name(job + "/states/s");
    return grpc::Status::OK;
  }
  // Two messages, with a silence between them, or before them if the name ends so.
  grpc::Status WatchState(grpc::ServerContext* context, const v1::WatchStateRequest* request,
                          grpc::ServerWriter<v1::State>* writer) override {
    const bool is_silent = absl::EndsWith(request->name(), "/silent");
    while (is_silent && !context->IsCancelled()) std::this_thread::yield();
    v1::State state;
    state.set_name(request->name());
    writer->Write(state);
    Sleep(500);
    writer->Write(state);
    return grpc::Status::OK;
  }
};

// Regression: another server was asked only for the job of the current context.
TEST(RemeshctlTest, AContextsJobIsForItsServerOnly) {
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
    for (int i = 0; i < 60 && !context->IsCancelled(); ++i) Sleep(10);
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

// Regression: gRPC connected only every 5 s, because nobody waited in it between the tries.
TEST(RemeshctlTest, AWaitFindsARestartedServerSoon) {
  FakeReshardService service;
  auto server = std::make_unique<FakeServer>(service);
  const std::string address = server->address();
  std::thread restarts([&] {
    while (service.watches_ == 0) Sleep(10);
    server.reset();
    Sleep(700);  // the first try is refused
    server = std::make_unique<FakeServer>(service, address);
  });
  const Result r =
      Remeshctl("executions watch jobs/j/executions/e -o json --timeout 4 --server " + address);
  restarts.join();
  EXPECT_EQ(r.code, 0) << r.err;
}

// Regression: what was shorter than a millisecond became 0, the default of five minutes.
TEST(RemeshctlTest, ADeadlineKeepsItsNanoseconds) {
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
TEST(RemeshctlTest, AWaitRidesOverARestartAfterALongSilence) {
  FakeReshardService service;
  const FakeServer server(service);
  const Result r = Remeshctl(
      "executions watch jobs/j/executions/e -o json --timeout 0.3 --server " + server.address());
  EXPECT_EQ(r.code, 0) << r.err;
}

// Regression: the message was empty. As the worker's, this server knows none of the calls.
TEST(RemeshctlTest, AWorkersSocketIsNoServer) {
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
TEST(RemeshctlTest, ABackupsDigestIsInEveryForm) {
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

// Regression: it overwrote any file without a word, and "-" became a file of that name.
TEST(RemeshctlTest, AnExportedPlanReplacesNoFileUnlessForced) {
  FakePlanService service;
  const FakeServer server(service);
  const std::string file = absl::StrCat(testing::TempDir(), "/remeshctl_test.", getpid(), ".plan");
  const auto exported = [&](const std::string& words) {
    return Remeshctl(absl::StrCat("plans export x ", words, " --server ", server.address()));
  };
  std::ofstream(file) << "mine";
  const Result refused = exported(file);
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find(file + " is there already"), std::string::npos) << refused.err;
  EXPECT_EQ(ReadAll(file), "mine");
  EXPECT_EQ(exported(file + " --force").code, 0);
  EXPECT_EQ(ReadAll(file), "file of plans/x");
  std::remove(file.c_str());
  EXPECT_EQ(exported(file).code, 0);
  EXPECT_EQ(ReadAll(file), "file of plans/x");
  std::remove(file.c_str());
  EXPECT_EQ(exported("-").out, "file of plans/x");
}

// Regression: --timeout was said to limit the call, but a watch waited for ever.
TEST(RemeshctlTest, TheTimeoutOfAWatchIsThatOfItsFirstAnswer) {
  FakeStateService service;
  const FakeServer server(service);
  const auto watch = [&](const std::string& state) {
    return Remeshctl(absl::StrCat("states watch jobs/j/states/", state,
                                  " -o name --timeout 0.2 --server ", server.address()));
  };
  const Result silent = watch("silent");
  EXPECT_EQ(silent.code, 1);
  EXPECT_NE(silent.err.find("said nothing for 0.2 s (--timeout)"), std::string::npos) << silent.err;
  const Result seldom = watch("seldom");
  EXPECT_EQ(seldom.code, 0) << seldom.err;
  EXPECT_EQ(seldom.out, "jobs/j/states/seldom\njobs/j/states/seldom\n");
  for (const char* command : {"states watch", "plans watch", "cache watch"}) {
    const Result help = Remeshctl(absl::StrCat(command, " --help"));
    EXPECT_NE(help.out.find("Longest wait for the first answer, seconds"), std::string::npos)
        << help.out;
  }
}

// Regression: the message named a field of the call, which no user has written.
TEST(RemeshctlTest, ARefusedFilterNamesItsFlag) {
  FakePlanService service;
  const FakeServer server(service);
  for (const char* command : {"plans list", "plans watch", "cache watch", "cache export ."}) {
    const Result r = Remeshctl(absl::StrCat(command, " --state x --server ", server.address()));
    EXPECT_EQ(r.code, 1) << command;
    EXPECT_EQ(r.err.find("remeshctl: --state: value \"x\" must be a name\n"), 0u) << r.err;
    EXPECT_EQ(r.err.find("filter.state"), std::string::npos) << r.err;
  }
}

TEST(RemeshctlTest, PlansOnAServer) {
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
