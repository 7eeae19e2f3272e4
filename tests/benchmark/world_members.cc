// SPDX-License-Identifier: Apache-2.0
// Many members of one world in one process: world-members --server ADDRESS --members N. They share
// a few connections. scripts/bench worlds starts it and asks it by lines on stdin; each is answered
// by one line of JSON on stdout, once all members are through:
//   join          opens the streams; answers when every member was told that the world has formed
//   barrier       a round that brings nothing
//   gather B      a round in which member 0 gets B bytes of each
//   broadcast B   a round in which all get B bytes of member 0
//   leave         all members leave
// It ends with its stdin.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "remesh/v1/coordination.grpc.pb.h"

namespace remesh::benchmark {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr char kScope[] = "jobs/bench/worlds/main";
constexpr char kFormedTag = 0x0a;  // the first byte of a WorldEvent with `formed`

struct Options {
  std::string server;
  int members = 1000;
  int connections = 200;
};

// A file descriptor of its own for each channel.
std::shared_ptr<grpc::Channel> Connect(const Options& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(options.server, grpc::InsecureChannelCredentials(), arguments);
}

// What all members wait for.
struct Progress {
  std::atomic<int64_t> formed{0};
  std::atomic<int64_t> ended{0};  // streams
  std::atomic<int64_t> epoch{0};
};

// What a completion queue tells of.
class Tag {
 public:
  virtual ~Tag() = default;
  virtual void Proceed(bool ok) = 0;
};

// Debian's gRPC looks through all operations of a queue at the end of each, so tens of thousands in
// one queue would cost the members more than their rounds.
class Queues {
 public:
  static constexpr int kQueues = 2;

  Queues() {
    for (grpc::CompletionQueue& queue : queues_) {
      threads_.emplace_back([&queue] {
        void* tag;
        bool ok;
        while (queue.Next(&tag, &ok)) static_cast<Tag*>(tag)->Proceed(ok);
      });
    }
  }
  // No operation may begin any more.
  ~Queues() {
    for (grpc::CompletionQueue& queue : queues_) queue.Shutdown();
    for (std::thread& thread : threads_) thread.join();
  }
  grpc::CompletionQueue& Of(int rank) { return queues_[rank % kQueues]; }

 private:
  grpc::CompletionQueue queues_[kQueues];
  std::vector<std::thread> threads_;
};

// One Join stream. The event that names all members is as long as the world is large, and all of
// them get one: only member 0 looks into it.
class Stream : public Tag {
 public:
  Stream(const std::shared_ptr<grpc::Channel>& channel, grpc::CompletionQueue& queue,
         const v1::JoinRequest& request, Progress& progress)
      : stub_(channel), rank_(request.rank()), progress_(progress) {
    const grpc::Slice bytes(request.SerializeAsString());
    request_ = grpc::ByteBuffer(&bytes, 1);
    context_.set_wait_for_ready(true);
    call_ = stub_.PrepareCall(&context_, "/remesh.v1.CoordinationService/Join", &queue);
    call_->StartCall(this);
  }

  void Proceed(bool ok) override {
    if (step_ == Step::kEnd) return OnEnd();
    if (!ok) {
      step_ = Step::kEnd;
      return call_->Finish(&status_, this);
    }
    if (step_ == Step::kStart) {
      step_ = Step::kWrite;
      return call_->WriteLast(request_, grpc::WriteOptions(), this);
    }
    if (step_ == Step::kRead) TakeEvent();
    step_ = Step::kRead;
    call_->Read(&event_, this);
  }

  void Cancel() { context_.TryCancel(); }

 private:
  enum class Step { kStart, kWrite, kRead, kEnd };  // that is under way

  void TakeEvent() {
    std::vector<grpc::Slice> slices;
    if (event_.Dump(&slices).ok() && !slices.empty() && *slices[0].begin() == kFormedTag) {
      if (rank_ == 0) progress_.epoch = EpochOf(slices);
      ++progress_.formed;
    }
    event_.Clear();
  }

  void OnEnd() {
    const bool ours = status_.ok() || status_.error_code() == grpc::StatusCode::CANCELLED;
    if (!ours) {
      std::cerr << "member " << rank_ << ": " << status_.error_message() << std::endl;
      std::quick_exit(1);  // no round would end
    }
    ++progress_.ended;
  }

  static int64_t EpochOf(const std::vector<grpc::Slice>& slices) {
    std::string bytes;
    for (const grpc::Slice& each : slices) {
      bytes.append(reinterpret_cast<const char*>(each.begin()), each.size());
    }
    v1::WorldEvent event;
    event.ParseFromString(bytes);
    return event.formed().epoch();
  }

  grpc::GenericStub stub_;
  const int rank_;
  Progress& progress_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  Step step_ = Step::kStart;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer event_;
  grpc::Status status_;
};

// What the members of a round wait for.
struct Round {
  explicit Round(int members) : left(members) {}
  absl::BlockingCounter left;
  std::atomic<int64_t> failed{0};
};

// One call of one member.
struct Call : Tag {
  grpc::ClientContext context;
  v1::ExchangeRequest request;
  v1::ExchangeResponse response;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::ExchangeResponse>> answer;
  Round* round = nullptr;

