// SPDX-License-Identifier: Apache-2.0
#include "service/settings/settings.h"

#include <gtest/gtest.h>

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "base/text/units.h"
#include "service/settings/read_settings.h"

namespace remesh::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

struct Values {
  std::string address = "127.0.0.1:7070";
  std::vector<std::string> transports = {"ucx", "memory"};
  bool reflection = true;
  int64_t threads = 4;
  double rate = 1e9;
  nanoseconds lost_after = seconds(5);
  int64_t window = 256 << 20;
};

Settings Table(Values& values) {
  Settings settings;
  settings.Section("Network");
  settings.AddAddress("listen_address", &values.address, "Where gRPC is served.", {});
  settings.AddStrings("transports", &values.transports, "In order of preference.");
  settings.AddBool("reflection", &values.reflection, "Whether reflection is served.");
  settings.Section("Limits");
  settings.AddInt("threads", &values.threads, "Threads that plan.", 1, 64);
  settings.AddDouble("rate", &values.rate, "Bytes per second.");
  settings.AddDuration("lost_after", &values.lost_after, "A worker silent for longer is lost.");
  settings.AddBytes("window", &values.window, "Bytes in flight.");
  return settings;
}

TEST(SettingsTest, ReadsEveryType) {
  Values values;
  Settings settings = Table(values);
  const absl::Status status = settings.Load(R"(
# comment
listen_address: 0.0.0.0:1
transports: [memory]
reflection: false
threads: 64
rate: 2.5e9
lost_after: 300ms
window: 1.5GiB
)");
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(values.address, "0.0.0.0:1");
  EXPECT_EQ(values.transports, std::vector<std::string>{"memory"});
  EXPECT_FALSE(values.reflection);
  EXPECT_EQ(values.threads, 64);
  EXPECT_EQ(values.rate, 2.5e9);
  EXPECT_EQ(values.lost_after, milliseconds(300));
  EXPECT_EQ(values.window, int64_t{3} << 29);
}

TEST(SettingsTest, AddressesHaveAHostAndAPort) {
  std::string any, dialled, optional;
  Settings settings;
  settings.AddAddress("any", &any, "Port 0: any.", {});
  settings.AddAddress("dialled", &dialled, "Somebody is there.", {.port_min = 1});
  settings.AddAddress("optional", &optional, "Empty: nowhere.", {.optional = true});
  for (const char* good : {"127.0.0.1:0", "[::]:7070", "planner.svc:65535", "localhost:1"}) {
    EXPECT_TRUE(settings.Set("any", good).ok()) << good;
    EXPECT_EQ(any, good);
  }
  for (const char* bad : {"", "127.0.0.1", "127.0.0.1:", ":7070", "127.0.0.1:99999", "a:-1", "a:+1",
                          "a:65536", "a:x", "::1:7070", "a:99999999999999999999"}) {
    const absl::Status status = settings.Set("any", bad);
    EXPECT_EQ(GetErrorInfo(status).metadata["field"], "any") << bad;
    EXPECT_EQ(GetErrorInfo(status).metadata["value"], bad);
  }
  EXPECT_EQ(any, "localhost:1");
  EXPECT_FALSE(settings.Set("dialled", "a:0").ok());
  EXPECT_TRUE(settings.Set("dialled", "a:1").ok());
  EXPECT_TRUE(settings.Set("optional", "").ok());
  EXPECT_FALSE(settings.Set("optional", "x").ok());
}

TEST(SettingsTest, DurationsHaveALeast) {
  nanoseconds patience = seconds(1);
  Settings settings;
  settings.AddDuration("patience", &patience, "How long.", milliseconds(1));
  EXPECT_EQ(GetErrorInfo(settings.Set("patience", "0")).metadata["field"], "patience");
  EXPECT_FALSE(settings.Set("patience", "999us").ok());
  EXPECT_TRUE(settings.Set("patience", "1ms").ok());
}

TEST(SettingsTest, ObjectsAreKeptAsJson) {
  std::string rules;
  Settings settings;
  settings.AddObject("rules", &rules, "What holds.");
  ASSERT_TRUE(settings.Load("rules:\n  hosts: [{match: a}]\n").ok());
  EXPECT_EQ(rules, R"({"hosts":[{"match":"a"}]})");
  ASSERT_TRUE(settings.Set("rules", R"({"hosts":[]})").ok());
  EXPECT_EQ(rules, R"({"hosts":[]})");
  EXPECT_NE(settings.Example("").find("# rules: {}"), std::string::npos);
}

