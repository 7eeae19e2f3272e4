// SPDX-License-Identifier: Apache-2.0
#include "server/grpc/worker_stream.h"

#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "server/testing/server_fixture.h"

namespace remesh::server {
namespace {

// Serves Attach, and lets the test send commands on the stream.
class OneStream : public v1::WorkerService::CallbackService {
 public:
  explicit OneStream(Core& core) : core_(core) {}

  grpc::ServerBidiReactor<v1::AttachRequest, v1::AttachResponse>* Attach(
      grpc::CallbackServerContext*) override {
    // Destroyed with the stream.
    const auto ended = std::shared_ptr<void>(nullptr, [this](void*) { ended_.Notify(); });
    const auto admit = [this, ended](const std::string&) {
      ++registers_;
      return WorkerStream::Proof::kNone;
    };
    stream_ = WorkerStream::Start(core_, "caller", budget_, admit, /*interceptors=*/{});
    called_ = true;
    return stream_;
  }

  WorkerStream& stream() { return *stream_; }
  WriteBudget& budget() { return *budget_; }
  // How many messages that register have been read.
  int registers() const { return registers_; }
  bool called() const { return called_; }
  void AwaitEnd() { ended_.WaitForNotification(); }
  bool ended() const { return ended_.HasBeenNotified(); }

 private:
  Core& core_;
  const std::shared_ptr<WriteBudget> budget_ = std::make_shared<WriteBudget>(1000);
  WorkerStream* stream_ = nullptr;
  std::atomic<int> registers_ = 0;
  std::atomic<bool> called_ = false;
  absl::Notification ended_;
};

class WorkerStreamTest : public ServerFixture {
 protected:
  static constexpr int kMoreThanIsQueued = 17'000;

  WorkerStreamTest() : service_(*core_) {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    stream_server_ = builder.BuildAndStart();
    stub_ = v1::WorkerService::NewStub(stream_server_->InProcessChannel({}));
    *register_.mutable_register_() = WorkerIdentity("c", 4, 2);
  }

  bool IsAttached() {
    const auto list = Ask<v1::ListWorkersResponse>(
        [&](auto* c, auto* r) { return workers_stub_->ListWorkers(c, {}, r); });
    return list.ok() && list->workers_size() == 1 && list->workers(0).alive();
  }