  void Proceed(bool) override {
    if (!status.ok() && round->failed++ == 0) std::cerr << status.error_message() << std::endl;
    round->left.DecrementCount();
  }
};

class Members {
 public:
  explicit Members(const Options& options) : options_(options) {
    for (int i = 0; i < std::min(options.connections, options.members); ++i) {
      channels_.push_back(Connect(options));
      stubs_.push_back(v1::CoordinationService::NewStub(channels_.back()));
    }
  }

  ~Members() {
    for (auto& stream : streams_) stream->Cancel();
    Await(progress_.ended, static_cast<int64_t>(streams_.size()));
  }

  json Join() {
    const Clock::time_point start = Clock::now();
    for (int rank = 0; rank < options_.members; ++rank) {
      streams_.push_back(std::make_unique<Stream>(channels_[rank % channels_.size()],
                                                  queues_.Of(rank), JoinOf(rank), progress_));
    }
    Await(progress_.formed, options_.members);
    return {{"seconds", SecondsSince(start)}, {"epoch", progress_.epoch.load()}};
  }

  // One round: all members call as fast as this process can. Seconds from its begin, and from the
  // last member's call, until all have their answers.
  json Exchange(v1::Contribution::Mode mode, size_t bytes) {
    std::vector<std::unique_ptr<Call>> calls;
    for (int rank = 0; rank < options_.members; ++rank) calls.push_back(CallOf(rank, mode, bytes));
    Round round(options_.members);
    const Clock::time_point start = Clock::now();
    for (int rank = 0; rank < options_.members; ++rank) {
      Call& call = *calls[rank];
      call.round = &round;
      call.answer = stubs_[rank % stubs_.size()]->AsyncExchange(&call.context, call.request,
                                                                &queues_.Of(rank));
      call.answer->Finish(&call.response, &call.status, &call);
    }
    const Clock::time_point called = Clock::now();
    round.left.Wait();
    ++sequence_;
    return {{"seconds", SecondsSince(start)},
            {"after_last_call", SecondsSince(called)},
            {"failed", round.failed.load()}};
  }

  json Leave() {
    const Clock::time_point start = Clock::now();
    for (int rank = 0; rank < options_.members; ++rank) {
      grpc::ClientContext context;
      v1::LeaveRequest request;
      request.set_scope(kScope);
      request.set_epoch(progress_.epoch);
      request.set_rank(rank);
      request.set_nonce(NonceOf(rank));
      google::protobuf::Empty response;
      stubs_[rank % stubs_.size()]->Leave(&context, request, &response);
    }
    Await(progress_.ended, options_.members);
    return {{"seconds", SecondsSince(start)}};
  }

 private:
  static std::string NonceOf(int rank) { return absl::StrFormat("member %09d", rank); }

  v1::JoinRequest JoinOf(int rank) const {
    v1::JoinRequest request;
    request.set_scope(kScope);
    request.set_min_size(options_.members);
    request.set_max_size(options_.members);
    request.set_rank(rank);
    request.set_host(absl::StrFormat("host-%05d", rank / 8));
    request.set_pid(1000 + rank);
    request.set_local_index(rank % 8);
    request.set_nonce(NonceOf(rank));
    return request;
  }

  std::unique_ptr<Call> CallOf(int rank, v1::Contribution::Mode mode, size_t bytes) const {
    auto call = std::make_unique<Call>();
    call->request.set_scope(kScope);
    call->request.set_epoch(progress_.epoch);
    call->request.set_rank(rank);
    call->request.set_nonce(NonceOf(rank));
    call->request.set_sequence(sequence_);
    v1::Contribution& contribution = *call->request.mutable_contribution();
    contribution.set_name("bench");
    contribution.set_mode(mode);
    const bool brings = mode == v1::Contribution::GATHER || rank == 0;
    if (brings) contribution.set_payload(std::string(bytes, 'x'));
    return call;
  }

  static double SecondsSince(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  static void Await(const std::atomic<int64_t>& count, int64_t value) {
    while (count < value) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  const Options options_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::vector<std::unique_ptr<v1::CoordinationService::Stub>> stubs_;
  Progress progress_;
  std::vector<std::unique_ptr<Stream>> streams_;
  Queues queues_;  // last: their operations use all of the above
  int64_t sequence_ = 0;
};

json Execute(const std::string& line, Members& members) {
  std::istringstream words(line);
  std::string command;
  size_t bytes = 0;
  words >> command >> bytes;
  if (command == "join") return members.Join();
  if (command == "barrier") return members.Exchange(v1::Contribution::BARRIER, 0);
  if (command == "gather") return members.Exchange(v1::Contribution::GATHER, bytes);
  if (command == "broadcast") return members.Exchange(v1::Contribution::BROADCAST, bytes);
  if (command == "leave") return members.Leave();
  return {{"error", "join, barrier, gather B, broadcast B or leave"}};
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Many members of one world in one process, asked by lines on stdin.");
  app.add_option("--server", options.server, "host:port")->required();
  app.add_option("--members", options.members)->check(CLI::PositiveNumber);
  app.add_option("--connections", options.connections)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  // Debian's abseil looks for deadlocks otherwise, at an eighth of the members' cost.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);

  Members members(options);
  std::string line;
  while (std::getline(std::cin, line)) std::cout << Execute(line, members) << std::endl;
  return 0;
}

}  // namespace
}  // namespace remesh::benchmark

int main(int argc, char** argv) { return remesh::benchmark::Main(argc, argv); }
