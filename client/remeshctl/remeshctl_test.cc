// SPDX-License-Identifier: Apache-2.0
//
// The commands that answer in process, and what all commands have in common.
#include "client/testing/remeshctl.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace remesh::client {
namespace {

using Json = nlohmann::ordered_json;

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

// Regression: narrow windows made plans of a million windows without a word.
TEST(RemeshctlTest, ManyWindowsAreAWarning) {
  const auto planned = [](const std::string& window_bytes) {
    std::string spec = ReadAll(kExample);
    const auto replace = [&](const std::string& given, const std::string& by) {
      spec.replace(spec.find(given), given.size(), by);
    };
    replace("268435456", window_bytes);
    replace("\"shape\":[8,8]", "\"shape\":[4096,1024]");
    const std::string file =
        absl::StrCat(testing::TempDir(), "/remeshctl_test.", getpid(), ".windows");
    std::ofstream(file) << spec;
    const Result result = Remeshctl(absl::StrCat("plan -o json -f ", file));
    std::remove(file.c_str());
    EXPECT_EQ(result.code, 0) << result.err;
    return std::pair(Json::parse(result.out)["plan"]["summary"]["windows"].get<int>(), result.err);
  };
  const auto [many, warning] = planned("256");
  EXPECT_GT(many, 20'000);
  EXPECT_NE(warning.find(absl::StrCat("takes ", many, " windows, more than 20000")), warning.npos)
      << warning;
  const auto [few, silence] = planned("4096");
  EXPECT_LE(few, 20'000);
  EXPECT_GT(few, 1'000);
  EXPECT_EQ(silence, "");
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
  EXPECT_EQ(
      r.err,
      "remeshctl: cannot reach 127.0.0.1:1: connection refused; is the server running there?\n"
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
  EXPECT_EQ(summary["totalBytes"], "896");
  EXPECT_EQ(summary["keptBytes"], "896");
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
           {"nonsense", "\"nonsense\" is not a command"},
           {"plans nonsense", "\"nonsense\" is not a command"},
           {"plan -f x --view half", "value \"half\" must be one of basic, full"},
           {"reshard jobs/a/states/b --plan plans/x --generation 0",
            "value \"0\" must be a whole number, 1 or greater"},
           {"plan -f x --timeout nan", "value \"nan\" must be a duration above 0 and at most 30d"},
           {"plam", "\"plam\" is not a command; did you mean \"plan\"?"},
           {"states lits", "did you mean \"list\"?"},
           {"plan --flie x", "remeshctl: unknown flag --flie; did you mean --file?"},
           {"plans list --sourc-devices 8",
            "unknown flag --sourc-devices; did you mean --source-devices?"},
           {"states list --contxt x", "unknown flag --contxt; did you mean --context?"},
           {"states --server a:1 list",
            "unknown flag --server before the command; put flags after the command"},
           {"plans list --context", "--context needs a value: the name of a context"},
           {"plans watch -w", "unknown flag -w; this command watches already"},
           {"help plams", "\"plams\" is not a command; did you mean \"plans\"?"},
           {"help states create now", "did you mean \"remeshctl help states create\"?"}}) {
    const Result r = Remeshctl(arguments);
    EXPECT_EQ(r.code, 2) << arguments;
    EXPECT_NE(r.err.find(said), std::string::npos) << r.err;
  }
}

TEST(RemeshctlTest, WhatIsMissingIsNamed) {
  for (const auto& [arguments, said] : std::vector<std::pair<const char*, const char*>>{
           {"config", "config: no command given; commands: view, get-contexts, use-context"},
           {"", "remeshctl: no command given; commands: layout, sharding, "},
           {"plans precompute --state jobs/a/states/b",
            "at least one of --lose-one, --drain-one, --return-one, --plus-minus is required"},
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
    EXPECT_NE(r.err.find("no/such: no such folder"), std::string::npos) << r.err;
  }
}

TEST(RemeshctlTest, AFileThatCannotBeWrittenSaysWhy) {
  const Result r = Remeshctl(absl::StrCat("plan --html /no/such/x -f ", kExample));
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("cannot write /no/such/x: No such file or directory\n  code: NOT_FOUND"),
            std::string::npos)
      << r.err;
}

// Refuses values that the parser would cut to the range of their type, and names flag, value and
// range.
TEST(RemeshctlTest, NumbersOutOfRangeAreRefused) {
  constexpr char kReshard[] = "reshard jobs/a/states/b --plan plans/x ";
  for (const auto& [arguments, flag, value, limit] : std::vector<std::array<std::string, 4>>{
           {absl::StrCat(kReshard, "--deadline 1e18"), "--deadline", "1e18", "at most 30d"},
           {absl::StrCat(kReshard, "--deadline 1e-10"), "--deadline", "1e-10", "from 1ns"},
           {absl::StrCat(kReshard, "--timeout 1e18"), "--timeout", "1e18", "at most 30d"},
           {absl::StrCat(kReshard, "--generation 99999999999999999999"), "--generation",
            "99999999999999999999", "9223372036854775807"},
           {absl::StrCat(kReshard, "--generation 1.5"), "--generation", "1.5", "whole"},
           {absl::StrCat(kReshard, "--window-bytes 0x10"), "--window-bytes", "0x10",
            "as in 256MiB"},
           {absl::StrCat(kReshard, "--lost-devices 1,-2"), "--lost-devices", "-2", "0 or greater"},
           {"plans list --timeout 1e300", "--timeout", "1e300", "at most 30d"},
           {"plans list --hits-min 99999999999999999999", "--hits-min", "99999999999999999999",
            "9223372036854775807"},
           {"topology show hgx-h100 --hosts 99999999999999999999", "--hosts",
            "99999999999999999999", "9223372036854775807"},
           {"plans precompute --state jobs/a/states/b --plus-minus 3000000000", "--plus-minus",
            "3000000000", "2147483647"},
           {"get jobs/a/states/b . --generation -1", "--generation", "-1", "1 or greater"}}) {
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
  EXPECT_NE(r.err.find("client/testdata is a folder: name a file"), std::string::npos) << r.err;
  const std::string file = absl::StrCat(testing::TempDir(), "/remeshctl_test.", getpid(), ".yaml");
  std::ofstream(file) << "arrays: [\nx: }";
  r = Remeshctl("plan -f " + file);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find(file + ":2:4: "), std::string::npos) << r.err;
  r = Remeshctl("plan -f - < " + file);
  EXPECT_NE(r.err.find("remeshctl: stdin:2:4: "), std::string::npos) << r.err;
  // What is refused only after reading, too.
  std::string spec = ReadAll(kExample);
  spec.replace(spec.find("\"hlo_text\":\""), 12, "\"hlo_text\":\"?");
  std::ofstream(file) << spec;
  for (const char* command : {"plan -f ", "layout -f "}) {
    r = Remeshctl(command + file);
    EXPECT_EQ(r.code, 1);
    EXPECT_EQ(r.err.find(absl::StrCat("remeshctl: ", file, ":4: ")), 0u) << r.err;
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

TEST(RemeshctlTest, AFieldsNameCannotMoveTheCursor) {
  const std::string file = absl::StrCat(testing::TempDir(), "/remeshctl_test.", getpid(), ".keys");
  std::ofstream(file) << "\"op\\e[31mts\": 3\n";
  const Result r = Remeshctl("plan -f " + file);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("op\\x1b[31mts: value"), std::string::npos) << r.err;
  EXPECT_EQ(r.err.find('\x1b'), std::string::npos) << r.err;
  std::remove(file.c_str());
}

TEST(RemeshctlTest, AnotherKindOfFileIsNamed) {
  const Result r = Remeshctl(absl::StrCat("states create -f ", kExample, " --server 127.0.0.1:1"));
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(
      r.err.find("this looks like the spec of a plan, which remeshctl plan -f reads; this command "
                 "expects a state"),
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
  EXPECT_EQ(Remeshctl("help nonsense").code, 2);
  EXPECT_NE(Remeshctl("help plams").err.find("did you mean \"plans\"?"), std::string::npos);
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

}  // namespace
}  // namespace remesh::client