  OneStream service_;
  std::unique_ptr<grpc::Server> stream_server_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  v1::AttachRequest register_;
};

// Regression: a worker that read no commands, but sent heartbeats, was taken for alive.
TEST_F(WorkerStreamTest, AWorkerThatDoesNotReadItsCommandsIsAwayAndNothingMoreIsRead) {
  grpc::ClientContext context;
  const auto stream = stub_->Attach(&context);
  ASSERT_TRUE(stream->Write(register_));
  v1::AttachResponse command;
  ASSERT_TRUE(stream->Read(&command));
  EXPECT_TRUE(IsAttached());
  for (int i = 0; i < kMoreThanIsQueued; ++i) service_.stream().Send({});
  EXPECT_TRUE(Eventually([&] { return !IsAttached(); }));
  // Ends the read that was under way. False: the stream had ended, as it does at once when its last
  // write was through.
  stream->Write(register_);
  while (stream->Read(&command)) continue;
  EXPECT_EQ(GetErrorInfo(service::StatusFromGrpc(stream->Finish())).reason, "WORKER_TOO_SLOW");
  service_.AwaitEnd();
  EXPECT_EQ(service_.registers(), 1);
}

// A Grant that names this number.
v1::AttachResponse Numbered(int number) {
  v1::AttachResponse command;
  command.mutable_grant()->set_until(number);
  return command;
}

TEST_F(WorkerStreamTest, CommandsThatAreMadeLaterKeepTheirPlace) {
  grpc::ClientContext context;
  const auto stream = stub_->Attach(&context);
  ASSERT_TRUE(stream->Write(register_));
  v1::AttachResponse command;
  ASSERT_TRUE(stream->Read(&command));
  service_.stream().Send(Numbered(1));
  const auto make = [] { return std::vector<v1::AttachResponse>{Numbered(2), Numbered(3)}; };
  service_.stream().SendLater({.bytes = 10, .make = make});
  service_.stream().Send(Numbered(4));
  for (int number = 1; number <= 4; ++number) {
    ASSERT_TRUE(stream->Read(&command));
    EXPECT_EQ(command.grant().until(), number);
  }
  context.TryCancel();
  stream->Finish();
}

// However many streams are to get commands, those that have no room yet are not made.
TEST_F(WorkerStreamTest, CommandsAreMadeWhenTheBudgetHasRoom) {
  grpc::ClientContext context;
  const auto stream = stub_->Attach(&context);
  ASSERT_TRUE(stream->Write(register_));
  v1::AttachResponse command;
  ASSERT_TRUE(stream->Read(&command));
  service_.budget().Take(1000, [] {});  // another stream's
  std::atomic<int> made = 0;
  const auto make = [&made] {
    ++made;
    return std::vector<v1::AttachResponse>{Numbered(1)};
  };
  service_.stream().SendLater({.bytes = 10, .make = make});
  service_.stream().SendLater({.bytes = 10, .make = make});
  // It asks when the write of Welcome has ended.
  EXPECT_TRUE(Eventually([&] { return service_.budget().waiting() == 1; }));
  EXPECT_EQ(made, 0);
  service_.budget().Return(1000);
  ASSERT_TRUE(stream->Read(&command));
  ASSERT_TRUE(stream->Read(&command));
  EXPECT_EQ(made, 2);
  absl::Notification all_is_back;
  service_.budget().Take(1000, [&] { all_is_back.Notify(); });
  all_is_back.WaitForNotification();
  context.TryCancel();
  stream->Finish();
  service_.AwaitEnd();
}

TEST_F(WorkerStreamTest, AStreamThatEndsGivesItsShareBack) {
  grpc::ClientContext context;
  const auto stream = stub_->Attach(&context);
  ASSERT_TRUE(stream->Write(register_));
  v1::AttachResponse command;
  ASSERT_TRUE(stream->Read(&command));
  service_.budget().Take(1000, [] {});  // another stream's
  service_.stream().SendLater({.bytes = 10, .make = []() -> std::vector<v1::AttachResponse> {
                                 ADD_FAILURE() << "they are not needed";
                                 return {};
                               }});
  context.TryCancel();
  stream->Finish();
  EXPECT_TRUE(Eventually([&] { return !IsAttached(); }));
  service_.budget().Return(1000);
  service_.AwaitEnd();
  absl::Notification all_is_back;
  service_.budget().Take(1000, [&] { all_is_back.Notify(); });
  all_is_back.WaitForNotification();
}

// So that it counts among the unfinished calls of its connection, of which there may be so many.
TEST_F(WorkerStreamTest, AStreamThatIsResetBeforeItsTurnEndsInItsTurn) {
  {
    const Holding holding(*core_);
    grpc::ClientContext context;
    const auto stream = stub_->Attach(&context);
    ASSERT_TRUE(Eventually([&] { return service_.called(); }));
    context.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_FALSE(service_.ended());
  }
  service_.AwaitEnd();
}

TEST_F(WorkerStreamTest, NothingMoreIsReadUntilTheFirstMessageIsHandled) {
  grpc::ClientContext context;
  const auto stream = stub_->Attach(&context);
  ASSERT_TRUE(Eventually([&] { return service_.called(); }));
  EXPECT_FALSE(IsAttached());  // the stream's turn was before
  std::thread second;
  {
    const Holding holding(*core_);
    ASSERT_TRUE(stream->Write(register_));
    ASSERT_TRUE(Eventually([&] { return service_.registers() == 1; }));
    second = std::thread([&] { stream->Write(register_); });  // waits until it is read
    EXPECT_EQ(service_.registers(), 1);
  }
  second.join();
  v1::AttachResponse command;  // Welcome, unless the end came before it was written
  while (stream->Read(&command)) continue;
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);  // for the second
  EXPECT_EQ(service_.registers(), 2);
}

}  // namespace
}  // namespace remesh::server
