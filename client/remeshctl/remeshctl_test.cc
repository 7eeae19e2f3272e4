// SPDX-License-Identifier: Apache-2.0
//
// The commands that answer in process, and what all commands have in common.
#include "client/testing/remeshctl.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

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
