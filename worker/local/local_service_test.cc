// SPDX-License-Identifier: Apache-2.0
#include "worker/local/local_service.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "service/rpc/error_info.h"
#include "worker/local/unix_socket.h"

namespace remesh::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kState[] = "jobs/a/states/b";
constexpr char kExecution[] = "jobs/a/executions/1";

class LocalServiceTest : public ::testing::Test {
 protected:
  LocalServiceTest() {
    std::string path = "/tmp/remesh_local.XXXXXX";  // short enough for a socket's name
    directory_ = mkdtemp(path.data());
    socket_ = directory_ + "/w.sock";
    store_ = *BufferStore::Open({directory_ + "/buffers", 4096, "boot", 2});
    buffers_ = std::make_unique<StateBuffers>(
        "host-a", store_.get(), &queue_, &loan_queue_,
        StateBuffers::Hooks{
            .moved_by = [this](const std::string&) { return moving_ ? kExecution : ""; },
            .changed = [this](const v1::StateManifest& manifest) { changes_.push_back(manifest); },
            .reserved = [this](const std::string& state,
                               const absl::Status& status) { calls_->Reserved(state, status); }});
    calls_ = std::make_unique<LocalCalls>(
        buffers_.get(), &host_, [this](const std::string& state) { wanted_.push_back(state); });
    service_ = std::make_unique<LocalService>(&strand_, buffers_.get(), calls_.get(), &gate_);
    Serve();
    channel_ = grpc::CreateChannel("unix:" + socket_, grpc::InsecureChannelCredentials());
    stub_ = v1::LocalService::NewStub(channel_);
  }
  ~LocalServiceTest() override {
    server_->Shutdown(std::chrono::seconds(1));
    server_.reset();
    files_.Stop();
    loans_.Stop();
    strand_.Stop();
    fs::remove_all(directory_);
  }

