// SPDX-License-Identifier: Apache-2.0
#include "worker/metrics.h"

#include "base/error.h"

namespace remesh {
namespace {

prometheus::Family<prometheus::Counter>& Counters(prometheus::Registry& registry, const char* name,
                                                  const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

prometheus::Gauge& OneGauge(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

}  // namespace

WorkerMetrics::WorkerMetrics(prometheus::Registry& registry, const std::string& transport)
    : bytes_(Counters(registry, "remesh_worker_transfer_bytes_total",
                      "Bytes moved in windows that are done.")),
      sent_(bytes_.Add({{"direction", "sent"}, {"transport", transport}})),
      received_(bytes_.Add({{"direction", "received"}, {"transport", transport}})),
      copied_(bytes_.Add({{"direction", "copied"}, {"transport", "local"}})),
      window_seconds_(
          prometheus::BuildHistogram()
              .Name("remesh_worker_window_seconds")
              .Help("Seconds from the start of a window to its end on this host.")
              .Register(registry)
              .Add({}, prometheus::Histogram::BucketBoundaries{0.001, 0.003, 0.01, 0.03, 0.1, 0.3,
                                                               1, 3, 10, 30})),
      buffer_bytes_(OneGauge(registry, "remesh_worker_buffer_bytes",
                             "Bytes reserved for shards and staging.")),
      errors_(Counters(registry, "remesh_worker_errors_total",
                       "Attempts and commands that failed, by reason.")),
      attached_(OneGauge(registry, "remesh_worker_attached",
                         "1 while the planner has welcomed this worker.")) {}

void WorkerMetrics::WindowDone(const MoverBytes& delta, double seconds) {
  sent_.Increment(static_cast<double>(delta.sent));
  received_.Increment(static_cast<double>(delta.received));
  copied_.Increment(static_cast<double>(delta.copied));
  window_seconds_.Observe(seconds);
}

void WorkerMetrics::SetBufferBytes(int64_t bytes) { buffer_bytes_.Set(static_cast<double>(bytes)); }

void WorkerMetrics::CountError(const absl::Status& status) {
  errors_.Add({{"reason", GetErrorInfo(status).reason}}).Increment();
}

void WorkerMetrics::SetAttached(bool attached) { attached_.Set(attached ? 1 : 0); }

}  // namespace remesh
