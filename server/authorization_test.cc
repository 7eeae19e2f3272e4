// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>

#include "server/server_fixture.h"
#include "service/error_info.h"

namespace remesh::server {
namespace {

constexpr const char* kServices[] = {"remesh.v1.StateService", "remesh.v1.PlanService",
                                     "remesh.v1.ReshardService", "remesh.v1.WorkerService"};

absl::Status Deny(const service::Identity&, const service::Resource&, std::string_view method) {
  return MakeError(absl::StatusCode::kPermissionDenied, std::string(method) + " is not for you",
                   {.reason = "DENIED", .metadata = {}});
}

// Calls a method of any kind with one empty message and returns how it ended.
absl::Status CallEmpty(const std::shared_ptr<grpc::Channel>& channel, const std::string& method) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  grpc::CompletionQueue queue;
  auto call = stub.PrepareCall(&context, method, &queue);
  grpc::Status status;
  grpc::ByteBuffer nothing(nullptr, 0);
  grpc::ByteBuffer answer;
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  if (ok) {
    call->WriteLast(nothing, {}, nullptr);
    queue.Next(&tag, &ok);
  }
  do {
    call->Read(&answer, nullptr);
    queue.Next(&tag, &ok);
  } while (ok);
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  return service::StatusFromGrpc(status);
}

// The hook stands before every method that there is, also those that come later.
TEST_F(ServerFixture, EveryMethodAsksTheAuthorizerFirst) {
  Server::Options options;
  options.authorizer = Deny;
  auto server = Server::Start(std::move(options), *core_);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto channel = (*server)->InProcessChannel();
  int methods = 0;
  for (const char* name : kServices) {
    const auto* service =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
    ASSERT_NE(service, nullptr) << name;
    for (int i = 0; i < service->method_count(); ++i, ++methods) {
      const std::string& method = service->method(i)->name();
      const absl::Status refused = CallEmpty(channel, "/" + std::string(name) + "/" + method);
      EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << method << ": " << refused;
      EXPECT_EQ(refused.message(), method + " is not for you");
    }
  }
  EXPECT_GE(methods, 20);
}

}  // namespace
}  // namespace remesh::server
