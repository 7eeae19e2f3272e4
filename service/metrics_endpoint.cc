// SPDX-License-Identifier: Apache-2.0
#include "service/metrics_endpoint.h"

#include <civetweb.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "prometheus/gauge.h"
#include "prometheus/text_serializer.h"
#include "service/log.h"
#include "service/version.h"

namespace remesh::service {
namespace {

// Time that a request may take to arrive, and an answer to move at all.
constexpr char kStallMillis[] = "1000";
constexpr auto kAnswerMax = std::chrono::seconds(5);  // then a slow reader has had enough
constexpr size_t kPiece = 64 << 10;

void AddBuildInfo(prometheus::Registry& registry) {
  prometheus::BuildGauge()
      .Name("remesh_build_info")
      .Help("1, labelled with what was built.")
      .Register(registry)
      .Add({{"version", kVersion}, {"compiler", __VERSION__}})
      .Set(1);
}

// What CivetWeb says while this thread starts it: the cause, should it fail.
thread_local std::vector<std::string>* start_messages = nullptr;

int OnMessage(const mg_connection*, const char* message) {
  if (start_messages != nullptr) {
    start_messages->push_back(message);
  } else {
    LogWarning("HTTP", {{"cause", message}});
  }
  return 1;  // CivetWeb itself says nothing
}

// Null when it fails, with the cause in `problem`.
mg_context* StartServer(mg_init_data init, std::string& problem) {
  std::vector<std::string> messages;
  start_messages = &messages;
  mg_context* context = mg_start2(&init, nullptr);
  start_messages = nullptr;
  if (!messages.empty()) problem = messages.front();
  return context;
}

void Send(mg_connection* connection, int code, std::string_view body, bool with_body) {
  const auto end = std::chrono::steady_clock::now() + kAnswerMax;
  mg_printf(connection,
            "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
            "Content-Length: %zu\r\nConnection: close\r\n\r\n",
            code, mg_get_response_code_text(connection, code), body.size());
  if (!with_body) return;
  for (size_t at = 0; at < body.size() && std::chrono::steady_clock::now() < end; at += kPiece) {
    const std::string_view piece = body.substr(at, kPiece);
    if (mg_write(connection, piece.data(), piece.size()) != static_cast<int>(piece.size())) return;
  }
}

}  // namespace

MetricsEndpoint::MetricsEndpoint(std::shared_ptr<prometheus::Registry> registry,
                                 std::vector<ReadinessCheck> checks)
    : registry_(std::move(registry)), checks_(std::move(checks)) {
  AddBuildInfo(*registry_);
}

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const std::string& address, std::shared_ptr<prometheus::Registry> registry,
    std::vector<ReadinessCheck> checks) {
  if (address.find(':') == std::string::npos) {
    return InvalidField("metrics_address", address, "must be HOST:PORT");
  }
  std::unique_ptr<MetricsEndpoint> endpoint(
      new MetricsEndpoint(std::move(registry), std::move(checks)));
  mg_callbacks callbacks{};
  callbacks.begin_request = OnRequest;
  callbacks.log_message = OnMessage;
  const std::string threads = absl::StrCat(kThreads);
  const char* options[] = {"listening_ports",    address.c_str(), "num_threads", threads.c_str(),
                           "request_timeout_ms", kStallMillis,    nullptr};
  std::string problem = "no cause is known";
  endpoint->context_ = StartServer({&callbacks, endpoint.get(), options}, problem);
  if (endpoint->context_ == nullptr) {
    return MakeError(
        absl::StatusCode::kUnavailable,
        absl::StrCat("cannot serve metrics on ", address, ": ", problem),
        {.reason = "METRICS_ADDRESS", .metadata = {{"address", address}, {"problem", problem}}});
  }
  return endpoint;
}

MetricsEndpoint::~MetricsEndpoint() {
  if (context_ != nullptr) mg_stop(context_);
}

int MetricsEndpoint::port() const {
  mg_server_port port{};
  return mg_get_server_ports(context_, 1, &port) == 1 ? port.port : 0;
}

int MetricsEndpoint::OnRequest(mg_connection* connection) {
  const mg_request_info& request = *mg_get_request_info(connection);
  const auto* self = static_cast<const MetricsEndpoint*>(request.user_data);
  const std::string_view method = request.request_method;
  const bool get = method == "GET";
  const Answer answer = get || method == "HEAD" ? self->AnswerTo(request.local_uri)
                                                : Answer{.code = 405, .body = "GET only\n"};
  Send(connection, answer.code, answer.body, method != "HEAD");
  return answer.code;
}

MetricsEndpoint::Answer MetricsEndpoint::AnswerTo(const std::string& path) const {
  if (path == "/metrics") return {.body = Metrics()};
  if (path == "/livez") return {.body = "ok\n"};
  if (path == "/readyz") {
    const Readiness readiness = CheckReadiness(checks_);
    return {.code = readiness.ready ? 200 : 503, .body = readiness.text};
  }
  return {.code = 404, .body = "/metrics, /livez and /readyz are served here\n"};
}

std::string MetricsEndpoint::Metrics() const {
  std::vector<prometheus::MetricFamily> families = registry_->Collect();
  std::ranges::move(process_.Collect(), std::back_inserter(families));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace remesh::service
