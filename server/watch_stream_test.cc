// SPDX-License-Identifier: Apache-2.0
#include "server/grpc/watch_stream.h"

#include <grpcpp/support/server_interceptor.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "server/testing/server_fixture.h"

namespace remesh::server {
namespace {

// Opens watches of one caller, through gRPC.
class PlacesTest : public ServerFixture {
 protected:
  PlacesTest() { request_.set_name(kState); }
  ~PlacesTest() override {
    for (grpc::ClientContext& open : contexts_) open.TryCancel();
  }

  // Returns whether the new watch has read a value.
  bool Opens() {
    watches_.push_back(states_->WatchState(&contexts_.emplace_back(), request_));
    v1::State seen;
    return watches_.back()->Read(&seen);
  }
  // The reason why a new watch ends; "" if it does not.
  std::string Refusal() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
    const auto watch = states_->WatchState(&context, request_);
    return GetErrorInfo(service::StatusFromGrpc(watch->Finish())).reason;
  }
  void EndFirst() {
    contexts_.front().TryCancel();
    watches_.front()->Finish();
  }

 private:
  v1::WatchStateRequest request_;
  std::deque<grpc::ClientContext> contexts_;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::State>>> watches_;
};

// Regression: a place was given back before the strand had handled the end of its watch, so one
// caller could make any number of watches wait for the strand.
TEST_F(PlacesTest, OneCallerHasSoManyWatchesAndGetsAnotherWhenTheStrandHasEndedOne) {
  AttachWorkers();
  CreateReadyState(kRows);
  for (int i = 0; i < OpenWatches::kOfCallerMax; ++i) ASSERT_TRUE(Opens());
  EXPECT_EQ(Refusal(), "TOO_MANY_WATCHES");
  grpc::ClientContext context;
  EXPECT_EQ(
      GetErrorInfo(service::StatusFromGrpc(plans_->WatchPlans(&context, {})->Finish())).reason,
      "TOO_MANY_WATCHES");
  {
    const Holding holding(*core_);
    EndFirst();
    for (int i = 0; i < 200; ++i) ASSERT_EQ(Refusal(), "TOO_MANY_WATCHES");
  }
  EXPECT_TRUE(Eventually([&] { return Opens(); }));
}

// The threads that began to send a message. gRPC serializes the message there.
class SendingThreads {
 public:
  void Add(std::thread::id thread) {
    absl::MutexLock lock(&mutex_);
    threads_.push_back(thread);
  }
  std::vector<std::thread::id> threads() {
    absl::MutexLock lock(&mutex_);
    return threads_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::thread::id> threads_ ABSL_GUARDED_BY(mutex_);
};

class NoteSends : public grpc::experimental::Interceptor {
 public:
  explicit NoteSends(SendingThreads& threads) : threads_(threads) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    using Point = grpc::experimental::InterceptionHookPoints;
    if (batch->QueryInterceptionHookPoint(Point::PRE_SEND_MESSAGE))
      threads_.Add(std::this_thread::get_id());
    batch->Proceed();
  }

 private:
  SendingThreads& threads_;
};

class NewNoteSends : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit NewNoteSends(SendingThreads& threads) : threads_(threads) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo*) override {
    return new NoteSends(threads_);
  }

 private:
  SendingThreads& threads_;
};

class WatchStreamTest : public ServerFixture {
 protected:
  WatchStreamTest() {
    Server::Options options;
    options.extend = [this](grpc::ServerBuilder& builder) {
      std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> creators;
      creators.push_back(std::make_unique<NewNoteSends>(sending_));
      builder.experimental().SetInterceptorCreators(std::move(creators));
    };
    noting_server_ = *Server::Start(std::move(options), *core_);
  }

  std::thread::id StrandsThread() {
    absl::Notification answered;
    std::thread::id strand;
    core_->Call(v1::ListWorkersRequest(), [&](const absl::StatusOr<Reply>&) {
      strand = std::this_thread::get_id();
      answered.Notify();
    });
    answered.WaitForNotification();
    return strand;
  }

  SendingThreads sending_;
  std::unique_ptr<Server> noting_server_;
};

// Regression: the strand serialized every value for every watch.
TEST_F(WatchStreamTest, TheStrandSerializesNoValues) {
  AttachWorkers();
  CreateReadyState(kRows);
  grpc::ClientContext context;
  v1::WatchStateRequest request;
  request.set_name(kState);
  const auto stub = v1::StateService::NewStub(noting_server_->InProcessChannel());
  const auto reader = stub->WatchState(&context, request);
  v1::State seen;
  ASSERT_TRUE(reader->Read(&seen));
  ASSERT_TRUE(StartExecution(1, kColumns).ok());
  while (seen.generation() < 2) ASSERT_TRUE(reader->Read(&seen));
  context.TryCancel();
  reader->Finish();
  const std::vector<std::thread::id> threads = sending_.threads();
  EXPECT_GE(threads.size(), 2U);
  for (const std::thread::id thread : threads) EXPECT_NE(thread, StrandsThread());
}

// Regression: the strand serialized every answer, however large the state that it told.
TEST_F(WatchStreamTest, TheStrandSerializesNoAnswers) {
  AttachWorkers();
  v1::CreateStateRequest create;
  *create.mutable_state() = MakeState(kRows);
  v1::GetStateRequest get;
  get.set_name(kState);
  const auto stub = v1::StateService::NewStub(noting_server_->InProcessChannel());
  ASSERT_TRUE(Ask<v1::State>([&](auto* context, auto* response) {
                return stub->CreateState(context, create, response);
              }).ok());
  const auto state = Ask<v1::State>(
      [&](auto* context, auto* response) { return stub->GetState(context, get, response); });
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->name(), kState);
  const std::vector<std::thread::id> threads = sending_.threads();
  EXPECT_EQ(threads.size(), 2U);
  for (const std::thread::id thread : threads) EXPECT_NE(thread, StrandsThread());
}

}  // namespace
}  // namespace remesh::server