TEST(SettingsTest, UnknownKeysAreRefusedWithTheNearest) {
  Values values;
  Settings settings = Table(values);
  const absl::Status status = settings.Load("threads: 9\nlost_aftr: 1s");
  EXPECT_EQ(GetErrorInfo(status).reason, "UNKNOWN_KEY");
  EXPECT_EQ(std::string(status.message()),
            "unknown key \"lost_aftr\"; did you mean \"lost_after\"?");
  // Regression: it suggested the nearest key, however far away.
  EXPECT_EQ(std::string(settings.Load("nonsense: 1").message()),
            "unknown key \"nonsense\"; --print-config shows all");
  EXPECT_EQ(values.threads, 4) << "nothing is set by a bad file";
}

TEST(SettingsTest, BadValuesNameKeyAndValue) {
  const std::pair<const char*, const char*> cases[] = {
      {"threads: 0", "threads"},
      {"threads: 65", "threads"},
      {"threads: x", "threads"},
      {"threads: [1]\nreflection: maybe", "reflection"},
      {"rate: nan", "rate"},
      {"rate: -1", "rate"},
      {"lost_after: 5", "lost_after"},
      {"lost_after: 5 parsecs", "lost_after"},
      {"lost_after: -5s", "lost_after"},
      {"window: 1e3XB", "window"},
      {"window: 99999999TiB", "window"},
      {"threads: {a: b}", "threads"},
      {"threads:", "threads"},
      {"threads: [1, 2]", "threads"},
  };
  for (const auto& [yaml, key] : cases) {
    Values values;
    Settings settings = Table(values);
    const absl::Status status = settings.Load(yaml);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << yaml;
    EXPECT_EQ(GetErrorInfo(status).metadata["field"], key) << yaml << " " << status;
  }
  Values values;
  Settings settings = Table(values);
  EXPECT_FALSE(settings.Load("threads: 1\nthreads: 2").ok());
  EXPECT_FALSE(settings.Load("- 1").ok());
  EXPECT_FALSE(settings.Load("a: [").ok());
  EXPECT_TRUE(settings.Load("# nothing\n\n").ok());
}

// Every key is in the example, and the example with its comments taken off sets every key to its
// default.
TEST(SettingsTest, TheExampleDocumentsEveryKey) {
  Values values;
  Settings settings = Table(values);
  std::string example = settings.Example("Settings of a test.");
  for (const std::string& key : settings.keys()) {
    EXPECT_TRUE(absl::StrContains(example, "\n# " + key + ": ")) << key;
    example = absl::StrReplaceAll(example, {{"\n# " + key + ": ", "\n" + key + ": "}});
  }
  const Values defaults;
  values = Values{.address = "x",
                  .transports = {},
                  .reflection = false,
                  .threads = 1,
                  .rate = 1,
                  .lost_after = nanoseconds(1),
                  .window = 1};
  const absl::Status status = settings.Load(example);
  ASSERT_TRUE(status.ok()) << status << "\n" << example;
  EXPECT_EQ(values.address, defaults.address);
  EXPECT_EQ(values.transports, defaults.transports);
  EXPECT_EQ(values.reflection, defaults.reflection);
  EXPECT_EQ(values.threads, defaults.threads);
  EXPECT_EQ(values.rate, defaults.rate);
  EXPECT_EQ(values.lost_after, defaults.lost_after);
  EXPECT_EQ(values.window, defaults.window);
}

std::optional<int> Start(
    Settings& settings, std::vector<std::string> args,
    const CheckSettings& check = [] { return std::vector<absl::Status>(); }) {
  args.insert(args.begin(), "remesh-test");
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  return ReadSettings(static_cast<int>(argv.size()), argv.data(), "A test.", settings, check)
      .exit_code;
}

