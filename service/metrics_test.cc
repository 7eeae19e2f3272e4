// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <sstream>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/fd.h"
#include "prometheus/counter.h"
#include "prometheus/text_serializer.h"
#include "remesh/v1/plan.grpc.pb.h"
#include "service/error_info.h"
#include "service/log.h"
#include "service/metrics_endpoint.h"
#include "service/rpc_metrics.h"

namespace {

std::atomic<bool> keepalive_fails = false;
std::atomic<int> send_buffer = 0;  // bytes; 0: the kernel's choice

}  // namespace

// CivetWeb asks for SO_KEEPALIVE on each connection that it accepts: the place to be in its way.
extern "C" int setsockopt(int fd, int level, int name, const void* value,
                          socklen_t length) noexcept {
  const int bytes = send_buffer;
  if (name == SO_KEEPALIVE && bytes != 0) {
    syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
  }
  if (name == SO_KEEPALIVE && keepalive_fails) {
    errno = ENOBUFS;
    return -1;
  }
  return static_cast<int>(syscall(SYS_setsockopt, fd, level, name, value, length));
}

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

// A connection over loopback that has asked for `path`, and waits at most 20 s. `window`: the bytes
// that may be under way to it unread; 0: the kernel's choice.
Fd Ask(int port, const std::string& path, int window = 0) {
  Fd fd(socket(AF_INET, SOCK_STREAM, 0));
  const timeval timeout{.tv_sec = 20, .tv_usec = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  if (window != 0) setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &window, sizeof(window));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const std::string request = absl::StrCat("GET ", path, " HTTP/1.0\r\nHost: localhost\r\n\r\n");
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) {
    fd.Reset();
  }
  return fd;
}

std::string Get(int port, const std::string& path) {
  const Fd fd = Ask(port, path);
  std::string answer;
  char buffer[4096];
  for (ssize_t n; (n = recv(fd.get(), buffer, sizeof(buffer), 0)) > 0;)
    answer.append(buffer, static_cast<size_t>(n));
  return answer;
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

// Two of them blocked prometheus-cpp's endpoint for 24 s.
TEST(MetricsEndpointTest, SlowReadersHoldUpNobody) {
  auto registry = std::make_shared<prometheus::Registry>();
  auto& family = prometheus::BuildCounter().Name("remesh_test_total").Help("x").Register(*registry);
  for (int i = 0; i < 100; ++i)  // more than their sockets hold
    family.Add({{"series", absl::StrCat(i, std::string(8000, 'x'))}});
  auto endpoint = MetricsEndpoint::Start("127.0.0.1:0", registry, {});
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  send_buffer = 1 << 16;
  std::vector<Fd> slow;
  for (int i = 0; i < 50; ++i) slow.push_back(Ask((*endpoint)->port(), "/metrics", 4096));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_NE(Get((*endpoint)->port(), "/livez").find("200 OK"), std::string::npos);
  EXPECT_GT(Get((*endpoint)->port(), "/metrics").size(), 800'000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  send_buffer = 0;
}

TEST(MetricsEndpointTest, WhatItsLibrarySaysIsALineOfOurLog) {
  auto endpoint =
      MetricsEndpoint::Start("127.0.0.1:0", std::make_shared<prometheus::Registry>(), {});
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  testing::internal::CaptureStderr();
  keepalive_fails = true;
  EXPECT_NE(Get((*endpoint)->port(), "/livez").find("200 OK"), std::string::npos);
  keepalive_fails = false;
  endpoint->reset();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find(" level=warning msg=HTTP cause=\""), std::string::npos) << log;
  EXPECT_NE(log.find("SO_KEEPALIVE) failed: "), std::string::npos) << log;
  EXPECT_EQ(log.find('\n'), log.size() - 1) << log;
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
