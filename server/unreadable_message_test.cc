// SPDX-License-Identifier: Apache-2.0
// Messages of a worker's stream that the server cannot read, or that are too large.
#include <google/protobuf/unknown_field_set.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "server/callers/caller.h"
#include "server/callers/roles.h"
#include "server/testing/every_method.h"
#include "server/testing/server_fixture.h"
#include "service/front/held_requests.h"
#include "service/rpc/audit_log.h"
#include "service/rpc/handler_interceptors.h"

namespace remesh::server {
namespace {

constexpr char kAttach[] = "/remesh.v1.WorkerService/Attach";

// Whether the interceptors are left to the handler of Attach, as in main(), or gRPC runs them.
class UnreadableMessageTest : public ServerFixture, public testing::WithParamInterface<bool> {
 protected:
  // A server with the interceptors that look at requests, in the order of main().
  UnreadableMessageTest() {
    auto log = service::AuditLog::Open(
        {.path = audit_path_, .reads = true, .is_read = IsRead, .caller_of = CallerOf}, registry_);
    EXPECT_TRUE(log.ok()) << log.status();
    Server::Options options;
    options.message_bytes_max = 16 << 20;
    options.audit = *log;
    options.extend = [log = *log](grpc::ServerBuilder& builder) {
      auto held = std::make_shared<service::HeldRequests>(
          service::HeldRequests::Limits{.all = 1 << 30, .of_caller = 1 << 30});
      service::HandlerInterceptors::Creators creators;
      creators.push_back(service::HeldRequests::Limit(held, CallerOf, nullptr));
      creators.push_back(service::AuditLog::NewInterceptors(log));
      absl::flat_hash_set<std::string> left;
      if (GetParam()) left.insert(Server::kBusyMethod);
      builder.experimental().SetInterceptorCreators(
          service::HandlerInterceptors::LeaveToHandlers(left, std::move(creators)));
    };
    audited_ = *Server::Start(std::move(options), *core_);
  }

  struct Outcome {
    absl::Status status;
    std::string log;
    nlohmann::json audit;
  };
  // Sends one message on a stream of its own, and ends the server, which writes the audit log.
  Outcome Attach(const std::string& message) {
    Outcome outcome;
    testing::internal::CaptureStderr();
    outcome.status = CallWith(message, audited_->InProcessChannel(), kAttach, "id");
    audited_ = nullptr;
    outcome.log = testing::internal::GetCapturedStderr();
    std::ifstream file(audit_path_);
    std::string line;
    std::getline(file, line);
    outcome.audit = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    return outcome;
  }

  const std::string audit_path_ = directory_ / "audit.jsonl";
  prometheus::Registry registry_;
  std::unique_ptr<Server> audited_;
};

// Regression: the stream ended with OK, and the log said nothing.
TEST_P(UnreadableMessageTest, AMessageThatCannotBeParsedEndsTheStreamWithAnError) {
  const Outcome outcome = Attach("\x07not protobuf");
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInvalidArgument) << outcome.status;
  EXPECT_EQ(outcome.status.message(), "the request is not a remesh.v1.AttachRequest");
  EXPECT_EQ(GetErrorInfo(outcome.status).reason, "REQUEST_UNREADABLE");
  EXPECT_NE(outcome.log.find("a message of a stream is refused"), std::string::npos) << outcome.log;
  EXPECT_NE(outcome.log.find(kAttach), std::string::npos) << outcome.log;
  EXPECT_NE(outcome.log.find("reason=REQUEST_UNREADABLE"), std::string::npos) << outcome.log;
  EXPECT_EQ(outcome.audit["status_code"], "INVALID_ARGUMENT") << outcome.audit;
  EXPECT_EQ(outcome.audit["reason"], "REQUEST_UNREADABLE") << outcome.audit;
}

TEST_P(UnreadableMessageTest, AMessageThatWouldTakeTooMuchMemoryEndsTheStreamWithAnError) {
  v1::Register one;
  one.add_manifests();
  const std::string manifest =
      one.SerializeAsString();  // two bytes, and a hundred times that parsed
  std::string manifests;
  while (manifests.size() < size_t{15 << 20}) manifests += manifest;
  google::protobuf::UnknownFieldSet fields;
  fields.AddLengthDelimited(v1::AttachRequest::kRegisterFieldNumber, manifests);
  std::string bytes;
  fields.SerializeToString(&bytes);
  const Outcome outcome = Attach(bytes);
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kResourceExhausted) << outcome.status;
  EXPECT_EQ(GetErrorInfo(outcome.status).reason, "REQUEST_MEMORY");
  EXPECT_NE(outcome.log.find("reason=REQUEST_MEMORY"), std::string::npos) << outcome.log;
  EXPECT_EQ(outcome.audit["reason"], "REQUEST_MEMORY") << outcome.audit;
}

// By gRPC itself, before any code of ours sees it.
TEST_P(UnreadableMessageTest, AMessageLongerThanAllowedEndsTheStreamWithAnError) {
  v1::AttachRequest request;
  request.mutable_register_()->set_host(std::string(17 << 20, 'x'));
  const Outcome outcome = Attach(request.SerializeAsString());
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kResourceExhausted) << outcome.status;
}

TEST_P(UnreadableMessageTest, AStreamThatEndsWithoutAMessageIsNotRefused) {
  const auto stub = v1::WorkerService::NewStub(audited_->InProcessChannel());
  grpc::ClientContext context;
  const auto stream = stub->Attach(&context);
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_TRUE(stream->Finish().ok());
}

INSTANTIATE_TEST_SUITE_P(InterceptorsLeftToTheHandler, UnreadableMessageTest, testing::Bool());

}  // namespace
}  // namespace remesh::server
