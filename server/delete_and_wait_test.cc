// SPDX-License-Identifier: Apache-2.0
//
// DeleteState with `wait`: it is answered when every host has confirmed.
#include <deque>
#include <memory>
#include <string>
#include <thread>

#include "server/testing/server_fixture.h"

namespace remesh::server {
namespace {

using Command = v1::AttachResponse;

class DeleteAndWaitTest : public ServerFixture {
 protected:
  DeleteAndWaitTest() {
    AttachWorkers([this](ScriptedWorker& worker, const Command& command) {
      if (!command.has_forget_state()) return false;
      v1::AttachRequest answer;
      answer.mutable_forgotten()->set_state(command.forget_state().state());
      answer.mutable_forgotten()->set_state_uid(command.forget_state().state_uid());
      absl::MutexLock lock(&mutex_);
      if (!confirms_) return true;
      worker.Send(answer);
      return true;
    });
    CreateReadyState(kRows);
    request_.set_name(kState);
    request_.set_wait(true);
  }
  ~DeleteAndWaitTest() override { workers_.clear(); }  // they use what is below

  struct Waiting {
    grpc::ClientContext context;
    absl::StatusOr<v1::DeleteStateResponse> answer = absl::UnknownError("not ended");
    std::thread thread;
  };
  // Begins a call on a thread of its own.
  std::unique_ptr<Waiting> Begin() {
    auto waiting = std::make_unique<Waiting>();
    waiting->thread = std::thread([this, waiting = waiting.get()] {
      v1::DeleteStateResponse response;
      const grpc::Status status = states_->DeleteState(&waiting->context, request_, &response);
      waiting->answer = response;
      if (!status.ok()) waiting->answer = service::StatusFromGrpc(status);
    });
    return waiting;
  }
  bool IsDeleted() {
    return Eventually([&] { return absl::IsNotFound(GetState().status()); });
  }
  void Confirm(bool confirms) {
    absl::MutexLock lock(&mutex_);
    confirms_ = confirms;
  }
  static std::string ReasonOf(const Waiting& waiting) {
    return GetErrorInfo(waiting.answer.status()).reason;
  }

  absl::Mutex mutex_;
  bool confirms_ ABSL_GUARDED_BY(mutex_) = false;
  v1::DeleteStateRequest request_;
};

TEST_F(DeleteAndWaitTest, ItIsAnsweredWhenEveryAttachedHostHasConfirmed) {
  Confirm(true);
  const auto waiting = Begin();
  waiting->thread.join();
  ASSERT_TRUE(waiting->answer.ok()) << waiting->answer.status();
  EXPECT_EQ(waiting->answer->absent_hosts_size(), 0);
  for (const auto& worker : workers_) {
    // A worker answers a command before it counts it.
    EXPECT_TRUE(worker->Await(Command::kForgetState, 1));
    EXPECT_EQ(worker->CommandCount(Command::kForgetState), 1);
  }
  const auto again = Begin();
  again->thread.join();
  EXPECT_EQ(ReasonOf(*again), "NOT_FOUND") << "nothing of it is left";
}

TEST_F(DeleteAndWaitTest, AHostThatDiesBeforeItConfirmsIsNamed) {
  const auto waiting = Begin();
  ASSERT_TRUE(workers_[0]->Await(Command::kForgetState, 1));
  ASSERT_TRUE(workers_[1]->Await(Command::kForgetState, 1));
  workers_[1]->Kill();
  workers_[0]->Kill();
  waiting->thread.join();
  ASSERT_TRUE(waiting->answer.ok()) << waiting->answer.status();
  ASSERT_EQ(waiting->answer->absent_hosts_size(), 2);
  EXPECT_EQ(waiting->answer->absent_hosts(0), "a");
  EXPECT_EQ(waiting->answer->absent_hosts(1), "b");
}

TEST_F(DeleteAndWaitTest, ACallerWhoCancelsLeavesNothingBehindAndTheDeletionGoesOn) {
  const auto waiting = Begin();
  ASSERT_TRUE(IsDeleted());
  waiting->context.TryCancel();
  waiting->thread.join();
  EXPECT_EQ(waiting->answer.status().code(), absl::StatusCode::kCancelled);
  // The places of cancelled calls come back.
  for (int i = 0; i < OpenWatches::kOfCallerMax + 10; ++i) {
    absl::Status status = absl::ResourceExhaustedError("");
    ASSERT_TRUE(Eventually([&] {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(1));
      v1::DeleteStateResponse response;
      status = service::StatusFromGrpc(states_->DeleteState(&context, request_, &response));
      return !absl::IsResourceExhausted(status);
    }));
    ASSERT_FALSE(status.ok());
  }
  Confirm(true);
  AttachWorkers();  // they hold nothing any more, but do not say so
  const auto again = Begin();
  workers_[0]->Kill();
  workers_[1]->Kill();
  again->thread.join();
  ASSERT_TRUE(again->answer.ok()) << again->answer.status();
  EXPECT_EQ(again->answer->absent_hosts_size(), 2);
}

TEST_F(DeleteAndWaitTest, OneCallerHasSoManyAndTheyEndWithTheServer) {
  grpc::CompletionQueue queue;
  struct Call {
    grpc::ClientContext context;
    v1::DeleteStateResponse response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::DeleteStateResponse>> reader;
  };
  std::deque<Call> calls;
  const int count = OpenWatches::kOfCallerMax + 1;
  for (int i = 0; i < count; ++i) {
    Call& call = calls.emplace_back();
    call.reader = states_->AsyncDeleteState(&call.context, request_, &queue);
    call.reader->Finish(&call.response, &call.status, &call);
  }
  void* ended = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&ended, &ok));
  EXPECT_EQ(GetErrorInfo(service::StatusFromGrpc(static_cast<Call*>(ended)->status)).reason,
            "TOO_MANY_WATCHES");
  ASSERT_TRUE(IsDeleted());
  core_->Shutdown();
  for (int i = 1; i < count; ++i) {
    ASSERT_TRUE(queue.Next(&ended, &ok));
    EXPECT_EQ(static_cast<Call*>(ended)->status.error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  StopServer();
  StartServer();
  const auto again = Begin();
  again->thread.join();
  ASSERT_TRUE(again->answer.ok()) << again->answer.status();
  EXPECT_EQ(again->answer->absent_hosts_size(), 2) << "as the call before the restart";
}

}  // namespace
}  // namespace remesh::server
