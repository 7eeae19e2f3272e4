// SPDX-License-Identifier: Apache-2.0
#include "service/front/held_requests.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "remesh/v1/plan.grpc.pb.h"
#include "service/rpc/error_info.h"

namespace remesh::service {
namespace {

TEST(HeldRequestsTest, EachCallerAndAllHaveALimit) {
  HeldRequests held({.all = 100, .of_caller = 40});
  EXPECT_TRUE(held.Take("a", 40).ok());
  const absl::Status refused = held.Take("a", 1);
  EXPECT_EQ(GetErrorInfo(refused).reason, "REQUEST_MEMORY") << refused;
  EXPECT_TRUE(held.Take("b", 40).ok());
  EXPECT_FALSE(held.Take("c", 21).ok());
  EXPECT_TRUE(held.Take("c", 20).ok());
  held.Give("a", 40);
  EXPECT_EQ(held.bytes(), 60u);
  EXPECT_TRUE(held.Take("a", 40).ok());
}

// Its calls wait until they are let go.
class SlowService : public v1::PlanService::CallbackService {
 public:
  ~SlowService() override {
    for (std::thread& thread : threads_) thread.join();
  }
  absl::Notification go;

 private:
  grpc::ServerUnaryReactor* GetPlan(grpc::CallbackServerContext* context,
                                    const v1::GetPlanRequest* request, v1::Plan*) override {
    auto* reactor = context->DefaultReactor();
    if (request->name() == "quick") {
      reactor->Finish(grpc::Status::OK);
      return reactor;
    }
    absl::MutexLock lock(&mutex_);
    threads_.emplace_back([this, reactor] {
      go.WaitForNotification();
      reactor->Finish(grpc::Status::OK);
    });
    return reactor;
  }
  absl::Mutex mutex_;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

class HeldRequestsOfServerTest : public testing::Test {
 protected:
  HeldRequestsOfServerTest() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> creators;
    creators.push_back(HeldRequests::Limit(
        held_, [](const grpc::ServerContextBase&) { return "caller"; }, messages_));
    builder.experimental().SetInterceptorCreators(std::move(creators));
    server_ = builder.BuildAndStart();
    stub_ = v1::PlanService::NewStub(server_->InProcessChannel({}));
  }
  ~HeldRequestsOfServerTest() override {
    server_->Shutdown();
    server_->Wait();
  }
  grpc::Status Get(const std::string& name) {
    grpc::ClientContext context;
    v1::GetPlanRequest request;
    v1::Plan plan;
    request.set_name(name);
    return stub_->GetPlan(&context, request, &plan);
  }
  void Await(uint64_t bytes_at_least) {
    while (held_->bytes() < bytes_at_least) absl::SleepFor(absl::Milliseconds(1));
  }
  void AwaitNone() {  // a call gives its memory back a little after its end
    while (held_->bytes() > 0) absl::SleepFor(absl::Milliseconds(1));
  }

  const std::shared_ptr<HeldRequests> held_ =
      std::make_shared<HeldRequests>(HeldRequests::Limits{.all = 100'000, .of_caller = 50'000});
  const std::shared_ptr<MessageBytes> messages_ = std::make_shared<MessageBytes>();
  SlowService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::PlanService::Stub> stub_;
};

// Regression: 40 calls of 20 MB, which waited for their turns, took 7 GB.
TEST_F(HeldRequestsOfServerTest, ACallThatWaitsHoldsItsRequestAndTheNextIsRefused) {
  std::thread waits([this] { EXPECT_TRUE(Get(std::string(40'000, 'x')).ok()); });
  Await(40'000);
  const absl::Status refused = StatusFromGrpc(Get(std::string(20'000, 'x')));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_EQ(GetErrorInfo(refused).reason, "REQUEST_MEMORY");
  EXPECT_TRUE(Get("quick").ok());
  service_.go.Notify();
  waits.join();
  AwaitNone();
  EXPECT_TRUE(Get(std::string(40'000, 'x')).ok());
  AwaitNone();
}

// Regression: a message of 64 MiB took 3.6 GB once it was parsed.
TEST_F(HeldRequestsOfServerTest, ARequestOfManyTinyPartsIsNotParsed) {
  std::string bytes;
  for (int i = 0; i < 10'000; ++i) bytes.append("\xfa\x7f\x00", 3);  // fields it does not know
  v1::GetPlanRequest request;
  ASSERT_TRUE(request.ParseFromString(bytes));
  grpc::ClientContext context;
  v1::Plan plan;
  const grpc::Status status = stub_->GetPlan(&context, request, &plan);
  const ErrorInfo why = GetErrorInfo(StatusFromGrpc(status));
  EXPECT_EQ(why.reason, "REQUEST_MEMORY") << status.error_message();
  EXPECT_FALSE(why.metadata.contains("retry_after_seconds")) << "it never fits";
  EXPECT_EQ(held_->bytes(), 0u);
  // What was refused is no noise, for which its connection would be ended.
  const MessageBytes::ByPeer messages = messages_->Take();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages.begin()->second, 30'000u);
}

TEST_F(HeldRequestsOfServerTest, BytesThatAreNoRequestAreNamed) {
  grpc::GenericStub raw(server_->InProcessChannel({}));
  grpc::ClientContext context;
  grpc::Slice slice(std::string("\xff\xff\xff"));
  grpc::ByteBuffer request(&slice, 1), response;
  grpc::Status status;
  absl::Notification ended;
  raw.UnaryCall(&context, "/remesh.v1.PlanService/GetPlan", {}, &request, &response,
                [&](grpc::Status end) {
                  status = std::move(end);
                  ended.Notify();
                });
  ended.WaitForNotification();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "the request is not a remesh.v1.GetPlanRequest");
}

}  // namespace
}  // namespace remesh::service
