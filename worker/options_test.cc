// SPDX-License-Identifier: Apache-2.0
#include "worker/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::worker {
namespace {

using ::testing::HasSubstr;

std::string FieldOf(const absl::Status& status) { return GetErrorInfo(status).metadata["field"]; }

TEST(WorkerOptionsTest, TheExampleFileNamesEverySetting) {
  WorkerOptions options;
  service::Settings settings;
  AddSettings(options, settings);
  std::ifstream file("worker/config.example.yaml");
  const std::string example{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(example, settings.Example("The remesh worker: holds a host's buffers and moves them."))
      << "write it with: remesh-worker --print-config";
  EXPECT_TRUE(settings.Load(example).ok());
}

TEST(WorkerOptionsTest, LeftToTheMachine) {
  WorkerOptions options;
  options.devices = 2;
  ASSERT_TRUE(Complete(options).ok());
  EXPECT_FALSE(options.host.empty());
  EXPECT_EQ(options.device_ids, (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(options.data_bind_address, "127.0.0.1");  // towards a planner on 127.0.0.1
}

TEST(WorkerOptionsTest, TrainersGetTheServersAddressOfTheWorkerOrTheirOwn) {
  WorkerOptions options;
  options.server_address = "planner.internal:7070";
  EXPECT_EQ(ServerForTrainers(options).address, "planner.internal:7070");
  options.advertise_server = "planner.example:443";
  EXPECT_EQ(ServerForTrainers(options).address, "planner.example:443");
  EXPECT_EQ(ServerForTrainers(options).tls_server_name, "") << "without TLS";
  options.tls = {.ca = "ca", .certificate = "certificate", .key = "key"};
  EXPECT_EQ(ServerForTrainers(options).tls_server_name, "planner.internal")
      << "its certificate need not have the other name";
  options.advertise_server = "planner.internal:443";
  EXPECT_EQ(ServerForTrainers(options).tls_server_name, "");
  options.tls_server_name = "planner";
  EXPECT_EQ(ServerForTrainers(options).tls_server_name, "planner");
}

TEST(WorkerOptionsTest, TheServersAddressForTrainersHasNoCredentials) {
  for (const char* address : {"secret@planner:7070", "a/b:7070", "a b:7070"}) {
    WorkerOptions options;
    options.devices = 1;
    options.advertise_server = address;
    const absl::Status refused = ValidateHere(options);
    EXPECT_EQ(FieldOf(refused), "advertise_server") << address;
    EXPECT_EQ(std::string(refused.message()).find("secret"), std::string::npos) << refused;
  }
  for (const char* address : {"", "planner:7070", "10.0.0.1:1", "[fe80::1%eth0]:7070"}) {
    WorkerOptions options;
    options.devices = 1;
    options.advertise_server = address;
    EXPECT_TRUE(ValidateHere(options).ok()) << address;
  }
}

// Regression: the worker began with a name that the server refuses, and asked forever.
TEST(WorkerOptionsTest, TheHostsNameIsOneThatTheServerTakes) {
  for (const char* host : {"a b", "-a", "a/b", "\x7f"}) {
    WorkerOptions options;
    options.host = host;
    options.devices = 1;
    EXPECT_EQ(FieldOf(Complete(options)), "host") << host;
  }
}

TEST(WorkerOptionsTest, GpusAreOfTheKindsThatTheBinaryHas) {
  WorkerOptions options;
  options.gpus = {{.name = "cuda"}};
  options.transport = "nccl";
  options.device = "sim";
  const absl::Status refused = Complete(options);
  EXPECT_EQ(FieldOf(refused), "device");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("must be host or cuda"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("remesh-worker-sim"));

  options.gpus.push_back({.name = "sim"});
  EXPECT_TRUE(Complete(options).ok()) << Complete(options);
  options.device = "host";
  EXPECT_THAT(std::string(Complete(options).message()), HasSubstr("must be cuda or sim with"));
}

TEST(WorkerOptionsTest, DeviceIdsAreLeftToTheServerAllOrNone) {
  WorkerOptions options;
  options.devices = 3;
  options.device_ids = {"auto"};
  ASSERT_TRUE(Complete(options).ok());
  EXPECT_TRUE(HasAssignedIds(options));
  EXPECT_EQ(options.devices, 3);
  options.device_ids = {"0", "auto"};
  EXPECT_EQ(FieldOf(Complete(options)), "device_ids[1]");
  options.device_ids = {"auto", "auto"};
  EXPECT_EQ(FieldOf(Complete(options)), "device_ids[0]");
}

TEST(WorkerOptionsTest, TheJoinTokenIsTheFirstLineOfItsFile) {
  const std::string path = ::testing::TempDir() + "/join_token";
  std::ofstream(path) << "let me in\nsecond line\n";
  WorkerOptions options;
  options.join_token_file = path;
  ASSERT_TRUE(Complete(options).ok());
  EXPECT_EQ(options.join_token, "let me in");
  options.join_token_file = path + ".absent";
  EXPECT_EQ(FieldOf(Complete(options)), "join_token_file");
  std::ofstream(path) << "\n";
  options.join_token_file = path;
  EXPECT_EQ(FieldOf(Complete(options)), "join_token_file");
}

TEST(WorkerOptionsTest, CapacitiesAreThePresetsUnlessSet) {
  WorkerOptions options;
  options.preset = "hgx-h100";
  options.nic_bytes_per_second = 25e9;
  ASSERT_TRUE(Complete(options).ok());
  EXPECT_EQ(options.nics, 8);
  EXPECT_EQ(options.nic_bytes_per_second, 25e9);
  EXPECT_EQ(options.fabric_bytes_per_second, 450e9);
  options = {};
  ASSERT_TRUE(Complete(options).ok());
  EXPECT_EQ(options.nic_bytes_per_second, 12.5e9);
}

// Regression: a worker without a preset was taken for 12.5 GB/s NICs in silence.
TEST(WorkerOptionsTest, CapacitiesThatNoSettingSaysAreAssumed) {
  const auto assumed = [](WorkerOptions options) {
    EXPECT_TRUE(Complete(options).ok());
    EXPECT_EQ(options.nics, 1);
    return options.capacities_assumed;
  };
  WorkerOptions options;
  EXPECT_TRUE(assumed(options));
  options.nic_bytes_per_second = 1e9;
  EXPECT_TRUE(assumed(options)) << "nothing says the fabric's";
  options.fabric_bytes_per_second = 1e10;
  EXPECT_FALSE(assumed(options));
  options = {};
  options.preset = kAssumedPreset;
  EXPECT_FALSE(assumed(options));
}

TEST(WorkerOptionsTest, CostsOfMessagesAreThePresetsUnlessSet) {
  WorkerOptions options;
  options.post_seconds = 1e-5;
  ASSERT_TRUE(Complete(options).ok());
  EXPECT_EQ(options.nic_message_seconds, 10e-6) << "of TCP, as the preset says";
  EXPECT_EQ(options.post_seconds, 1e-5);
  EXPECT_EQ(options.posting_threads, 0) << "the server knows the transport's";
  options = {};
  options.preset = "hgx-h100";
  ASSERT_TRUE(Complete(options).ok());
  EXPECT_EQ(options.nic_message_seconds, 0);
  options = {};
  options.fabric_message_seconds = 2;
  EXPECT_EQ(FieldOf(Complete(options)), "fabric_message_seconds");
}

TEST(WorkerOptionsTest, WhatCannotBeIsNamed) {
  WorkerOptions options;
  options.device_ids = {"3", "x"};
  EXPECT_EQ(FieldOf(Complete(options)), "device_ids[1]");
  options.device_ids = {"3", "3"};
  EXPECT_EQ(FieldOf(Complete(options)), "device_ids[1]");
  options = {};
  options.preset = "abacus";
  EXPECT_EQ(FieldOf(Complete(options)), "preset");
  options = {};
  options.transport = "carrier-pigeon";
  EXPECT_EQ(FieldOf(Complete(options)), "transport");
}

TEST(WorkerOptionsTest, SourcesAreRecheckedIfOpenOrAlways) {
  for (const auto& [value, field] :
       {std::pair("if_open", ""), {"always", ""}, {"never", "recheck_sources"}}) {
    WorkerOptions options;
    options.devices = 1;
    options.recheck_sources = value;
    const absl::Status status = Complete(options);
    EXPECT_EQ(status.ok() ? "" : FieldOf(status), field) << value;
  }
}

TEST(WorkerOptionsTest, BadValuesInTheFileAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"server_address", "127.0.0.1:99999"},
      {"server_address", "127.0.0.1:0"},
      {"metrics_address", "127.0.0.1:65536"},
      {"metrics_address", "7072"},
      {"keepalive_time", "100ms"},  // the planner would hang up
      {"keepalive_timeout", "0"},
      {"copy_threads", "0"},
      {"slices_in_flight", "0"},
  };
  for (const auto& [key, value] : cases) {
    WorkerOptions options;
    service::Settings settings;
    AddSettings(options, settings);
    const absl::Status status = settings.Load(absl::StrCat(key, ": \"", value, "\""));
    EXPECT_EQ(FieldOf(status), key) << value;
    EXPECT_EQ(GetErrorInfo(status).metadata["value"], value);
  }
}

}  // namespace
}  // namespace remesh::worker
