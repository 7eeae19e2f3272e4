// SPDX-License-Identifier: Apache-2.0
// A whole worker with a planner that refuses it, to its end.
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "remesh/v1/worker.grpc.pb.h"
#include "service/rpc/error_info.h"
#include "worker/keeper/packets.h"
#include "worker/transport/testing/memory_transport.h"
#include "worker/transport/testing/tapped_transport.h"
#include "worker/worker.h"

namespace remesh::worker {
namespace {

// Ends the first stream for a temporary reason, and every other for the given reason. Keeps what it
// was told.
class RefusingPlanner final : public v1::WorkerService::Service {
 public:
  // `after_register` is called before each stream ends.
  explicit RefusingPlanner(
      const char* reason, std::function<void()> after_register = [] {})
      : reason_(reason), after_register_(std::move(after_register)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~RefusingPlanner() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status Attach(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::AttachResponse, v1::AttachRequest>* stream) override {
    v1::AttachRequest message;
    stream->Read(&message);
    absl::MutexLock lock(&mutex_);
    registered_.push_back(message.register_());
    after_register_();
    const bool first = registered_.size() == 1;
    return service::StatusToGrpc(
        MakeError(absl::StatusCode::kAborted, "no", {first ? "STARTING" : reason_, {}}));
  }

  std::vector<v1::Register> WaitFor(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto told = [&] { return registered_.size() >= count; };
    mutex_.Await(absl::Condition(&told));
    return registered_;
  }
  int port() const { return port_; }

 private:
  const char* const reason_;
  const std::function<void()> after_register_;
  int port_ = 0;
  absl::Mutex mutex_;
  std::vector<v1::Register> registered_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

class WorkerRefusedTest : public ::testing::Test {
 protected:
  WorkerRefusedTest() {
    std::string path = "/tmp/remesh_refused.XXXXXX";  // short enough for a socket's name
    directory_ = mkdtemp(path.data());
  }
  ~WorkerRefusedTest() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<Worker> Start(const RefusingPlanner& planner) {
    return Start(planner, fabric_.NewTransport("a"));
  }
  std::unique_ptr<Worker> Start(const RefusingPlanner& planner,
                                std::unique_ptr<Transport> transport) {
    WorkerOptions options;
    options.host = "a";
    options.server_address = absl::StrCat("127.0.0.1:", planner.port());
    options.join_token_file = directory_ + "/token";
    std::ofstream(options.join_token_file) << "let me in\n";
    options.buffer_directory = directory_ + "/buffers";
    options.socket_path = directory_ + "/w.sock";
    options.metrics_address = "";
    EXPECT_TRUE(Complete(options).ok());
    DataPlane plane;
    plane.transport = std::move(transport);
    plane.devices = HostMemory(1, plane.transport.get());
    auto worker = Worker::Start(options, std::move(plane), [this](const absl::Status& why) {
      why_ = why;
      ended_.Notify();
    });
    EXPECT_TRUE(worker.ok()) << worker.status();
    return *std::move(worker);
  }

  std::string directory_;
  MemoryFabric fabric_;
  absl::Status why_;
  absl::Notification ended_;
};

TEST_F(WorkerRefusedTest, AProcessThatIsSupersededEnds) {
  RefusingPlanner planner("SUPERSEDED");
  const auto worker = Start(planner);
  ended_.WaitForNotification();
  EXPECT_EQ(GetErrorInfo(why_).reason, "ABORTED");  // a message for people
  EXPECT_NE(why_.message().find("another process is host a"), std::string::npos) << why_;
}

// A transport that says at its end whether the socket of handles answers.
class AsksAtItsEnd final : public TappedTransport {
 public:
  AsksAtItsEnd(std::unique_ptr<Transport> transport, std::string socket, std::string* answer)
      : TappedTransport(std::move(transport), {}), socket_(std::move(socket)), answer_(answer) {}
  ~AsksAtItsEnd() override {
    const auto connection = ConnectForPackets(socket_);
    if (!connection.ok() || !SendPacket(connection->get(), "held 0123", -1).ok()) return;
    const auto answer = ReceivePacket(connection->get(), 100);
    if (answer.ok()) *answer_ = answer->bytes;
  }

 private:
  const std::string socket_;
  std::string* const answer_;
};

// A lender frees its memory when this socket goes. The data thread, which reads the memory, ended
// after it.
TEST_F(WorkerRefusedTest, LendersHearThatTheWorkerIsGoneWhenNothingReadsAnyMore) {
  RefusingPlanner planner("JOIN_TOKEN");
  std::string answer;
  auto worker =
      Start(planner, std::make_unique<AsksAtItsEnd>(fabric_.NewTransport("a"),
                                                    directory_ + "/w.sock.handles", &answer));
  worker.reset();
  EXPECT_EQ(answer, "no lease has this token (any more)");
}

TEST_F(WorkerRefusedTest, AWorkerThatIsNotLetInStaysTheSameAndWaits) {
  RefusingPlanner planner("JOIN_TOKEN");
  auto worker = Start(planner);
  const std::vector<v1::Register> told = planner.WaitFor(2);
  EXPECT_EQ(told[0].process_nonce().size(), 16u);
  EXPECT_EQ(told[1].process_nonce(), told[0].process_nonce());
  EXPECT_EQ(told[0].host_secret().size(), 32u);
  EXPECT_EQ(told[1].host_secret(), told[0].host_secret());
  EXPECT_EQ(told[0].join_token(), "let me in");
  worker.reset();
  EXPECT_FALSE(ended_.HasBeenNotified());
  const auto next = Start(planner);
  EXPECT_NE(planner.WaitFor(3)[2].process_nonce(), told[0].process_nonce());
}

// Regression: an operator who wrote the right token into the file had to restart the worker, too.
TEST_F(WorkerRefusedTest, AJoinTokenThatWasReplacedIsSentAtTheNextTry) {
  RefusingPlanner planner("JOIN_TOKEN",
                          [&] { std::ofstream(directory_ + "/token") << "let me in, please\n"; });
  const auto worker = Start(planner);
  const std::vector<v1::Register> told = planner.WaitFor(2);
  EXPECT_EQ(told[0].join_token(), "let me in");
  EXPECT_EQ(told[1].join_token(), "let me in, please");
}

}  // namespace
}  // namespace remesh::worker
