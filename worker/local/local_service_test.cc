// SPDX-License-Identifier: Apache-2.0
#include "worker/local/local_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "worker/local/testing/local_service_fixture.h"

namespace remesh::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(LocalServiceTest, TheSocketIsForTheGroupOnly) {
  struct stat info;
  ASSERT_EQ(stat(socket_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0660u);
}

TEST_F(LocalServiceTest, AllocateDescribesMappedShards) {
  Assign();
  ASSERT_TRUE(Allocate().ok());
  ASSERT_EQ(shards_.shards_size(), 3);
  EXPECT_EQ(shards_.generation(), 1);
  const v1::Shard& second = shards_.shards(1);
  EXPECT_EQ(second.array(), "w");
  EXPECT_EQ(second.device(), 11);
  EXPECT_EQ(second.bytes(), 48);
  EXPECT_THAT(second.strides(), ElementsAre(6, 1));
  EXPECT_THAT(second.shape(), ElementsAre(4, 6));
  EXPECT_EQ(second.offset() % 64, 0);
  EXPECT_EQ(shards_.shards(2).bytes(), 4);
  EXPECT_EQ(shards_.shards(2).path(), second.path());
  struct stat info;
  ASSERT_EQ(stat(second.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0660u);
  const std::string path = second.path();
  ASSERT_TRUE(Allocate().ok());
  EXPECT_EQ(shards_.shards(1).path(), path);
}

TEST_F(LocalServiceTest, SealingMakesItReadable) {
  Assign();
  EXPECT_EQ(Reason(Seal()), "NOT_ALLOCATED");
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Seal("w").ok());
  EXPECT_EQ(seals_.sealed_shards(), 2);
  EXPECT_EQ(seals_.total_shards(), 3);
  EXPECT_EQ(Reason(GetShards(1)), "NOT_READABLE");
  EXPECT_EQ(Reason(Allocate()), "SHARD_SEALED");
  ASSERT_TRUE(Seal("n", 11).ok());
  ASSERT_TRUE(GetShards(1).ok());
  EXPECT_TRUE(shards_.shards(0).sealed());
  EXPECT_EQ(changes_.back().phase(), v1::SHARD_PHASE_READY);
  EXPECT_EQ(changes_.back().sealed_shards(), 3);
  moving_ = true;
  EXPECT_EQ(Reason(Unseal()), "STATE_MOVING");
  EXPECT_EQ(Unseal().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(GetErrorInfo(Unseal()).metadata["execution"], kLocalExecution);
  moving_ = false;
  ASSERT_TRUE(Unseal().ok());
  EXPECT_EQ(seals_.sealed_shards(), 0);
  EXPECT_EQ(changes_.back().phase(), v1::SHARD_PHASE_BUILDING);
}

TEST_F(LocalServiceTest, ErrorsNameFieldAndValue) {
  EXPECT_EQ(Reason(Allocate()), "STATE_NOT_FOUND");
  EXPECT_EQ(GetErrorInfo(Allocate()).metadata["state"], kLocalState);
  Assign();
  ASSERT_TRUE(Allocate().ok());
  const absl::Status array = Seal("x");
  EXPECT_EQ(GetErrorInfo(array).metadata["field"], "shards[0].array");
  EXPECT_EQ(GetErrorInfo(array).metadata["value"], "x");
  const absl::Status device = Seal("", 12);
  EXPECT_EQ(GetErrorInfo(device).metadata["field"], "shards[0].devices[0]");
  EXPECT_EQ(GetErrorInfo(GetShards(0)).reason, "INVALID_FIELD");
  EXPECT_EQ(GetErrorInfo(GetShards(9)).metadata["generation"], "9");
}

// The call used to wait until its deadline for a state with such a name.
TEST_F(LocalServiceTest, AMisspelledNameIsRefusedAtOnce) {
  for (const char* name : {"", "b", "jobs/a/executions/b", "jobs//states/b", "jobs/a/states/b/c"}) {
    v1::AllocateRequest request;
    request.set_state(name);
    request.set_wait(true);
    grpc::ClientContext context;
    v1::ShardsResponse response;
    const absl::Status status =
        service::StatusFromGrpc(stub_->Allocate(&context, request, &response));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name << ": " << status;
    EXPECT_EQ(GetErrorInfo(status).metadata["value"], name);
  }
}

TEST_F(LocalServiceTest, ATrainerLearnsWhatItsHostIs) {
  OnStrand([this] {
    host_ = HostFacts(TwoDevices(), {.address = "planner:7070", .tls_server_name = "planner.a"});
    return true;
  });
  ASSERT_TRUE(GetHost(/*wait=*/false).ok());
  EXPECT_EQ(facts_.host(), "host-a");
  EXPECT_EQ(facts_.server_address(), "planner:7070");
  EXPECT_EQ(facts_.tls_server_name(), "planner.a");
  EXPECT_EQ(facts_.cluster_uid(), "");
  EXPECT_FALSE(facts_.attached());
  ASSERT_EQ(facts_.devices_size(), 2);
  EXPECT_EQ(facts_.devices(1).id(), -1);
  EXPECT_EQ(facts_.devices(1).index(), 1);
  EXPECT_EQ(facts_.devices(0).kind(), "host");
  EXPECT_EQ(facts_.devices(1).kind(), "cuda");
  EXPECT_EQ(facts_.devices(1).memory_bytes(), 2048);
}

TEST_F(LocalServiceTest, AStaleSocketIsReplacedAndALiveOneIsNot) {
  grpc::ServerBuilder second;
  EXPECT_THAT(std::string(UnixServer::Start(second, socket_, gate_, {}).status().message()),
              HasSubstr("in use by another process"));
  const std::string stale = directory_ + "/stale.sock";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  stale.copy(address.sun_path, stale.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  close(fd);
  LocalService service(&strand_, buffers_.get(), calls_.get(), &gate_);
  grpc::ServerBuilder third;
  third.RegisterService(&service);
  auto server = UnixServer::Start(third, stale, gate_, {});
  ASSERT_TRUE(server.ok()) << server.status();
  (*server)->Shutdown(std::chrono::seconds(1));
  EXPECT_FALSE(fs::exists(stale));
  std::ofstream(directory_ + "/file") << "x";
  grpc::ServerBuilder fourth;
  EXPECT_FALSE(UnixServer::Start(fourth, directory_ + "/file", gate_, {}).ok());
}

TEST_F(LocalServiceTest, AConnectionWithoutACallEnds) {
  LocalService service(&strand_, buffers_.get(), calls_.get(), &gate_);
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  const std::string path = directory_ + "/idle.sock";
  auto server =
      UnixServer::Start(builder, path, gate_, {.idle_max = std::chrono::milliseconds(100)});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto channel = grpc::CreateChannel("unix:" + path, grpc::InsecureChannelCredentials());
  const auto end = std::chrono::system_clock::now() + std::chrono::seconds(20);
  ASSERT_TRUE(channel->WaitForConnected(end));
  EXPECT_TRUE(channel->WaitForStateChange(GRPC_CHANNEL_READY, end));
}

}  // namespace
}  // namespace remesh::worker
