// SPDX-License-Identifier: Apache-2.0
#include "worker/local/socket_gate.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/fd.h"
#include "google/protobuf/dynamic_message.h"
#include "service/rpc/error_info.h"
#include "worker/local/handle_socket.h"
#include "worker/local/local_service.h"
#include "worker/local/unix_socket.h"

namespace remesh::worker {
namespace {

std::string Own() { return absl::StrCat(getuid()); }
std::string Other() { return absl::StrCat(getuid() + 1); }

// LocalService behind a gate, with this process as its caller.
class SocketGateTest : public ::testing::Test {
 protected:
  SocketGateTest() {
    std::string path = "/tmp/remesh_gate.XXXXXX";
    directory_ = mkdtemp(path.data());
    store_ = *BufferStore::Open({directory_ + "/buffers", 4096, "boot", 1});
    buffers_.emplace(
        "host-a", store_.get(), &queue_, &loan_queue_,
        StateBuffers::Hooks{.moved_by = [](const std::string&) { return ""; },
                            .changed = [](const v1::StateManifest&) {},
                            .reserved = [](const std::string&, const absl::Status&) {}});
    calls_.emplace(&*buffers_, &host_, [](const std::string&) {});
    service_.emplace(&strand_, &*buffers_, &*calls_, &gate_);
    grpc::ServerBuilder builder;
    builder.RegisterService(&*service_);
    server_ = *UnixServer::Start(builder, directory_ + "/s", gate_, {});
    channel_ = grpc::CreateChannel("unix:" + directory_ + "/s", grpc::InsecureChannelCredentials());
  }
  ~SocketGateTest() override {
    server_->Shutdown(std::chrono::seconds(1));
    files_.Stop();
    loans_.Stop();
    strand_.Stop();
    std::filesystem::remove_all(directory_);
  }

  void SetRules(const std::vector<std::string>& uids, const std::vector<std::string>& gids,
                const std::string& jobs) {
    absl::StatusOr<SocketRules> rules = MakeSocketRules(uids, gids, jobs);
    ASSERT_TRUE(rules.ok()) << rules.status();
    gate_.SetRules(*std::move(rules));
  }

  // Calls each method of the service that is about a state, about `state`. Returns the status of
  // each call by method.
  std::map<std::string, absl::Status> CallAll(const std::string& state) {
    std::map<std::string, absl::Status> ends;
    const auto* service =
        v1::AllocateRequest::descriptor()->file()->FindServiceByName("LocalService");
    for (int i = 0; i < service->method_count(); ++i) {
      if (service->method(i)->name() == "GetHost") continue;
      ends[service->method(i)->name()] = Call(*service->method(i), state);
    }
    return ends;
  }

  absl::Status Call(const google::protobuf::MethodDescriptor& method, const std::string& state) {
    auto* messages = google::protobuf::MessageFactory::generated_factory();
    std::unique_ptr<google::protobuf::Message> request(
        messages->GetPrototype(method.input_type())->New());
    const auto* field = method.input_type()->FindFieldByName("state");
    if (field == nullptr) return absl::InternalError("names no state: the gate cannot judge it");
    request->GetReflection()->SetString(request.get(), field, state);
    std::unique_ptr<google::protobuf::Message> response(
        messages->GetPrototype(method.output_type())->New());
    grpc::ClientContext context;
    const std::string path = absl::StrCat("/remesh.v1.LocalService/", method.name());
    using Message = google::protobuf::MessageLite;
    return service::StatusFromGrpc(
        grpc::internal::BlockingUnaryCall<Message, Message, Message, Message>(
            channel_.get(),
            grpc::internal::RpcMethod(path.c_str(), grpc::internal::RpcMethod::NORMAL_RPC),
            &context, *request, response.get()));
  }

  absl::Status GetHost() {
    grpc::ClientContext context;
    v1::GetHostResponse response;
    return service::StatusFromGrpc(
        v1::LocalService::NewStub(channel_)->GetHost(&context, {}, &response));
  }

