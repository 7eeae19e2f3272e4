// SPDX-License-Identifier: Apache-2.0
// Lend as trainers call it: over both sockets of the worker, of memory of a simulated GPU.
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "service/error_info.h"
#include "worker/device/sim_device.h"
#include "worker/device/testing/sim_lender.h"
#include "worker/local/handle_socket.h"
#include "worker/local/local_service.h"
#include "worker/local/unix_socket.h"

namespace remesh::worker {
namespace {

constexpr char kLoanState[] = "jobs/a/states/loan";
constexpr int64_t kLoanBytes = 4096;
constexpr uid_t kAnotherUser = 4321;

// A connection to the socket of handles whose user, to the worker, is `uid`. REQUIRES: root.
Fd ConnectAs(uid_t uid, const std::string& path) {
  EXPECT_EQ(syscall(SYS_setresuid, -1, uid, -1), 0);  // of this thread alone
  auto connection = ConnectForPackets(path);
  EXPECT_EQ(syscall(SYS_setresuid, -1, 0, -1), 0);
  EXPECT_TRUE(connection.ok()) << connection.status();
  return connection.ok() ? *std::move(connection) : Fd();
}

class LendingCallsTest : public ::testing::Test {
 protected:
  LendingCallsTest() {
    std::string path = "/tmp/remesh_lend.XXXXXX";
    directory_ = mkdtemp(path.data());
    chmod(directory_.c_str(), 0755);  // other users must reach the sockets
    store_ = *BufferStore::Open({.directory = directory_ + "/buffers",
                                 .boot_id = "boot",
                                 .devices = 1,
                                 .segments = &segments_,
                                 .handles = &handles_});
    buffers_.emplace(
        "host-a", store_.get(), &queue_,
        StateBuffers::Hooks{
            .moving = [](const std::string&) { return false; },
            .changed = [](const v1::StateManifest&) {},
            .reserved = [this](const std::string& state,
                               const absl::Status& status) { calls_->Reserved(state, status); }});
    calls_ = std::make_unique<LocalCalls>(&*buffers_, [](const std::string&) {});
    service_.emplace(&strand_, &*buffers_, &*calls_, &gate_);
    grpc::ServerBuilder builder;
    builder.RegisterService(&*service_);
    server_ = *UnixServer::Start(builder, directory_ + "/s", gate_, {});
    handle_server_ = *ServeHandles(directory_ + "/s", &handles_, &gate_,
                                   [this] { strand_.Post([this] { buffers_->GiveLost(); }); });
    stub_ = v1::LocalService::NewStub(
        grpc::CreateChannel("unix:" + directory_ + "/s", grpc::InsecureChannelCredentials()));
    strand_.Post([this] { buffers_->Assign(OneShard()); });
  }
  ~LendingCallsTest() override {
    handle_server_ = nullptr;
    server_->Shutdown(std::chrono::seconds(1));
    files_.Stop();
    strand_.Stop();
    store_ = nullptr;
    std::filesystem::remove_all(directory_);
  }

  static v1::Assignment OneShard() {
    v1::Assignment assignment;
    assignment.set_state(kLoanState);
    assignment.set_state_uid("uid");
    assignment.set_generation(1);
    auto* array = assignment.add_arrays();
    array->set_name("w");
    array->add_shape(12);
    array->set_element_type("u8");
    auto* box = assignment.add_shards()->mutable_box();
    box->add_lo(0);
    box->add_hi(12);
    return assignment;
  }
  static v1::LendRequest Request(const std::string& handle, const std::string& lease) {
    v1::LendRequest request;
    request.set_state(kLoanState);
    request.set_lease(lease);
    v1::LentMemory& memory = *request.add_memories();
    memory.mutable_ipc()->set_handle(handle);
    memory.mutable_ipc()->set_bytes(kLoanBytes);
    memory.set_bytes(kLoanBytes);
    memory.set_kind("sim");
    memory.set_device_uuid("sim:0");
    request.add_shards()->set_array("w");
    return request;
  }
  std::string HandlesPath() const { return directory_ + "/s" + kHandlesSuffix; }
  // The lease that stands as long as the connection does.
  static std::string Lease(const Fd& connection) {
    EXPECT_TRUE(SendPacket(connection.get(), "lease", -1).ok());
    const auto answer = ReceivePacket(connection.get(), 100);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->bytes.substr(3) : "";
  }
  absl::Status Lend(const v1::LendRequest& request) {
    grpc::ClientContext context;
    v1::SealResponse response;
    return service::StatusFromGrpc(stub_->Lend(&context, request, &response));
  }

  std::string directory_;
  Strand strand_, files_;
  FilesQueue queue_{&strand_, &files_};
  HandleTable handles_;
  SimDevice device_{{}, [] {}};
  DeviceSegments segments_{LocalDevices({&device_}), nullptr, &handles_};
  SimLender lender_{"sim:0", std::string(kLoanBytes, 'a')};
  std::unique_ptr<BufferStore> store_;
  std::optional<StateBuffers> buffers_;
  std::unique_ptr<LocalCalls> calls_;
  SocketGate gate_;
  std::optional<LocalService> service_;
  std::unique_ptr<UnixServer> server_;
  std::unique_ptr<PacketServer> handle_server_;
  std::unique_ptr<v1::LocalService::Stub> stub_;
};

TEST_F(LendingCallsTest, NobodyLendsByAnotherUsersLease) {
  if (getuid() != 0) GTEST_SKIP() << "only root may become another user";
  const Fd others = ConnectAs(kAnotherUser, HandlesPath());
  const absl::Status refused = Lend(Request(lender_.handle(), Lease(others)));
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_EQ(GetErrorInfo(refused).reason, "LEASE_OF_ANOTHER_USER");
  EXPECT_EQ(GetErrorInfo(refused).metadata["uid"], "0");
  EXPECT_EQ(GetErrorInfo(refused).metadata["lease_uid"], absl::StrCat(kAnotherUser));
  const Fd own = ConnectAs(0, HandlesPath());
  const absl::Status lent = Lend(Request(lender_.handle(), Lease(own)));
  EXPECT_TRUE(lent.ok()) << lent;
}

}  // namespace
}  // namespace remesh::worker
