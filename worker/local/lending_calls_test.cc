// SPDX-License-Identifier: Apache-2.0
// Lend as trainers call it: over both sockets of the worker, of memory of a simulated GPU.
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "service/rpc/error_info.h"
#include "worker/device/testing/sim_device.h"
#include "worker/device/testing/sim_lender.h"
#include "worker/local/handle_socket.h"
#include "worker/local/local_service.h"
#include "worker/local/unix_socket.h"

namespace remesh::worker {
namespace {

constexpr char kLoanState[] = "jobs/a/states/loan";
constexpr int64_t kLoanBytes = 4096;
constexpr uid_t kAnotherUser = 4321;
constexpr std::chrono::seconds kPatience(20);  // a call that gets no answer fails

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
        "host-a", store_.get(), &queue_, &loan_queue_,
        StateBuffers::Hooks{
            .moved_by = [](const std::string&) { return ""; },
            .changed = [](const v1::StateManifest&) {},
            .reserved = [this](const std::string& state,
                               const absl::Status& status) { calls_->Reserved(state, status); }});
    calls_ = std::make_unique<LocalCalls>(&*buffers_, &host_, [](const std::string&) {});
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
    if (!go_.HasBeenNotified()) go_.Notify();
    handle_server_ = nullptr;
    server_->Shutdown(std::chrono::seconds(1));
    files_.Stop();
    loans_.Stop();
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
  void WaitIfSlow() {
    if (!slow_.exchange(false)) return;
    begun_.Notify();
    go_.WaitForNotification();
  }
  // Lends on another thread, and returns when the worker opens the memory, which lasts until go_.
  std::thread LendSlowly(v1::LendRequest request, std::function<void(absl::Status)> answer) {
    slow_ = true;
    std::thread lending([=, this] { answer(Lend(request)); });
    begun_.WaitForNotification();
    return lending;
  }
  template <typename F>
  auto On(Strand& strand, F f) {
    std::promise<decltype(f())> result;
    strand.Post([&] { result.set_value(f()); });
    return result.get_future().get();
  }
  void UntilCallsWait(int calls) {
    while (On(strand_, [this] { return calls_->waiting(); }) < calls) std::this_thread::yield();
  }
  // Whether the worker has the lender's allocation open. A user who says another length is refused
  // only then.
  bool IsOpen() {
    const auto open = [this] { return segments_.ImportIpc(0, getuid(), lender_.handle(), 1).ok(); };
    return !On(loans_, open);
  }
  static std::string Reason(const absl::Status& status) { return GetErrorInfo(status).reason; }
  absl::Status Unseal() {
    v1::UnsealRequest request;
    request.set_state(kLoanState);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    v1::SealResponse response;
    return service::StatusFromGrpc(stub_->Unseal(&context, request, &response));
  }
  std::string HandlesPath() const { return directory_ + "/s" + kHandlesSuffix; }
  Fd Connect() const {
    auto connection = ConnectForPackets(HandlesPath());
    EXPECT_TRUE(connection.ok()) << connection.status();
    return connection.ok() ? *std::move(connection) : Fd();
  }
  // The lease that stands as long as the connection does.
  static std::string Lease(const Fd& connection) {
    EXPECT_TRUE(SendPacket(connection.get(), "lease", -1).ok());
    const auto answer = ReceivePacket(connection.get(), 100);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->bytes.substr(3) : "";
  }
  absl::Status Lend(const v1::LendRequest& request, grpc::ClientContext* given = nullptr) {
    grpc::ClientContext own, &context = given == nullptr ? own : *given;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    v1::SealResponse response;
    return service::StatusFromGrpc(stub_->Lend(&context, request, &response));
  }

  std::string directory_;
  Strand strand_, files_, loans_;
  FilesQueue queue_{&strand_, &files_};
  FilesQueue loan_queue_{&strand_, &loans_};
  HandleTable handles_;
  std::atomic<bool> slow_ = false;  // opening an allocation waits for go_
  absl::Notification begun_, go_;
  SimDevice device_{{.opening = [this] { WaitIfSlow(); }}, [] {}};
  DeviceSegments segments_{LocalDevices({&device_}), nullptr, &handles_};
  SimLender lender_{"sim:0", std::string(kLoanBytes, 'a')};
  std::unique_ptr<BufferStore> store_;
  HostFacts host_;
  std::optional<StateBuffers> buffers_;
  std::unique_ptr<LocalCalls> calls_;
  SocketGate gate_;
  std::optional<LocalService> service_;
  std::unique_ptr<UnixServer> server_;
  std::unique_ptr<PacketServer> handle_server_;
  std::unique_ptr<v1::LocalService::Stub> stub_;
};

TEST_F(LendingCallsTest, NoTrainerLendsByAnotherUsersLease) {
  if (getuid() != 0) GTEST_SKIP() << "only root may become another user";
  const Fd others = ConnectAs(kAnotherUser, HandlesPath());
  const absl::Status refused = Lend(Request(lender_.handle(), Lease(others)));
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_EQ(GetErrorInfo(refused).reason, "LEASE_OF_ANOTHER_USER");
  EXPECT_EQ(GetErrorInfo(refused).metadata["uid"], "0");
  EXPECT_EQ(GetErrorInfo(refused).metadata["lease_uid"], absl::StrCat(kAnotherUser));
  const Fd own = Connect();
  const absl::Status lent = Lend(Request(lender_.handle(), Lease(own)));
  EXPECT_TRUE(lent.ok()) << lent;
}