  std::string directory_;
  Strand strand_;
  Strand files_, loans_;
  FilesQueue queue_{&strand_, &files_};
  FilesQueue loan_queue_{&strand_, &loans_};
  std::unique_ptr<BufferStore> store_;
  HostFacts host_;
  std::optional<StateBuffers> buffers_;
  std::optional<LocalCalls> calls_;
  SocketGate gate_;
  std::optional<LocalService> service_;
  std::unique_ptr<UnixServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(SocketGateTest, TheSocketOfHandlesIsForTheSameUsers) {
  HandleTable handles;
  const auto server = ServeHandles(directory_ + "/s", &handles, &gate_, [] {});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto ask = [&] {
    const auto connection = ConnectForPackets(directory_ + "/s" + kHandlesSuffix);
    if (!connection.ok()) return connection.status();
    SendPacket(connection->get(), "no token", -1).IgnoreError();  // it may be closed by now
    return ReceivePacket(connection->get(), 100).status();
  };
  EXPECT_TRUE(ask().ok());
  SetRules({Other()}, {}, "");
  EXPECT_TRUE(absl::IsUnavailable(ask()));
  SetRules({Own()}, {}, "");
  EXPECT_TRUE(ask().ok());
}

TEST_F(SocketGateTest, NewRulesHoldForConnectionsOfTheSocketOfHandlesThatStand) {
  HandleTable handles;
  const auto server = ServeHandles(directory_ + "/s", &handles, &gate_, [] {});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto connection = ConnectForPackets(directory_ + "/s" + kHandlesSuffix);
  ASSERT_TRUE(connection.ok()) << connection.status();
  const auto ask = [&] {
    SendPacket(connection->get(), "no token", -1).IgnoreError();  // it may be closed by now
    return ReceivePacket(connection->get(), 100).status();
  };
  EXPECT_TRUE(ask().ok());
  SetRules({Other()}, {}, "");
  EXPECT_TRUE(absl::IsUnavailable(ask()));
}

TEST_F(SocketGateTest, TheLastOfManyGroupsIsEnough) {
  if (getuid() != 0) GTEST_SKIP() << "only root may join groups";
  constexpr gid_t kFirst = 100'000, kLast = kFirst + 499;
  int pair[2];
  // Changes only this thread, unlike setgroups().
  std::vector<gid_t> before(getgroups(0, nullptr)), many(500);
  ASSERT_EQ(getgroups(static_cast<int>(before.size()), before.data()), ssize(before));
  std::iota(many.begin(), many.end(), kFirst);
  ASSERT_EQ(syscall(SYS_setgroups, many.size(), many.data()), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  ASSERT_EQ(syscall(SYS_setgroups, before.size(), before.data()), 0);
  const Fd mine(pair[0]), other(pair[1]);
  SetRules({}, {absl::StrCat(kLast)}, "");
  EXPECT_TRUE(gate_.MayConnect(mine.get()));
  SetRules({}, {absl::StrCat(kLast + 1)}, "");
  EXPECT_FALSE(gate_.MayConnect(mine.get()));
}

TEST_F(SocketGateTest, WithoutRulesTheSocketsModeDecides) {
  for (const auto& [method, end] : CallAll("jobs/a/states/b")) {
    EXPECT_FALSE(absl::IsPermissionDenied(end)) << method << ": " << end;
  }
}

TEST_F(SocketGateTest, WhoIsNotListedMayCallNothing) {
  SetRules({Other()}, {}, "");
  const auto ends = CallAll("jobs/a/states/b");
  EXPECT_EQ(ends.size(), 6u);
  for (const auto& [method, end] : ends) {
    EXPECT_TRUE(absl::IsPermissionDenied(end)) << method << ": " << end;
    EXPECT_EQ(GetErrorInfo(end).reason, "SOCKET_CALLER_REFUSED") << method;
    EXPECT_EQ(GetErrorInfo(end).metadata.at("uid"), Own()) << method;
    EXPECT_EQ(GetErrorInfo(end).metadata.at("job"), "a") << method;
  }
}

TEST_F(SocketGateTest, AUserOrOneOfHisGroupsIsEnough) {
  for (const bool by_group : {false, true}) {
    SetRules({by_group ? Other() : Own()}, {by_group ? absl::StrCat(getgid()) : "4294967294"}, "");
    for (const auto& [method, end] : CallAll("jobs/a/states/b")) {
      EXPECT_FALSE(absl::IsPermissionDenied(end)) << method << ": " << end;
    }
  }
}

TEST_F(SocketGateTest, AUserWithAJobNamesNoOthersStates) {
  SetRules({}, {}, absl::StrCat(R"({")", Own(), R"(": "a"})"));
  for (const auto& [method, end] : CallAll("jobs/a/states/b")) {
    EXPECT_FALSE(absl::IsPermissionDenied(end)) << method << ": " << end;
  }
  for (const char* state : {"jobs/b/states/b", "jobs/ab/states/b", "a", ""}) {
    for (const auto& [method, end] : CallAll(state)) {
      EXPECT_EQ(GetErrorInfo(end).reason, "SOCKET_JOB_REFUSED") << method << " of " << state;
    }
  }
  SetRules({}, {}, absl::StrCat(R"({")", Other(), R"(": "a"})"));
  EXPECT_FALSE(absl::IsPermissionDenied(CallAll("jobs/b/states/b").at("Release")))
      << "who has no job is bound to none";
}

TEST_F(SocketGateTest, TheHostIsShownToEveryCallerThatTheSocketAdmits) {
  EXPECT_TRUE(GetHost().ok());
  SetRules({}, {}, absl::StrCat(R"({")", Own(), R"(": "a"})"));
  EXPECT_TRUE(GetHost().ok()) << "the host is no job's";
  SetRules({Own()}, {}, "");
  EXPECT_TRUE(GetHost().ok());
  SetRules({Other()}, {}, "");
  EXPECT_EQ(GetErrorInfo(GetHost()).reason, "SOCKET_CALLER_REFUSED");
}

TEST_F(SocketGateTest, NewRulesHoldForConnectionsThatStand) {
  EXPECT_FALSE(absl::IsPermissionDenied(CallAll("jobs/a/states/b").at("Seal")));
  SetRules({Other()}, {}, "");
  EXPECT_TRUE(absl::IsPermissionDenied(CallAll("jobs/a/states/b").at("Seal")));
}

TEST(SocketRulesTest, WhatCannotBeIsNamed) {
  const auto field = [](const absl::StatusOr<SocketRules>& rules) {
    return GetErrorInfo(rules.status()).metadata["field"];
  };
  EXPECT_EQ(field(MakeSocketRules({"0", "root"}, {}, "")), "socket_allowed_uids[1]");
  EXPECT_EQ(field(MakeSocketRules({"4294967295"}, {}, "")), "socket_allowed_uids[0]");
  EXPECT_EQ(field(MakeSocketRules({}, {"-1"}, "")), "socket_allowed_gids[0]");
  EXPECT_EQ(field(MakeSocketRules({}, {}, "[]")), "socket_jobs_by_uid");
  EXPECT_EQ(field(MakeSocketRules({}, {}, R"({"x": "a"})")), "socket_jobs_by_uid");
  EXPECT_EQ(field(MakeSocketRules({}, {}, R"({"7": ""})")), "socket_jobs_by_uid.7");
  EXPECT_EQ(field(MakeSocketRules({}, {}, R"({"7": "jobs/a"})")), "socket_jobs_by_uid.7");
  EXPECT_TRUE(MakeSocketRules({}, {}, "{}").ok());
}

}  // namespace
}  // namespace remesh::worker
