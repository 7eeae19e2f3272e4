// SPDX-License-Identifier: Apache-2.0
#include "worker/agent/planner_channel.h"

#include <arpa/inet.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "remesh/v1/plan.grpc.pb.h"
#include "remesh/v1/worker.grpc.pb.h"

namespace remesh::worker {
namespace {

// Answers one Attach with a Welcome, then stays silent until the stream ends.
class SilentPlanner final : public v1::WorkerService::Service {
 public:
  grpc::Status Attach(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::AttachResponse, v1::AttachRequest>* stream) override {
    v1::AttachResponse welcome;
    welcome.mutable_welcome();
    stream->Write(welcome);
    v1::AttachRequest message;
    while (stream->Read(&message)) {
    }
    return grpc::Status::OK;
  }
};

// Is UNAVAILABLE for so many GetHostPrograms, then answers.
class PlannerThatIsAway final : public v1::PlanService::Service {
 public:
  explicit PlannerThatIsAway(int calls) : left_(calls) {}

  grpc::Status GetHostProgram(grpc::ServerContext*, const v1::GetHostProgramRequest*,
                              grpc::ServerWriter<v1::HostProgram>* stream) override {
    if (--left_ >= 0) return {grpc::StatusCode::UNAVAILABLE, "GOAWAY received"};
    stream->Write(v1::HostProgram());
    return grpc::Status::OK;
  }

 private:
  std::atomic<int> left_;
};

// A link between loopback ports that can be told to swallow everything without closing anything.
class Link {
 public:
  explicit Link(int to_port) : to_port_(to_port) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = Loopback(0);
    socklen_t length = sizeof(address);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Run(); });
  }
  ~Link() {
    stopping_ = true;
    thread_.join();
    for (const int fd : fds_) close(fd);
    close(listener_);
  }

  int port() const { return port_; }
  void Swallow() { swallowing_ = true; }

 private:
  static sockaddr_in Loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    return address;
  }

  // fds_[2i] and fds_[2i + 1] are the ends of a connection.
  void Run() {
    while (!stopping_) {
      std::vector<pollfd> waiting = {{listener_, POLLIN, 0}};
      for (const int fd : fds_) waiting.push_back({fd, POLLIN, 0});
      if (poll(waiting.data(), waiting.size(), 20) <= 0) continue;
      for (size_t i = 1; i < waiting.size(); ++i) {
        if (waiting[i].revents != 0) Pass(i - 1);
      }
      if (waiting[0].revents != 0) Accept();
    }
  }
  void Accept() {
    const int near = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const int far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = Loopback(to_port_);
    EXPECT_EQ(connect(far, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    fds_.insert(fds_.end(), {near, far});
  }
  void Pass(size_t from) {
    char bytes[4096];
    const ssize_t count = read(fds_[from], bytes, sizeof(bytes));
    if (swallowing_) return;
    if (count <= 0) {
      shutdown(fds_[from ^ 1], SHUT_RDWR);
      return;
    }
    EXPECT_EQ(write(fds_[from ^ 1], bytes, count), count);
  }

  const int to_port_;
  int listener_ = -1;
  int port_ = 0;
  std::vector<int> fds_;  // of the thread
  std::atomic<bool> swallowing_ = false, stopping_ = false;
  std::thread thread_;
};

TEST(PlannerChannelTest, AConnectionThatSwallowsEverythingEnds) {
  SilentPlanner planner;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder.RegisterService(&planner);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  Link link(port);
  PlannerChannel channel(
      {.address = absl::StrCat("127.0.0.1:", link.port()),
       .keepalive = {.time = std::chrono::seconds(1), .timeout = std::chrono::milliseconds(200)}});
  EXPECT_EQ(channel.Get(), channel.Get());
  const auto stub = v1::WorkerService::NewStub(channel.Get());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto stream = stub->Attach(&context);
  v1::AttachResponse response;
  ASSERT_TRUE(stream->Read(&response));
  link.Swallow();
  EXPECT_FALSE(stream->Read(&response));
  // Without probes it would end only by the deadline.
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  server->Shutdown(std::chrono::system_clock::now());
}

// Regression test: gRPC waited 20 s for such an address, so workers came back that late to a server
// whose pod was replaced.
TEST(PlannerChannelTest, AnAddressThatAnswersNothingIsGivenUpSoon) {
  // A connection to a listener whose queue is full is not answered.
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  socklen_t length = sizeof(address);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(listener, 0), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  const int queued = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(connect(queued, reinterpret_cast<sockaddr*>(&address), length), 0);
  PlannerChannel planner({.address = absl::StrCat("127.0.0.1:", ntohs(address.sin_port))});
  const std::shared_ptr<grpc::Channel> channel = planner.Get();
  const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(15);
  grpc_connectivity_state state = channel->GetState(true);
  while (state != GRPC_CHANNEL_TRANSIENT_FAILURE && channel->WaitForStateChange(state, deadline)) {
    state = channel->GetState(false);
  }
  EXPECT_EQ(state, GRPC_CHANNEL_TRANSIENT_FAILURE);
  close(queued);
  close(listener);
}

// Regression test: a move failed because a worker asked for its program on a connection that the
// planner was just ending because of its age.
TEST(PlannerChannelTest, AProgramIsAskedForAgainWhereTheConnectionEnds) {
  for (const bool stays_away : {false, true}) {
    PlannerThatIsAway planner(stays_away ? 1000 : 2);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&planner);
    const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    PlannerChannel channel({.address = absl::StrCat("127.0.0.1:", port)});
    const auto stub = v1::PlanService::NewStub(channel.Get());
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    const auto stream = stub->GetHostProgram(&context, v1::GetHostProgramRequest());
    v1::HostProgram program;
    EXPECT_EQ(stream->Read(&program), !stays_away);
    while (stream->Read(&program)) {
    }
    const auto expected = stays_away ? grpc::StatusCode::UNAVAILABLE : grpc::StatusCode::OK;
    EXPECT_EQ(stream->Finish().error_code(), expected);
  }
}

}  // namespace
}  // namespace remesh::worker
