// SPDX-License-Identifier: Apache-2.0
#include "service/rpc/handler_interceptors.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "remesh/v1/worker.grpc.pb.h"

namespace remesh::service {
namespace {

using HookPoint = grpc::experimental::InterceptionHookPoints;

constexpr char kAttach[] = "/remesh.v1.WorkerService/Attach";

// The events that interceptors have seen.
class Record {
 public:
  void Add(std::string line) {
    absl::MutexLock lock(&mutex_);
    lines_.push_back(std::move(line));
  }
  // Waits for so many interceptors to go.
  std::vector<std::string> LinesAfter(int gone) {
    absl::MutexLock lock(&mutex_);
    const auto so = [this, gone]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return gone_ >= gone; };
    mutex_.Await(absl::Condition(&so));
    return lines_;
  }
  void OnGone() {
    absl::MutexLock lock(&mutex_);
    ++gone_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  int gone_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Writes down what it hears, and adds its name to the status.
class Listener : public grpc::experimental::Interceptor {
 public:
  Listener(Record& record, std::string name) : record_(record), name_(std::move(name)) {}
  ~Listener() override { record_.OnGone(); }

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(HookPoint::POST_RECV_INITIAL_METADATA)) Note("begins");
    if (batch->QueryInterceptionHookPoint(HookPoint::POST_RECV_MESSAGE)) {
      const auto* message = static_cast<google::protobuf::MessageLite*>(batch->GetRecvMessage());
      Note(message == nullptr ? "no message" : absl::StrCat("read ", message->ByteSizeLong()));
    }
    if (batch->QueryInterceptionHookPoint(HookPoint::PRE_SEND_MESSAGE)) Note("writes");
    if (batch->QueryInterceptionHookPoint(HookPoint::PRE_SEND_STATUS)) {
      const grpc::Status status = batch->GetSendStatus();
      Note(absl::StrCat("ends with ", status.error_message()));
      batch->ModifySendStatus(
          {status.error_code(), absl::StrCat(status.error_message(), " ", name_)});
    }
    batch->Proceed();
  }

 private:
  void Note(const std::string& what) { record_.Add(absl::StrCat(name_, " ", what)); }

  Record& record_;
  const std::string name_;
};

class Listeners : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  Listeners(Record& record, std::string name) : record_(record), name_(std::move(name)) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo*) override {
    return new Listener(record_, name_);
  }

 private:
  Record& record_;
  const std::string name_;
};

// Answers each message with one, and ends when there is none.
class Echo : public grpc::ServerBidiReactor<v1::AttachRequest, v1::AttachResponse> {
 public:
  explicit Echo(HandlerInterceptors interceptors) : interceptors_(std::move(interceptors)) {
    StartRead(&request_);
  }
  void OnReadDone(bool ok) override {
    interceptors_.OnRead(ok ? &request_ : nullptr);
    if (!ok) {
      return Finish(interceptors_.OnFinish({grpc::StatusCode::ABORTED, "the end"}));
    }
    interceptors_.OnWrite(response_);
    StartWrite(&response_);
  }
  void OnWriteDone(bool ok) override {
    if (ok) StartRead(&request_);
  }
  void OnDone() override { delete this; }

 private:
  HandlerInterceptors interceptors_;
  v1::AttachRequest request_;
  const v1::AttachResponse response_;
};

class EchoService : public v1::WorkerService::CallbackService {
  grpc::ServerBidiReactor<v1::AttachRequest, v1::AttachResponse>* Attach(
      grpc::CallbackServerContext* context) override {
    return new Echo(HandlerInterceptors::Take(*context));
  }
};

// What two interceptors see of a stream of two messages, with its status as the client sees it.
std::vector<std::string> EventsOfStream(absl::flat_hash_set<std::string> left_to_handlers) {
  Record record;
  EchoService service;
  HandlerInterceptors::Creators creators;
  creators.push_back(std::make_unique<Listeners>(record, "first"));
  creators.push_back(std::make_unique<Listeners>(record, "second"));
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  builder.experimental().SetInterceptorCreators(
      HandlerInterceptors::LeaveToHandlers(std::move(left_to_handlers), std::move(creators)));
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();

  const auto stub = v1::WorkerService::NewStub(server->InProcessChannel({}));
  grpc::ClientContext context;
  const auto stream = stub->Attach(&context);
  v1::AttachRequest request;
  v1::AttachResponse response;
  for (const char* host : {"a", "host"}) {
    request.mutable_register_()->set_host(host);
    EXPECT_TRUE(stream->Write(request));
    EXPECT_TRUE(stream->Read(&response));
  }
  stream->WritesDone();
  const grpc::Status status = stream->Finish();
  std::vector<std::string> lines = record.LinesAfter(/*gone=*/2);
  lines.push_back(status.error_message());
  server->Shutdown();
  return lines;
}

TEST(HandlerInterceptorsTest, TheySeeTheSameAsWhenGrpcRunsThem) {
  const std::vector<std::string> events = EventsOfStream({kAttach});
  EXPECT_EQ(events, EventsOfStream({}));
  EXPECT_EQ(events,
            (std::vector<std::string>{
                "second begins", "first begins", "second read 5", "first read 5", "first writes",
                "second writes", "second read 8", "first read 8", "first writes", "second writes",
                "second no message", "first no message", "first ends with the end",
                "second ends with the end first", "the end first second"}));
}

TEST(HandlerInterceptorsTest, ACallThatGrpcRunsThemForHasNone) {
  const grpc::ServerContext context;
  const HandlerInterceptors none = HandlerInterceptors::Take(context);
  none.OnRead(nullptr);
  EXPECT_EQ(none.OnFinish({grpc::StatusCode::ABORTED, "x"}).error_message(), "x");
}

}  // namespace
}  // namespace remesh::service
