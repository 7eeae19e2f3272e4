// SPDX-License-Identifier: Apache-2.0
#include "service/metrics/metrics_endpoint.h"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "prometheus/gauge.h"
#include "prometheus/text_serializer.h"
#include "service/front/listen.h"
#include "service/process/version.h"

namespace remesh::service {
namespace {

// Limit for data that was sent and not acknowledged.
constexpr auto kSilencePeerMax = std::chrono::seconds(5);
// Kernel memory of one connection, each way, so that 64 slow readers cost no more.
constexpr int kSocketBytes = 64 << 10;

void AddBuildInfo(prometheus::Registry& registry) {
  prometheus::BuildGauge()
      .Name("remesh_build_info")
      .Help("1, labelled with version and compiler.")
      .Register(registry)
      .Add({{"version", kVersion}, {"compiler", __VERSION__}})
      .Set(1);
}

absl::Status CannotServe(const std::string& address, const absl::Status& why) {
  const std::string problem = GetErrorInfo(why).metadata["cause"];
  return MakeError(
      absl::StatusCode::kUnavailable,
      absl::StrCat("metrics_address: cannot serve metrics on ", address, ": ", problem),
      {.reason = "METRICS_ADDRESS",
       .metadata = {{"field", "metrics_address"}, {"address", address}, {"problem", problem}}});
}

// Accepts the connections that HttpAnswers takes and limits itself. There are few of them, so they
// take few descriptors from others. They may use some descriptors that other connections leave
// free, because the process would be killed if a probe failed for lack of one.
AcceptLoop::Options HttpOptions() {
  return {.per_address_max = 64,
          .silent_max = 128,
          .opening_bytes = kHttpHeadMax,
          .is_opening = HasHttpHead,
          .forgets_taken = true,
          .reserved_descriptors = kReservedDescriptors / 2};
}

}  // namespace

MetricsEndpoint::MetricsEndpoint(std::shared_ptr<prometheus::Registry> registry,
                                 std::vector<ReadinessCheck> checks)
    : registry_(std::move(registry)),
      checks_(std::move(checks)),
      answers_({{"/metrics", {.make = [this] { return Metrics(); }}},
                {"/readyz", {.make = [this] { return Ready(); }}},
                {"/livez", {.make = [] { return HttpAnswer{.body = "ok\n"}; }, .waits = false}}},
               HttpAnswers::Options()) {
  AddBuildInfo(*registry_);
}

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const std::string& address, std::shared_ptr<prometheus::Registry> registry,
    std::vector<ReadinessCheck> checks) {
  if (address.find(':') == std::string::npos) {
    return InvalidField("metrics_address", address, "must be HOST:PORT");
  }
  absl::StatusOr<Listeners> listeners = ListenOn(address, kSilencePeerMax);
  if (!listeners.ok()) return CannotServe(address, listeners.status());
  for (const Fd& listener : listeners->sockets) {  // accepted connections inherit these options
    for (const int buffer : {SO_SNDBUF, SO_RCVBUF})
      setsockopt(listener.get(), SOL_SOCKET, buffer, &kSocketBytes, sizeof(kSocketBytes));
  }
  std::unique_ptr<MetricsEndpoint> endpoint(
      new MetricsEndpoint(std::move(registry), std::move(checks)));
  endpoint->port_ = listeners->port;
  endpoint->accepts_ = std::make_unique<AcceptLoop>(
      std::move(listeners->sockets), HttpOptions(),
      [answers = &endpoint->answers_](int connection) { answers->Take(Fd(connection)); });
  return endpoint;
}

HttpAnswer MetricsEndpoint::Metrics() const {
  std::vector<prometheus::MetricFamily> families = registry_->Collect();
  std::ranges::move(process_.Collect(), std::back_inserter(families));
  return {.body = prometheus::TextSerializer().Serialize(families)};
}

HttpAnswer MetricsEndpoint::Ready() const {
  const Readiness readiness = CheckReadiness(checks_);
  return {.code = readiness.ready ? 200 : 503, .body = readiness.text};
}

}  // namespace remesh::service