  void Serve() {
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    auto server = UnixServer::Start(builder, socket_, gate_, {});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  // w: f32[4,6] by rows over devices 10 and 11; n: s4[7] on device 11.
  static v1::Assignment Assignment(int64_t generation = 1) {
    v1::Assignment assignment;
    assignment.set_state(kState);
    assignment.set_generation(generation);
    auto* w = assignment.add_arrays();
    w->set_name("w");
    w->set_element_type("f32");
    w->add_shape(4);
    w->add_shape(6);
    auto* n = assignment.add_arrays();
    n->set_name("n");
    n->set_element_type("s4");
    n->add_shape(7);
    for (int d = 0; d < 2; ++d) {
      auto* shard = assignment.add_shards();
      shard->set_device(10 + d);
      shard->set_local_device(d);
      shard->mutable_box()->add_lo(2 * d);
      shard->mutable_box()->add_lo(0);
      shard->mutable_box()->add_hi(2 * d + 2);
      shard->mutable_box()->add_hi(6);
    }
    auto* shard = assignment.add_shards();
    shard->set_array(1);
    shard->set_device(11);
    shard->set_local_device(1);
    shard->mutable_box()->add_lo(0);
    shard->mutable_box()->add_hi(7);
    return assignment;
  }
  void Assign(v1::Assignment assignment = Assignment()) {
    strand_.Post([this, assignment] {
      buffers_->Assign(assignment);
      calls_->Retry(assignment.state());
    });
  }

  template <typename F>
  auto OnStrand(F f) {
    std::promise<decltype(f())> result;
    strand_.Post([&] { result.set_value(f()); });
    return result.get_future().get();
  }

  // The deadlines of this test's calls are much shorter.
  void UntilACallWaits() {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (OnStrand([this] { return calls_->waiting(); }) == 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), give_up) << "no call waits";
      std::this_thread::yield();
    }
  }

  // Until all calls so far have arrived: they are read before this one, of a method that no service
  // has, which is answered though the strand is held.
  void AwaitArrival() {
    grpc::GenericStub raw(channel_);
    grpc::ClientContext context;
    const grpc::Slice empty("");
    const grpc::ByteBuffer nothing(&empty, 1);
    grpc::ByteBuffer answer;
    absl::Notification ended;
    raw.UnaryCall(&context, "/remesh.v1.LocalService/None", {}, &nothing, &answer,
                  [&](const grpc::Status&) { ended.Notify(); });
    ended.WaitForNotification();
  }

  template <typename Request, typename Response>
  absl::Status Call(grpc::Status (v1::LocalService::Stub::*method)(grpc::ClientContext*,
                                                                   const Request&, Response*),
                    const Request& request, Response* response, int milliseconds = 10000) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(milliseconds));
    return service::StatusFromGrpc((stub_.get()->*method)(&context, request, response));
  }
  absl::Status Allocate(bool wait = false, int milliseconds = 10000) {
    v1::AllocateRequest request;
    request.set_state(kState);
    request.set_wait(wait);
    return Call(&v1::LocalService::Stub::Allocate, request, &shards_, milliseconds);
  }
  absl::Status Seal(const std::string& array = "", int64_t device = -1) {
    v1::SealRequest request;
    request.set_state(kState);
    if (!array.empty() || device >= 0) {
      auto* selector = request.add_shards();
      selector->set_array(array);
      if (device >= 0) selector->add_devices(device);
    }
    return Call(&v1::LocalService::Stub::Seal, request, &seals_);
  }
  absl::Status Unseal() {
    v1::UnsealRequest request;
    request.set_state(kState);
    return Call(&v1::LocalService::Stub::Unseal, request, &seals_);
  }
  absl::Status GetShards(int64_t generation, bool wait = false, int milliseconds = 10000) {
    v1::GetShardsRequest request;
    request.set_state(kState);
    request.set_generation(generation);
    request.set_wait(wait);
    return Call(&v1::LocalService::Stub::GetShards, request, &shards_, milliseconds);
  }
  absl::Status GetHost(bool wait, int milliseconds = 10000) {
    v1::GetHostRequest request;
    request.set_wait(wait);
    return Call(&v1::LocalService::Stub::GetHost, request, &facts_, milliseconds);
  }
  absl::Status Release(const std::string& uid = "") {
    v1::ReleaseRequest request;
    request.set_state(kState);
    request.set_state_uid(uid);
    google::protobuf::Empty response;
    return Call(&v1::LocalService::Stub::Release, request, &response);
  }
  static std::string Reason(const absl::Status& status) { return GetErrorInfo(status).reason; }

  std::string directory_;
  std::string socket_;
  std::unique_ptr<BufferStore> store_;
  bool moving_ = false;
  std::vector<v1::StateManifest> changes_;
  std::vector<std::string> wanted_;  // used by the strand alone
  Strand strand_;
  Strand files_, loans_;
  FilesQueue queue_{&strand_, &files_};
  FilesQueue loan_queue_{&strand_, &loans_};
  std::unique_ptr<StateBuffers> buffers_;
  HostFacts host_;
  std::unique_ptr<LocalCalls> calls_;
  std::unique_ptr<LocalService> service_;
  SocketGate gate_;
  std::unique_ptr<UnixServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::LocalService::Stub> stub_;
  v1::GetHostResponse facts_;
  v1::ShardsResponse shards_;
  v1::SealResponse seals_;
};

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
  EXPECT_EQ(GetErrorInfo(Unseal()).metadata["execution"], kExecution);
  moving_ = false;
  ASSERT_TRUE(Unseal().ok());
  EXPECT_EQ(seals_.sealed_shards(), 0);
  EXPECT_EQ(changes_.back().phase(), v1::SHARD_PHASE_BUILDING);
}