// Opening an allocation takes milliseconds, and a trainer may lend thousands. The worker answered
// no call in the meantime, not even the planner's Abort.
TEST_F(LendingCallsTest, NoCallWaitsWhileMemoryIsOpened) {
  const Fd own = Connect();
  const std::string lease = Lease(own);
  std::thread lending = LendSlowly(Request(lender_.handle(), lease), [](const absl::Status& lent) {
    EXPECT_TRUE(lent.ok()) << lent;
  });
  EXPECT_EQ(Reason(Unseal()), "NOT_ALLOCATED");
  EXPECT_EQ(handles_.leases().Held(lease), true);
  go_.Notify();
  lending.join();
  EXPECT_TRUE(IsOpen());
  EXPECT_TRUE(Unseal().ok());
}

TEST_F(LendingCallsTest, NoCallWaitsWhileMemoryIsClosed) {
  const Fd own = Connect();
  const std::string lease = Lease(own);
  ASSERT_TRUE(Lend(Request(lender_.handle(), lease)).ok());
  loans_.Post([this] { go_.WaitForNotification(); });
  EXPECT_TRUE(Unseal().ok());
  EXPECT_EQ(Reason(Unseal()), "NOT_ALLOCATED");
  EXPECT_EQ(handles_.leases().Held(lease), true) << "it is not closed yet";
  go_.Notify();
  EXPECT_FALSE(IsOpen());
  EXPECT_EQ(handles_.leases().Held(lease), false);
}

// Reserving memory takes a second for each gigabyte or so.
TEST_F(LendingCallsTest, NoLoanAndNoEndOfOneWaitsForMemoryThatIsReserved) {
  files_.Post([this] { go_.WaitForNotification(); });
  const Fd own = Connect();
  const std::string lease = Lease(own);
  const absl::Status lent = Lend(Request(lender_.handle(), lease));
  ASSERT_TRUE(lent.ok()) << lent;
  EXPECT_TRUE(Unseal().ok());
  EXPECT_FALSE(IsOpen());
  EXPECT_EQ(handles_.leases().Held(lease), false);
}

TEST_F(LendingCallsTest, ALeaseThatEndsWhileItsMemoryIsOpenedLeavesNothingOpen) {
  Fd own = Connect();
  const std::string lease = Lease(own);
  std::thread lending =
      LendSlowly(Request(lender_.handle(), lease), [](const absl::Status& refused) {
        EXPECT_EQ(GetErrorInfo(refused).metadata["field"], "lease") << refused;
      });
  own.Reset();
  while (handles_.leases().Find(lease) != nullptr) std::this_thread::yield();
  go_.Notify();
  lending.join();
  EXPECT_FALSE(IsOpen());
  EXPECT_TRUE(On(strand_, [this] { return store_->List().empty(); }));
}

TEST_F(LendingCallsTest, AStateForgottenWhileMemoryIsOpenedLeavesNothingOpen) {
  const Fd own = Connect();
  std::thread lending = LendSlowly(Request(lender_.handle(), Lease(own)), [](const auto& refused) {
    EXPECT_EQ(Reason(refused), "STATE_NOT_FOUND") << refused;
  });
  const auto forget = [this] { return buffers_->Forget(kLoanState, "uid"); };
  EXPECT_FALSE(On(strand_, forget));
  go_.Notify();
  lending.join();
  EXPECT_FALSE(IsOpen());
  EXPECT_TRUE(On(strand_, forget));
}

// A trainer whose call has ended must not find later that its memory was lent all the same.
TEST_F(LendingCallsTest, ACallThatIsCancelledLendsNothing) {
  const Fd own = Connect();
  const std::string lease = Lease(own);
  slow_ = true;
  grpc::ClientContext context;
  std::thread lending(
      [&] { EXPECT_TRUE(absl::IsCancelled(Lend(Request(lender_.handle(), lease), &context))); });
  begun_.WaitForNotification();
  context.TryCancel();
  lending.join();
  while (On(strand_, [this] { return calls_->waiting(); }) > 0) std::this_thread::yield();
  go_.Notify();
  EXPECT_FALSE(IsOpen());
  EXPECT_TRUE(On(strand_, [this] { return store_->List().empty(); }));
  EXPECT_TRUE(Lend(Request(lender_.handle(), lease)).ok());
}

TEST_F(LendingCallsTest, ASecondLoanWaitsForTheFirst) {
  const Fd own = Connect();
  const v1::LendRequest request = Request(lender_.handle(), Lease(own));
  std::thread lending =
      LendSlowly(request, [](const absl::Status& lent) { EXPECT_TRUE(lent.ok()) << lent; });
  std::thread second([&] { EXPECT_EQ(Reason(Lend(request)), "ALREADY_ALLOCATED"); });
  UntilCallsWait(2);
  go_.Notify();
  lending.join();
  second.join();
}

TEST_F(LendingCallsTest, ALoanThatFailsFailsNoOtherCall) {
  const Fd own = Connect();
  std::thread lending = LendSlowly(
      Request(std::string(kIpcHandleBytes, 'x'), Lease(own)),
      [](const absl::Status& refused) { EXPECT_TRUE(absl::IsInvalidArgument(refused)); });
  std::thread allocating([this] {
    v1::AllocateRequest request;
    request.set_state(kLoanState);
    grpc::ClientContext context;
    v1::ShardsResponse response;
    EXPECT_TRUE(stub_->Allocate(&context, request, &response).ok());
  });
  UntilCallsWait(2);
  go_.Notify();
  lending.join();
  allocating.join();
}

}  // namespace
}  // namespace remesh::worker