TEST(SettingsTest, FlagsOverrideTheFile) {
  const std::string path = testing::TempDir() + "/remesh_settings_test.yaml";
  std::ofstream(path) << "threads: 8\nlost_after: 2s\n";
  Values values;
  Settings settings = Table(values);
  ASSERT_EQ(Start(settings, {"--config", path, "--threads", "16", "--transports=a,b",
                             "--reflection", "false"}),
            std::nullopt);
  EXPECT_EQ(values.threads, 16);
  EXPECT_EQ(values.lost_after, seconds(2));
  EXPECT_EQ(values.transports, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(values.reflection);
}

// Regression: the next word was taken for its value and was lost as a flag.
TEST(SettingsTest, AFlagMayBeEmpty) {
  Values values;
  Settings settings = Table(values);
  ASSERT_EQ(Start(settings, {"--transports=", "--threads", "16"}), std::nullopt);
  EXPECT_TRUE(values.transports.empty());
  EXPECT_EQ(values.threads, 16);
}

TEST(SettingsTest, PrintsWhatIsInForce) {
  const std::string path = testing::TempDir() + "/remesh_settings_print_test.yaml";
  std::ofstream(path) << "threads: 8\nlost_after: 2s\n";
  Values values;
  Settings settings = Table(values);
  const std::string defaults = settings.Example("A test.");
  testing::internal::CaptureStdout();
  EXPECT_EQ(Start(settings, {"--print-config", "--config", path, "--transports=a,b"}), 0);
  const std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_NE(printed.find("\nthreads: 8\n"), std::string::npos) << printed;
  EXPECT_NE(printed.find("\ntransports: [a, b]\n"), std::string::npos) << printed;
  Values read;
  Settings again = Table(read);
  EXPECT_EQ(again.InForce("A test."), defaults);
  ASSERT_TRUE(again.Load(printed).ok());
  EXPECT_EQ(again.InForce("A test."), printed);
}

TEST(SettingsTest, CheckConfigNamesEveryErrorByItsLine) {
  const std::string path = testing::TempDir() + "/remesh_settings_check_test.yaml";
  std::ofstream(path) << "# a file\nthreads: many\nlost_after: 2s\nthread: 7\n";
  Values values;
  Settings settings = Table(values);
  testing::internal::CaptureStderr();
  EXPECT_EQ(Start(settings, {"--config", path, "--check-config"}), 2);
  const std::string errors = testing::internal::GetCapturedStderr();
  EXPECT_NE(errors.find(path + ":2: threads: value \"many\""), std::string::npos) << errors;
  EXPECT_NE(errors.find(path + ":4: unknown key \"thread\""), std::string::npos) << errors;
}

TEST(SettingsTest, CheckConfigAsksWhatValuesAreTogether) {
  const std::string path = testing::TempDir() + "/remesh_settings_together_test.yaml";
  std::ofstream(path) << "threads: 8\nlost_after: 2s\n";
  Values values;
  Settings settings = Table(values);
  testing::internal::CaptureStdout();
  EXPECT_EQ(Start(settings, {"--config", path, "--check-config"}), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "ok\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(
      Start(settings, {"--config", path, "--check-config"},
            [] { return std::vector<absl::Status>{InvalidField("lost_after", "2s", "is short")}; }),
      2);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            path + ":2: lost_after: value \"2s\" is short\n");
  testing::internal::CaptureStdout();
  EXPECT_EQ(Start(settings, {"--check-config"},
                  [] { return std::vector<absl::Status>{absl::NotFoundError("elsewhere")}; }),
            0)
      << "a file that is not here is no error";
  testing::internal::GetCapturedStdout();
}

TEST(SettingsTest, ARetiredSettingMayStayForOneReleaseButIsDocumentedNowhere) {
  const std::string path = testing::TempDir() + "/remesh_settings_retired_test.yaml";
  std::ofstream(path) << "threads: 8\nold: false\n";
  Values values;
  Settings settings = Table(values);
  settings.AddRetired("old", "false");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  EXPECT_EQ(Start(settings, {"--config", path, "--check-config"}), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "ok\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            path + ":2: old has no effect any more: remove it\n");
  EXPECT_EQ(settings.IgnoredKeys(), std::vector<std::string>{"old"});
  EXPECT_EQ(settings.InForce("").find("old:"), std::string::npos);
  EXPECT_FALSE(settings.Values().contains("old"));
  const absl::Status status = settings.Load("old: true");
  EXPECT_EQ(GetErrorInfo(status).metadata["field"], "old");
  EXPECT_EQ(GetErrorInfo(status).metadata["value"], "true");
}

TEST(SettingsTest, LiveSettingsSayThatTheyAre) {
  Values values;
  Settings settings = Table(values);
  settings.Live({"threads"});
  EXPECT_TRUE(settings.Values().at("threads").live);
  EXPECT_FALSE(settings.Values().at("rate").live);
  EXPECT_NE(settings.Example("A test.").find("without a restart"), std::string::npos);
}

TEST(SettingsTest, ADirectoryIsNoFile) {
  Values values;
  Settings settings = Table(values);
  testing::internal::CaptureStderr();
  EXPECT_EQ(Start(settings, {"--config", testing::TempDir()}), 2);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("is a directory"), std::string::npos);
}

TEST(SettingsTest, EndsAfterHelpAndErrors) {
  Values values;
  Settings settings = Table(values);
  EXPECT_EQ(Start(settings, {"--help"}), 0);
  EXPECT_EQ(Start(settings, {"--version"}), 0);
  EXPECT_EQ(Start(settings, {"--print-config"}), 0);
  EXPECT_EQ(Start(settings, {"--nonsense"}), 2);
  EXPECT_EQ(Start(settings, {"--threads", "many"}), 2);
  Settings fresh = Table(values);
  EXPECT_EQ(Start(fresh, {"--config", "no/such/file.yaml"}), 2);
}

}  // namespace
}  // namespace remesh::service