TEST_F(LocalServiceTest, ErrorsNameFieldAndValue) {
  EXPECT_EQ(Reason(Allocate()), "STATE_NOT_FOUND");
  EXPECT_EQ(GetErrorInfo(Allocate()).metadata["state"], kState);
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

v1::Register TwoDevices() {
  v1::Register identity;
  identity.set_host("host-a");
  for (int i = 0; i < 2; ++i) {
    identity.add_devices()->set_id(-1);
    identity.mutable_devices(i)->set_memory_bytes(2048);
  }
  identity.mutable_devices(1)->set_kind(v1::WorkerDevice::KIND_CUDA);
  return identity;
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

TEST_F(LocalServiceTest, WhoWaitsForItsHostWaitsUntilItWasAttachedOnce) {
  OnStrand([this] {
    host_ = HostFacts(TwoDevices(), {.address = "planner:7070", .tls_server_name = ""});
    return true;
  });
  EXPECT_EQ(GetHost(/*wait=*/true, 50).code(), absl::StatusCode::kDeadlineExceeded);
  std::thread later([this] {
    UntilACallWaits();
    strand_.Post([this] {
      v1::Welcome welcome;
      welcome.set_cluster_uid("cluster");
      welcome.add_device_ids(6);
      welcome.add_device_ids(7);
      host_.OnWelcome(welcome);
      calls_->Welcomed();
    });
  });
  ASSERT_TRUE(GetHost(/*wait=*/true).ok());
  later.join();
  EXPECT_EQ(facts_.cluster_uid(), "cluster");
  EXPECT_TRUE(facts_.attached());
  EXPECT_EQ(facts_.devices(0).id(), 6);
  EXPECT_EQ(facts_.devices(1).id(), 7);
  OnStrand([this] {
    host_.OnDisconnected();
    return true;
  });
  ASSERT_TRUE(GetHost(/*wait=*/true).ok()) << "it has been attached";
  EXPECT_FALSE(facts_.attached());
  EXPECT_EQ(facts_.devices(1).id(), 7);
}

TEST_F(LocalServiceTest, CallsWaitForTheState) {
  std::thread later([this] {
    UntilACallWaits();
    Assign();
  });
  EXPECT_TRUE(Allocate(/*wait=*/true).ok());
  later.join();
  EXPECT_TRUE(Allocate(/*wait=*/true).ok());
  std::thread seal([this] {
    UntilACallWaits();
    v1::SealRequest request;
    request.set_state(kState);
    grpc::ClientContext context;
    v1::SealResponse response;
    EXPECT_TRUE(stub_->Seal(&context, request, &response).ok());
  });
  EXPECT_TRUE(GetShards(1, /*wait=*/true).ok());
  seal.join();
  EXPECT_EQ(GetShards(2, true, 50).code(), absl::StatusCode::kDeadlineExceeded);
}

// Calls that their callers had given up were made nevertheless, ahead of the others.
TEST_F(LocalServiceTest, ACallWhoseCallerHasGoneBeforeItsTurnIsNotMade) {
  Assign();
  ASSERT_TRUE(Allocate().ok());
  absl::Notification go;
  strand_.Post([&] { go.WaitForNotification(); });
  v1::SealRequest seal;
  seal.set_state(kState);
  EXPECT_EQ(Call(&v1::LocalService::Stub::Seal, seal, &seals_, 50).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(GetShards(7, /*wait=*/true, 50).code(), absl::StatusCode::kDeadlineExceeded);
  AwaitArrival();
  // The worker counted their 50 ms from their arrival.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  go.Notify();
  EXPECT_EQ(OnStrand([this] { return calls_->waiting(); }), 0);
  EXPECT_EQ(Reason(GetShards(1)), "NOT_READABLE");
}

// Each Seal, even one that was refused, looked at every waiting call.
TEST_F(LocalServiceTest, ASealLooksAtNoCallThatWaitsForSomethingElse) {
  constexpr int kWaiting = 100;
  OnStrand([this] {
    v1::AllocateRequest request;
    request.set_wait(true);
    for (int i = 0; i < kWaiting; ++i) {
      request.set_state(absl::StrCat("jobs/a/states/", i));
      calls_->Allocate(1'000'000 + i, request, getuid(), [](const auto&) {});
    }
    return 0;
  });
  EXPECT_EQ(Reason(Seal()), "STATE_NOT_FOUND");
  EXPECT_EQ(OnStrand([this] { return calls_->retries(); }), 0);
  EXPECT_EQ(OnStrand([this] { return calls_->waiting(); }), kWaiting);
  OnStrand([this] { return calls_->Close(), 0; });
}

TEST_F(LocalServiceTest, ARetiredGenerationIsRefusedAtOnce) {
  Assign();
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Seal().ok());
  ASSERT_TRUE(
      OnStrand([this] { return store_->Create(Assignment(2), v1::SHARD_PHASE_BUILDING); }).ok());
  ASSERT_TRUE(GetShards(1, /*wait=*/true).ok());  // both generations are here
  OnStrand([this] { return store_->Drop(kState, 1), 0; });
  const absl::Status refused = GetShards(1, /*wait=*/true);
  EXPECT_EQ(refused.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Reason(refused), "GENERATION_RETIRED");
  EXPECT_EQ(GetErrorInfo(refused).metadata["latest_generation"], "2");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("is at generation 2"));
  // The call waits for a generation that may still come.
  EXPECT_EQ(GetShards(3, true, 50).code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(LocalServiceTest, ARetiredGenerationIsRefusedWhereTheNewOneHasNoShard) {
  v1::Assignment nothing;
  nothing.set_state(kState);
  nothing.set_generation(2);
  Assign(nothing);
  EXPECT_EQ(Reason(GetShards(1, /*wait=*/true)), "GENERATION_RETIRED");
}

TEST_F(LocalServiceTest, AHostWithoutShardsIsAnsweredAtOnce) {
  v1::Assignment nothing;
  nothing.set_state(kState);
  nothing.set_generation(1);
  std::thread later([&] {
    UntilACallWaits();
    Assign(nothing);
  });
  ASSERT_TRUE(Allocate(/*wait=*/true).ok());
  later.join();
  EXPECT_THAT(wanted_, ElementsAre(kState));
  EXPECT_EQ(shards_.generation(), 1);
  EXPECT_TRUE(shards_.shards().empty());
  ASSERT_TRUE(Seal().ok());
  EXPECT_EQ(seals_.total_shards(), 0);
  EXPECT_EQ(Reason(Seal("w")), "SHARD_NOT_FOUND");
  // The worker made no buffers for the state and reported nothing.
  EXPECT_TRUE(store_->List().empty());
  EXPECT_TRUE(changes_.empty());
  // When the worker attaches again, the planner may report otherwise.
  strand_.Post([this] { buffers_->OnWelcome(); });
  EXPECT_EQ(Reason(Allocate()), "STATE_NOT_FOUND");
  nothing.set_committed(true);
  Assign(nothing);
  EXPECT_EQ(Reason(Allocate(/*wait=*/true)), "STATE_COMMITTED");
}

TEST_F(LocalServiceTest, WantedStatesAreSaidAgain) {
  std::thread waiting([this] { EXPECT_TRUE(Allocate(/*wait=*/true).ok()); });
  UntilACallWaits();
  strand_.Post([this] { calls_->SendWanted(); });
  Assign();
  waiting.join();
  strand_.Post([this] { calls_->SendWanted(); });  // no call waits any more
  EXPECT_THAT(OnStrand([this] { return wanted_; }), ElementsAre(kState, kState));
}

TEST_F(LocalServiceTest, WaitingCallsEndWithTheWorker) {
  std::thread closer([this] {
    UntilACallWaits();
    strand_.Post([this] { calls_->Close(); });
  });
  EXPECT_EQ(Reason(GetShards(1, /*wait=*/true)), "WORKER_STOPS");
  closer.join();
}

TEST_F(LocalServiceTest, MemoryThatIsShortIsRefusedByNumber) {
  v1::Assignment large = Assignment();
  large.mutable_arrays(1)->set_shape(0, 100000);
  large.mutable_shards(2)->mutable_box()->set_hi(0, 100000);
  Assign(large);
  const absl::Status status = Allocate();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorInfo(status).metadata["free_bytes"], "4096");
}

TEST_F(LocalServiceTest, ReleaseFreesOnlyWhatIsBeingBuilt) {
  EXPECT_EQ(Reason(Release()), "STATE_NOT_FOUND");
  Assign();
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Release().ok());
  EXPECT_EQ(store_->bytes(), 0);
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Seal().ok());
  EXPECT_EQ(Reason(Release()), "GENERATION_READABLE");
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

TEST_F(LocalServiceTest, NobodyWaitsBehindAnAllocate) {
  Assign();
  absl::Notification go;
  files_.Post([&] { go.WaitForNotification(); });
  std::thread allocating([this] { EXPECT_TRUE(Allocate().ok()); });
  UntilACallWaits();
  EXPECT_EQ(Reason(Seal()), "NOT_ALLOCATED");
  EXPECT_EQ(Reason(GetShards(1)), "GENERATION_NOT_FOUND");
  go.Notify();
  allocating.join();
  EXPECT_EQ(shards_.shards_size(), 3);
  EXPECT_TRUE(Seal().ok());
}

TEST_F(LocalServiceTest, MemoryThatIsReservedForNobodyAnyMoreIsFreed) {
  Assign();
  absl::Notification go;
  files_.Post([&] { go.WaitForNotification(); });
  std::thread allocating([this] { EXPECT_EQ(Reason(Allocate()), "STATE_NOT_FOUND"); });
  UntilACallWaits();
  EXPECT_FALSE(OnStrand([this] { return buffers_->Forget(kState, ""); }));
  allocating.join();  // does not wait for the queue
  EXPECT_TRUE(OnStrand([this] { return buffers_->Forget(kState, ""); }));
  go.Notify();
  files_.Stop();
  EXPECT_EQ(store_->bytes(), 0);
  EXPECT_TRUE(store_->List().empty());
}

TEST_F(LocalServiceTest, ReleaseGivesUpWhatIsBeingReserved) {
  Assign();
  absl::Notification go;
  files_.Post([&] { go.WaitForNotification(); });
  std::thread allocating([this] { EXPECT_TRUE(Allocate().ok()); });
  UntilACallWaits();
  EXPECT_TRUE(Release().ok());
  go.Notify();
  allocating.join();  // the call was run again
  EXPECT_EQ(store_->List().size(), 1u);
}

TEST_F(LocalServiceTest, BuffersOfAnotherAssignmentAreNotFreedUnasked) {
  Assign();
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Seal().ok());
  v1::Assignment turned = Assignment();
  turned.mutable_shards(0)->set_local_device(1);
  turned.mutable_shards(1)->set_local_device(0);
  Assign(turned);
  EXPECT_EQ(Reason(Allocate()), "STALE_SHARDS");
  EXPECT_TRUE(GetShards(1).ok());
  ASSERT_TRUE(Unseal().ok());
  ASSERT_TRUE(Release().ok());
  EXPECT_TRUE(Allocate().ok());
}

