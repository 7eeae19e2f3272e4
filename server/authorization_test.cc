// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>

#include "server/testing/every_method.h"
#include "server/testing/server_fixture.h"
#include "service/rpc/error_info.h"

namespace remesh::server {
namespace {

absl::Status Deny(const service::Identity&, const service::Resource&, std::string_view method) {
  return MakeError(absl::StatusCode::kPermissionDenied, std::string(method) + " is not for you",
                   {.reason = "DENIED", .metadata = {}});
}

// Every method asks the authorizer, including methods that are added later.
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
