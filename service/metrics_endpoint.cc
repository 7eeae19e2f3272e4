// SPDX-License-Identifier: Apache-2.0
#include "service/metrics_endpoint.h"

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "prometheus/gauge.h"
#include "service/process_metrics.h"
#include "service/version.h"

namespace remesh {
namespace {

constexpr int kThreads = 2;

void AddBuildInfo(prometheus::Registry& registry) {
  prometheus::BuildGauge()
      .Name("remesh_build_info")
      .Help("1, labelled with what was built.")
      .Register(registry)
      .Add({{"version", kVersion}, {"compiler", __VERSION__}})
      .Set(1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const std::string& address, std::shared_ptr<prometheus::Registry> registry) {
  if (address.find(':') == std::string::npos) {
    return InvalidField("metrics_address", address, "must be HOST:PORT");
  }
  std::unique_ptr<MetricsEndpoint> endpoint(new MetricsEndpoint);
  endpoint->registry_ = std::move(registry);
  endpoint->process_ = std::make_shared<ProcessMetrics>();
  AddBuildInfo(*endpoint->registry_);
  try {
    endpoint->exposer_ = std::make_unique<prometheus::Exposer>(address, kThreads);
  } catch (const std::exception& e) {
    return MakeError(
        absl::StatusCode::kUnavailable,
        absl::StrCat("cannot serve metrics on ", address, ": ", e.what()),
        {.reason = "METRICS_ADDRESS", .metadata = {{"address", address}, {"problem", e.what()}}});
  }
  endpoint->exposer_->RegisterCollectable(endpoint->registry_);
  endpoint->exposer_->RegisterCollectable(endpoint->process_);
  return endpoint;
}

int MetricsEndpoint::port() const {
  const std::vector<int> ports = exposer_->GetListeningPorts();
  return ports.empty() ? 0 : ports[0];
}

}  // namespace remesh
