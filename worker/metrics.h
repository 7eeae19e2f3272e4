// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "worker/execution/mover.h"

namespace remesh {

// What a worker tells Prometheus. Thread-safe.
//
//   remesh_worker_transfer_bytes_total{direction="sent|received|copied",transport}
//   remesh_worker_window_seconds (histogram) remesh_worker_buffer_bytes
//   remesh_worker_errors_total{reason}   remesh_worker_attached
class WorkerMetrics {
 public:
  // `registry` must outlive it.
  WorkerMetrics(prometheus::Registry& registry, const std::string& transport);

  // `delta`: since the attempt's window before.
  void WindowDone(const MoverBytes& delta, double seconds);
  void SetBufferBytes(int64_t bytes);
  void CountError(const absl::Status& status);
  void SetAttached(bool attached);

 private:
  prometheus::Family<prometheus::Counter>& bytes_;
  prometheus::Counter& sent_;
  prometheus::Counter& received_;
  prometheus::Counter& copied_;
  prometheus::Histogram& window_seconds_;
  prometheus::Gauge& buffer_bytes_;
  prometheus::Family<prometheus::Counter>& errors_;
  prometheus::Gauge& attached_;
};

}  // namespace remesh
