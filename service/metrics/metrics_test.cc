// SPDX-License-Identifier: Apache-2.0
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <sstream>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/fd.h"
#include "prometheus/counter.h"
#include "prometheus/text_serializer.h"
#include "remesh/v1/plan.grpc.pb.h"
#include "service/log/log.h"
#include "service/metrics/metrics_endpoint.h"
#include "service/metrics/rpc_metrics.h"
#include "service/rpc/error_info.h"
#include "service/testing/loopback.h"

namespace remesh::service {
namespace {

// The value of the one line that starts with `series`, or -1.
double ValueOf(const std::string& metrics, const std::string& series) {
  const size_t at = metrics.find("\n" + series + " ");
  double value = -1;
  if (at == std::string::npos) return value;
  const size_t start = at + series.size() + 2;
  return absl::SimpleAtod(metrics.substr(start, metrics.find('\n', start) - start), &value) ? value
                                                                                            : -1;
}

std::string Text(prometheus::Registry& registry) {
  return "\n" + prometheus::TextSerializer().Serialize(registry.Collect());
}

class PlanServiceOfTest : public v1::PlanService::CallbackService {
  grpc::ServerUnaryReactor* GetPlan(grpc::CallbackServerContext* context,
                                    const v1::GetPlanRequest* request,
                                    v1::Plan* response) override {
    response->set_name(request->name());
    auto* reactor = context->DefaultReactor();
    reactor->Finish(request->name().empty() ? StatusToGrpc(absl::InvalidArgumentError("no name"))
                                            : grpc::Status::OK);
    return reactor;
  }
  grpc::ServerWriteReactor<v1::Plan>* StreamPlan(grpc::CallbackServerContext*,
                                                 const v1::GetPlanRequest*) override {
    struct Reactor : grpc::ServerWriteReactor<v1::Plan> {
      Reactor() { OnWriteDone(true); }
      void OnWriteDone(bool) override {
        if (left-- > 0) {
          StartWrite(&plan);
        } else {
          Finish(grpc::Status::OK);
        }
      }
      void OnDone() override { delete this; }
      v1::Plan plan;
      int left = 3;
    };
    return new Reactor;
  }
};

std::string Series(const std::string& name, const std::string& method, const std::string& type,
                   const std::string& code = "") {
  return absl::StrCat(name, "{", code.empty() ? "" : absl::StrCat("grpc_code=\"", code, "\","),
                      "grpc_method=\"", method,
                      "\",grpc_service=\"remesh.v1.PlanService\",grpc_type=\"", type, "\"}");
}

TEST(RpcMetricsTest, CountsCallsOfEveryKind) {
  auto registry = std::make_shared<prometheus::Registry>();
  PlanServiceOfTest service;
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  builder.experimental().SetInterceptorCreators(
      RpcMetricsInterceptors(registry, {"remesh.v1.PlanService"}));
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  EXPECT_EQ(ValueOf(Text(*registry), Series("grpc_server_started_total", "ListPlans", "unary")), 0);
  EXPECT_EQ(ValueOf(Text(*registry),
                    Series("grpc_server_handled_total", "GetHostProgram", "server_stream", "OK")),
            0);

  const auto stub = v1::PlanService::NewStub(server->InProcessChannel({}));
  v1::GetPlanRequest request;
  v1::Plan plan;
  for (const char* name : {"plans/a", "plans/b", ""}) {
    grpc::ClientContext context;
    request.set_name(name);
    stub->GetPlan(&context, request, &plan);
  }
  {
    grpc::ClientContext context;
    const auto reader = stub->StreamPlan(&context, request);
    while (reader->Read(&plan)) {
    }
    EXPECT_TRUE(reader->Finish().ok());
  }
  {
    grpc::ClientContext context;
    EXPECT_EQ(stub->PinPlan(&context, {}, &plan).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  }
  SetLogLevel(LogLevel::kDebug);
  testing::internal::CaptureStderr();
  {
    grpc::ClientContext context;
    stub->GetPlan(&context, request, &plan);
  }
  server->Shutdown();
  server->Wait();
  const std::string log = testing::internal::GetCapturedStderr();
  SetLogLevel(LogLevel::kInfo);
  EXPECT_NE(log.find("msg=request method=/remesh.v1.PlanService/GetPlan peer="), std::string::npos)
      << log;
  EXPECT_NE(log.find(" code=InvalidArgument seconds="), std::string::npos) << log;
  const std::string text = Text(*registry);
  EXPECT_EQ(ValueOf(text, Series("grpc_server_started_total", "GetPlan", "unary")), 4);
  EXPECT_EQ(ValueOf(text, Series("grpc_server_handled_total", "GetPlan", "unary", "OK")), 2);
  EXPECT_EQ(
      ValueOf(text, Series("grpc_server_handled_total", "GetPlan", "unary", "InvalidArgument")), 2);
  EXPECT_EQ(ValueOf(text, Series("grpc_server_msg_received_total", "GetPlan", "unary")), 4);
  EXPECT_EQ(ValueOf(text, Series("grpc_server_msg_sent_total", "StreamPlan", "server_stream")), 3);
  EXPECT_EQ(
      ValueOf(text, Series("grpc_server_handling_seconds_count", "StreamPlan", "server_stream")),
      1);
  EXPECT_EQ(ValueOf(text, Series("grpc_server_handled_total", "PinPlan", "unary", "Unimplemented")),
            1);
}

// A connection that has said `words`; empty if it cannot. `window`: the bytes that may be under way
// to it unread; 0: the kernel's choice.
Fd Send(int port, const std::string& words, int window = 0) {
  Fd fd = ConnectTo(port, "127.0.0.1", window);
  if (send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL) < 0) fd.Reset();
  return fd;
}

Fd Ask(int port, const std::string& path, int window = 0) {
  return Send(port, absl::StrCat("GET ", path, " HTTP/1.0\r\nHost: localhost\r\n\r\n"), window);
}

std::string Get(int port, const std::string& path) { return ReadToEnd(Ask(port, path)); }

// A server without checks whose /metrics has more bytes than its sockets hold.
std::unique_ptr<MetricsEndpoint> StartLarge() {
  auto registry = std::make_shared<prometheus::Registry>();
  auto& family = prometheus::BuildCounter().Name("remesh_test_total").Help("x").Register(*registry);
  for (int i = 0; i < 100; ++i) family.Add({{"series", absl::StrCat(i, std::string(8000, 'x'))}});
  auto endpoint = MetricsEndpoint::Start("127.0.0.1:0", registry, {});
  EXPECT_TRUE(endpoint.ok()) << endpoint.status();
  return endpoint.ok() ? *std::move(endpoint) : nullptr;
}

// What each client must get while others are slow: both answers, within a second each.
void ExpectAnswered(int port) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_NE(Get(port, "/livez").find("200 OK"), std::string::npos);
  EXPECT_GT(Get(port, "/metrics").size(), 800'000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST(MetricsEndpointTest, ServesRegistryProcessAndBuild) {
  auto registry = std::make_shared<prometheus::Registry>();
  prometheus::BuildCounter()
      .Name("remesh_test_total")
      .Help("x")
      .Register(*registry)
      .Add({})
      .Increment(3);
  auto endpoint = MetricsEndpoint::Start("127.0.0.1:0", registry, {});
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  const std::string text = Get((*endpoint)->port(), "/metrics");
  EXPECT_NE(text.find("200 OK"), std::string::npos) << text;
  EXPECT_EQ(ValueOf(text, "remesh_test_total"), 3);
  EXPECT_NE(text.find("remesh_build_info{"), std::string::npos);
  EXPECT_GT(ValueOf(text, "process_resident_memory_bytes"), 1 << 20);
  EXPECT_GT(ValueOf(text, "process_open_fds"), 3);
  EXPECT_GE(ValueOf(text, "process_cpu_seconds_total"), 0);
  EXPECT_NEAR(ValueOf(text, "process_start_time_seconds"), static_cast<double>(time(nullptr)),
              3600);
}

// Two of them blocked prometheus-cpp's endpoint for 24 s, and 64 that of CivetWeb for 5 s.
TEST(MetricsEndpointTest, SlowReadersHoldUpNoOtherClient) {
  const auto endpoint = StartLarge();
  std::vector<Fd> slow;
  for (int i = 0; i < 200; ++i) slow.push_back(Ask(endpoint->port(), "/metrics", 4096));
  ExpectAnswered(endpoint->port());
}

// Clients that send half a request a byte at a time, and reconnect when their connection ends.
class Tricklers {
 public:
  Tricklers(int port, size_t count) : port_(port) {
    while (fds_.size() < count) fds_.push_back(Send(port_, "GET /livez HTTP/1.1\r\nHost: "));
    thread_ = std::thread([this] { Run(); });
  }
  ~Tricklers() {
    stopping_ = true;
    thread_.join();
  }