TEST_F(LocalServiceTest, ReleaseLeavesACommittedGenerationThatIsUnsealed) {
  Assign();
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Seal().ok());
  v1::Assignment committed = Assignment();
  committed.set_committed(true);
  Assign(committed);
  ASSERT_TRUE(Unseal().ok());
  EXPECT_EQ(Reason(Release()), "GENERATION_READABLE");
  EXPECT_EQ(store_->List().size(), 1u);
}

TEST_F(LocalServiceTest, WhatADeletedStateLeftNeverBecomesTheNextOfItsName) {
  v1::Assignment first = Assignment(), second = Assignment();
  first.set_state_uid("first");
  second.set_state_uid("second");
  Assign(first);
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Seal().ok());
  ASSERT_TRUE(GetShards(1).ok());
  Assign(second);  // a planner that is not sure of the first sends no Forget
  EXPECT_EQ(Reason(GetShards(1)), "GENERATION_NOT_FOUND");
  const ErrorInfo stale = GetErrorInfo(Allocate());
  EXPECT_EQ(stale.reason, "STALE_SHARDS");
  EXPECT_EQ(stale.metadata.at("state_uid"), "first");
  EXPECT_THAT(std::string(Allocate().message()),
              HasSubstr(absl::StrCat("remeshctl workers discard host-a ", kState, " first")));
  EXPECT_TRUE(Release().ok());  // frees nothing of the second
  EXPECT_EQ(Reason(Release("first")), "STATE_REPLACED");
  EXPECT_EQ(store_->List().size(), 1u);
  EXPECT_EQ(Reason(Seal()), "NOT_ALLOCATED");
  const auto forget = [this](const std::string& uid) {
    absl::Notification done;
    strand_.Post([&] {
      buffers_->Forget(kState, uid);
      done.Notify();
    });
    done.WaitForNotification();
  };
  forget("first");
  ASSERT_TRUE(Allocate().ok());
  EXPECT_FALSE(shards_.shards(0).sealed());
  ASSERT_TRUE(Seal().ok());
  EXPECT_EQ(changes_.back().state_uid(), "second");
  forget("first");  // once more
  EXPECT_TRUE(GetShards(1).ok());
  forget("second");
  EXPECT_EQ(Reason(Allocate()), "STATE_NOT_FOUND");
}

}  // namespace
}  // namespace remesh::worker
