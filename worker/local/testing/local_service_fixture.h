// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "base/strand.h"
#include "service/rpc/error_info.h"
#include "worker/local/local_service.h"
#include "worker/local/unix_socket.h"

namespace remesh::worker {

inline constexpr char kLocalState[] = "jobs/a/states/b";
inline constexpr char kLocalExecution[] = "jobs/a/executions/1";  // while moving_

// A host of one simulated and one CUDA device, neither registered yet.
inline v1::Register TwoDevices() {
  v1::Register identity;
  identity.set_host("host-a");
  for (int i = 0; i < 2; ++i) {
    identity.add_devices()->set_id(-1);
    identity.mutable_devices(i)->set_memory_bytes(2048);
  }
  identity.mutable_devices(1)->set_kind(v1::WorkerDevice::KIND_CUDA);
  return identity;
}

// A worker's local service over its socket, with calls of one trainer.
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
            .moved_by = [this](const std::string&) { return moving_ ? kLocalExecution : ""; },
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
    std::filesystem::remove_all(directory_);
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
    assignment.set_state(kLocalState);
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
    request.set_state(kLocalState);
    request.set_wait(wait);
    return Call(&v1::LocalService::Stub::Allocate, request, &shards_, milliseconds);
  }
  absl::Status Seal(const std::string& array = "", int64_t device = -1) {
    v1::SealRequest request;
    request.set_state(kLocalState);
    if (!array.empty() || device >= 0) {
      auto* selector = request.add_shards();
      selector->set_array(array);
      if (device >= 0) selector->add_devices(device);
    }
    return Call(&v1::LocalService::Stub::Seal, request, &seals_);
  }
  absl::Status Unseal() {
    v1::UnsealRequest request;
    request.set_state(kLocalState);
    return Call(&v1::LocalService::Stub::Unseal, request, &seals_);
  }
  absl::Status GetShards(int64_t generation, bool wait = false, int milliseconds = 10000) {
    v1::GetShardsRequest request;
    request.set_state(kLocalState);
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
    request.set_state(kLocalState);
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

}  // namespace remesh::worker
