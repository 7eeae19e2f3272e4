// SPDX-License-Identifier: Apache-2.0
#include "server/options.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "server/coordination/world.h"

namespace remesh::server {
namespace {

struct Loaded {
  absl::Status status;
  ServerOptions options;
};

Loaded Load(const std::string& yaml) {
  Loaded loaded;
  service::Settings settings;
  AddSettings(loaded.options, settings);
  loaded.status = settings.Load(yaml);
  if (loaded.status.ok()) loaded.status = Validate(loaded.options);
  return loaded;
}

TEST(ServerOptionsTest, DefaultsAreValid) {
  ServerOptions options;
  EXPECT_TRUE(Validate(options).ok());
  EXPECT_TRUE(CoreOptionsOf(options).controller.topology_rules.domains().empty());
}

// The server probes a silent process, and its member may join again once the probe has failed. What
// is left is for the machine to be slow.
TEST(ServerOptionsTest, ASilentMemberIsLostWithinTenSeconds) {
  const ServerOptions options;
  const auto silent = absl::FromChrono(options.keepalive_time + options.keepalive_timeout);
  EXPECT_LE(silent + coordination::kRejoinTime, absl::Seconds(9));
}

TEST(ServerOptionsTest, BadValuesInTheFileAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"listen_address", "127.0.0.1:99999"},
      {"listen_address", "7070"},
      {"metrics_address", "127.0.0.1:-1"},
      {"quiesce_timeout", "0"},
      {"heartbeat_interval", "0"},
      {"lost_after", "1s"},
      {"stall_timeout", "1s"},
      {"execution_deadline", "0"},
      {"keepalive_time", "0"},
      {"keepalive_timeout", "1us"},
      {"message_bytes_max", "1"},
      {"cluster_uid", "abc"},
      {"accept_older_journal", "k/j.db"},
      {"recover_from_workers", "true"},
  };
  for (const auto& [key, value] : cases) {
    const absl::Status status = Load(absl::StrCat(key, ": \"", value, "\"")).status;
    EXPECT_EQ(GetErrorInfo(status).metadata["field"], key) << value;
    EXPECT_TRUE(GetErrorInfo(status).metadata.contains("value")) << key;
  }
}

TEST(ServerOptionsTest, ARetiredSettingIsIgnoredByName) {
  ServerOptions options;
  service::Settings settings;
  AddSettings(options, settings);
  EXPECT_TRUE(settings.IgnoredKeys().empty());
  ASSERT_TRUE(settings.Load("recover_from_workers: false").ok());
  EXPECT_EQ(settings.IgnoredKeys(), std::vector<std::string>{"recover_from_workers"});
  EXPECT_EQ(settings.Example("").find("recover_from_workers"), std::string::npos);
}

TEST(ServerOptionsTest, RacksStandInTheFile) {
  const Loaded loaded = Load(R"(
topology:
  hosts:
  - {match: "*", preset: hgx-a100, parent: rack-1}
  domains:
  - {name: rack-1, egress_bytes_per_second: 400e9, ingress_bytes_per_second: 200e9}
)");
  ASSERT_TRUE(loaded.status.ok()) << loaded.status;
  const TopologyRules rules = CoreOptionsOf(loaded.options).controller.topology_rules;
  ASSERT_EQ(rules.domains().size(), 1u);
  EXPECT_EQ(rules.domains()[0].ingress_bytes_per_second, 200e9);
  v1::Register worker;
  worker.set_host("any");
  EXPECT_EQ(rules.HostOf(worker).nics, 8);
  EXPECT_EQ(rules.HostOf(worker).parent, "rack-1");
}

TEST(ServerOptionsTest, ABadRuleIsNamedByItsPlaceInTheFile) {
  const absl::Status status = Load("topology: {hosts: [{match: a, parent: rack-1}]}").status;
  EXPECT_EQ(GetErrorInfo(status).metadata["field"], "topology.hosts[0].parent");
  EXPECT_FALSE(Load("topology: {racks: []}").status.ok());
  EXPECT_FALSE(Load("topology: fast").status.ok());
}

// GetServer shows all settings to its callers.
TEST(ServerOptionsTest, SettingsNameTheFilesOfSecretsAndHoldNone) {
  ServerOptions options;
  service::Settings settings;
  AddSettings(options, settings);
  int secrets = 0;
  for (const auto& [key, value] : settings.Values()) {
    for (const char* word : {"token", "secret", "password", "key_", "credential"}) {
      if (key.find(word) == std::string::npos) continue;
      ++secrets;
      EXPECT_TRUE(key.ends_with("_file")) << key;
    }
  }
  EXPECT_EQ(secrets, 2);  // tls_key_file, join_token_file
}

}  // namespace
}  // namespace remesh::server
