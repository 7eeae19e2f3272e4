// SPDX-License-Identifier: Apache-2.0
#include "service/metrics/rpc_metrics.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/server_context.h>

#include <array>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "prometheus/counter.h"
#include "prometheus/histogram.h"
#include "service/log/log.h"

namespace remesh::service {
namespace {

using HookPoint = grpc::experimental::InterceptionHookPoints;
using grpc::experimental::ServerRpcInfo;

// Indexed by code.
constexpr std::array<const char*, 17> kCodes = {
    "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
    "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
    "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
    "DataLoss", "Unauthenticated"};

const prometheus::Histogram::BucketBoundaries kBuckets = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1,    0.25,    0.5,    1,     2.5,    5,     10,   30,    60};

// Methods of services that gRPC itself provides, for which there is no generated code.
constexpr std::pair<const char*, const char*> kMethodsOfGrpc[] = {
    {"/grpc.health.v1.Health/Check", "unary"},
    {"/grpc.health.v1.Health/Watch", "server_stream"},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "bidi_stream"}};

const char* TypeName(const google::protobuf::MethodDescriptor& method) {
  if (method.client_streaming()) return method.server_streaming() ? "bidi_stream" : "client_stream";
  return method.server_streaming() ? "server_stream" : "unary";
}

}  // namespace

struct RpcMetrics::Method {
  prometheus::Counter* started = nullptr;
  prometheus::Counter* received = nullptr;
  prometheus::Counter* sent = nullptr;
  prometheus::Histogram* seconds = nullptr;
  std::array<prometheus::Counter*, kCodes.size()> handled{};
};

struct RpcMetrics::Families {
  prometheus::Family<prometheus::Counter>& started;
  prometheus::Family<prometheus::Counter>& handled;
  prometheus::Family<prometheus::Counter>& received;
  prometheus::Family<prometheus::Counter>& sent;
  prometheus::Family<prometheus::Histogram>& seconds;
};

namespace {

prometheus::Family<prometheus::Counter>& CounterFamily(prometheus::Registry& registry,
                                                       const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

// Counts one call.
class Interceptor : public grpc::experimental::Interceptor {
 public:
  Interceptor(RpcMetrics::Method& method, ServerRpcInfo* info) : method_(method), info_(info) {
    method_.started->Increment();
  }
  // Also counts a call that ended before a status was sent.
  ~Interceptor() override { Handled(grpc::StatusCode::CANCELLED); }

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(HookPoint::POST_RECV_MESSAGE) &&
        batch->GetRecvMessage() != nullptr) {
      method_.received->Increment();
    }
    if (batch->QueryInterceptionHookPoint(HookPoint::PRE_SEND_MESSAGE)) method_.sent->Increment();
    if (batch->QueryInterceptionHookPoint(HookPoint::PRE_SEND_STATUS))
      Handled(batch->GetSendStatus().error_code());
    batch->Proceed();
  }

 private:
  void Handled(int code) {
    if (std::exchange(handled_, true)) return;
    const bool known = code >= 0 && code < static_cast<int>(kCodes.size());
    method_.handled[known ? code : static_cast<int>(grpc::StatusCode::UNKNOWN)]->Increment();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
    method_.seconds->Observe(seconds.count());
    if (!LogEnabled(LogLevel::kDebug)) return;
    Log(LogLevel::kDebug, "request",
        {{"method", info_->method()},
         {"peer", info_->server_context()->peer()},
         {"code", known ? kCodes[code] : "Unknown"},
         {"seconds", seconds.count()}});
  }

  RpcMetrics::Method& method_;
  ServerRpcInfo* const info_;  // lives as long as this
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  bool handled_ = false;
};

class Factory : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  Factory(std::shared_ptr<prometheus::Registry> registry, const std::vector<std::string>& services)
      : registry_(std::move(registry)), metrics_(*registry_) {
    for (const std::string& service : services) metrics_.AddService(service);
    for (const auto& [path, type] : kMethodsOfGrpc) metrics_.AddMethod(path, type);
  }

  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    return new Interceptor(metrics_.OfMethod(info->method()), info);
  }

 private:
  const std::shared_ptr<prometheus::Registry> registry_;
  RpcMetrics metrics_;
};

}  // namespace

RpcMetrics::RpcMetrics(prometheus::Registry& registry)
    : families_(new Families{
          CounterFamily(registry, "grpc_server_started_total", "RPCs started on the server."),
          CounterFamily(registry, "grpc_server_handled_total",
                        "RPCs completed on the server, whatever their outcome."),
          CounterFamily(registry, "grpc_server_msg_received_total",
                        "Messages received on the server."),
          CounterFamily(registry, "grpc_server_msg_sent_total", "Messages sent by the server."),
          prometheus::BuildHistogram()
              .Name("grpc_server_handling_seconds")
              .Help("Seconds from the start of an RPC to its end.")
              .Register(registry)}),
      unknown_(Make({{"grpc_type", "unknown"}, {"grpc_service", ""}, {"grpc_method", "unknown"}})) {
}

RpcMetrics::~RpcMetrics() = default;

void RpcMetrics::AddService(const std::string& full_name) {
  const auto* service =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(full_name);
  REMESH_CHECK(service != nullptr);
  for (int i = 0; i < service->method_count(); ++i) {
    const auto& method = *service->method(i);
    AddMethod(absl::StrCat("/", full_name, "/", method.name()), TypeName(method));
  }
}

void RpcMetrics::AddMethod(const std::string& path, const std::string& type) {
  const std::vector<std::string> names = absl::StrSplit(path, '/');
  REMESH_CHECK(names.size() == 3);
  methods_[path] =
      Make({{"grpc_type", type}, {"grpc_service", names[1]}, {"grpc_method", names[2]}});
}

RpcMetrics::Method& RpcMetrics::OfMethod(absl::string_view path) const {
  const auto known = methods_.find(path);
  return known == methods_.end() ? *unknown_ : *known->second;
}

std::unique_ptr<RpcMetrics::Method> RpcMetrics::Make(const prometheus::Labels& labels) const {
  auto method = std::make_unique<Method>();
  method->started = &families_->started.Add(labels);
  method->received = &families_->received.Add(labels);
  method->sent = &families_->sent.Add(labels);
  method->seconds = &families_->seconds.Add(labels, kBuckets);
  for (size_t code = 0; code < kCodes.size(); ++code) {
    prometheus::Labels with_code = labels;
    with_code["grpc_code"] = kCodes[code];
    method->handled[code] = &families_->handled.Add(with_code);
  }
  return method;
}

std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
RpcMetricsInterceptors(std::shared_ptr<prometheus::Registry> registry,
                       const std::vector<std::string>& services) {
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> creators;
  creators.push_back(std::make_unique<Factory>(std::move(registry), services));
  return creators;
}

}  // namespace remesh::service