 private:
  void Run() {
    for (size_t i = 0; !stopping_; ++i) {
      Fd& fd = fds_[i % fds_.size()];
      if (send(fd.get(), "x", 1, MSG_NOSIGNAL) != 1) fd = Send(port_, "G");
      if (i % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  const int port_;
  std::vector<Fd> fds_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

// Such requests held up CivetWeb's threads for 4 s.
TEST(MetricsEndpointTest, RequestsThatTrickleHoldUpNoOtherClient) {
  const auto endpoint = StartLarge();
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const Tricklers slow(endpoint->port(), std::min<size_t>(1000, files.rlim_cur - 400));
  // They are of the same address, so that any connection may make room for theirs before its head
  // has come: then a client asks again.
  int answered = 0;
  for (int i = 0; i < 50 && answered < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (Get(endpoint->port(), "/metrics").size() > 800'000u) ++answered;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  }
  EXPECT_EQ(answered, 5);
}

TEST(MetricsEndpointTest, AHeadWithoutEndIsClosed) {
  const auto endpoint = StartLarge();
  const std::string line = "GET /livez HTTP/1.1\r\n";
  const Fd endless = Send(endpoint->port(), absl::StrCat(line, "A: ", std::string(1 << 20, 'a')));
  EXPECT_EQ(ReadToEnd(endless), "");
  const std::string lines = absl::StrCat(line, "A: ", std::string(7000, 'a'), "\r\n\r\n");
  EXPECT_NE(ReadToEnd(Send(endpoint->port(), lines)).find("200 OK"), std::string::npos);
}

TEST(MetricsEndpointTest, LongChecksHoldUpNoOtherRequest) {
  absl::Notification asked, done;
  auto endpoint = MetricsEndpoint::Start("127.0.0.1:0", std::make_shared<prometheus::Registry>(),
                                         {{"slow", [&] {
                                             if (!asked.HasBeenNotified()) asked.Notify();
                                             done.WaitForNotification();
                                             return absl::OkStatus();
                                           }}});
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  const int port = (*endpoint)->port();
  std::vector<Fd> waiting;
  for (int i = 0; i < 100; ++i) waiting.push_back(Ask(port, "/readyz"));
  asked.WaitForNotification();
  EXPECT_NE(Get(port, "/livez").find("200 OK"), std::string::npos);
  EXPECT_NE(Get(port, "/metrics").find("200 OK"), std::string::npos);
  done.Notify();
  EXPECT_NE(ReadToEnd(waiting.back()).find("200 OK"), std::string::npos);
}

TEST(MetricsEndpointTest, RequestsOfOddForms) {
  const auto endpoint = StartLarge();
  const auto answer = [&](const std::string& words) {
    return ReadToEnd(Send(endpoint->port(), words));
  };
  const std::string end = " HTTP/1.1\r\nHost: x\r\n\r\n";
  const std::string ok = answer("GET /livez" + end);
  EXPECT_EQ(ok,
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n"
            "Connection: close\r\n\r\nok\n");
  EXPECT_EQ(answer("HEAD /livez" + end), ok.substr(0, ok.size() - 3));
  EXPECT_EQ(answer("GET /livez?verbose=1" + end), ok);
  EXPECT_EQ(answer("GET http://a.b:7071/livez" + end), ok);
  EXPECT_EQ(answer("\r\nGET /livez HTTP/1.0\n\n"), ok) << "bare ends of lines";
  EXPECT_EQ(answer("GET /livez" + end + "GET /livez" + end), ok) << "one a connection";
  const std::string body = std::string(1 << 20, 'x');
  EXPECT_EQ(answer(absl::StrCat("GET /livez HTTP/1.1\r\nContent-Length: ", body.size(),
                                "\r\nExpect: 100-continue\r\n\r\n", body)),
            ok)
      << "a body is ignored";
  const std::string post = answer("POST /livez" + end);
  EXPECT_TRUE(post.starts_with("HTTP/1.1 405 Method Not Allowed\r\n")) << post;
  EXPECT_NE(post.find("\r\nAllow: GET, HEAD\r\n"), std::string::npos) << post;
  EXPECT_NE(answer("GET /livez/" + end).find("404 Not Found"), std::string::npos);
  EXPECT_NE(answer("GET http://a.b" + end).find("400 Bad Request"), std::string::npos);
  for (const char* no_request : {"GET /livez\r\n\r\n", "\n\n", "PRI * HTTP/2.0\r\n\r\n", " \n\n"})
    EXPECT_NE(answer(no_request).find("400 Bad Request"), std::string::npos) << no_request;
}

TEST(MetricsEndpointTest, StopsWhileClientsAreConnected) {
  auto endpoint = StartLarge();
  std::vector<Fd> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(Send(endpoint->port(), "GET /"));
    clients.push_back(Ask(endpoint->port(), "/metrics", 4096));
  }
  ExpectAnswered(endpoint->port());
  endpoint.reset();
  for (const Fd& client : clients) EXPECT_LT(ReadToEnd(client).size(), 800'000u);  // within 20 s
}

TEST(MetricsEndpointTest, ReadinessSaysWhatIsMissing) {
  absl::Status journal = absl::UnavailableError("the disk is full");
  auto endpoint = MetricsEndpoint::Start(
      "127.0.0.1:0", std::make_shared<prometheus::Registry>(),
      {{"serving", [] { return absl::OkStatus(); }}, {"journal", [&] { return journal; }}});
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  const std::string not_ready = Get((*endpoint)->port(), "/readyz");
  EXPECT_NE(not_ready.find("503"), std::string::npos) << not_ready;
  EXPECT_NE(not_ready.find("serving: ok\njournal: the disk is full\n"), std::string::npos);
  EXPECT_NE(Get((*endpoint)->port(), "/livez").find("200 OK"), std::string::npos);
  EXPECT_NE(Get((*endpoint)->port(), "/else").find("404"), std::string::npos);
  journal = absl::OkStatus();
  EXPECT_NE(Get((*endpoint)->port(), "/readyz").find("200 OK"), std::string::npos);
}

TEST(MetricsEndpointTest, ATakenAddressIsAnError) {
  auto registry = std::make_shared<prometheus::Registry>();
  auto first = MetricsEndpoint::Start("127.0.0.1:0", registry, {});
  ASSERT_TRUE(first.ok());
  const auto second =
      MetricsEndpoint::Start(absl::StrCat("127.0.0.1:", (*first)->port()), registry, {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(second.status().message().find("Address already in use"), std::string::npos)
      << second.status();
  EXPECT_EQ(MetricsEndpoint::Start("nonsense", registry, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace remesh::service
