// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/execution/attempt.h"
#include "worker/execution/mover.h"
#include "worker/store/buffer_pool.h"

namespace remesh::worker {

// The worker's Prometheus series, remesh_worker_*, each described in docs/metrics.md. Every series
// exists from the start, except those of rare error reasons. Thread-safe.
class WorkerMetrics {
 public:
  // Transport::name() and stream_name(). `registry` must outlive it.
  WorkerMetrics(prometheus::Registry& registry, const std::string& transport,
                const std::string& stream, bool encrypts);

  // `delta` counts from the attempt's previous window; `encrypted` says whether its streams were
  // encrypted.
  void WindowDone(const MoverBytes& delta, double seconds, bool encrypted);
  // An attempt has left `phase`, which is not kOver.
  void PhaseDone(Attempt::Phase phase, double seconds);
  // An attempt has its program, and the server named no digest of the plan.
  void PlanNotCompared();
  // An attempt connects by NCCL.
  void CommunicatorsOpened(bool reused);
  // `status` has ended a mover. Counted if digests did not match.
  void MovingFailed(const absl::Status& status);
  void SetBufferBytes(int64_t bytes);
  void SetBufferBytesMax(int64_t bytes);
  void SetDeviceBufferBytes(int64_t bytes);
  // `counts` are the store's totals since it was opened.
  void SetRecycling(const RecyclingCounts& counts);
  void CountError(const absl::Status& status);
  void CountHeartbeat();
  void SetAttached(bool attached);

 private:
  prometheus::Family<prometheus::Counter>& bytes_;
  struct Wire {
    prometheus::Counter* sent;
    prometheus::Counter* received;
  };
  Wire AddWire(const std::string& transport);

  static void Count(const MoverBytes::Link& delta, const Wire& wire);

  const Wire windowed_;   // equal to in_clear_ if the transport has one link
  const Wire in_clear_;   // streams
  const Wire encrypted_;  // equal to in_clear_ if the transport does not encrypt
  prometheus::Counter& copied_;
  prometheus::Counter& chunks_verified_;
  prometheus::Family<prometheus::Counter>& mismatches_;
  prometheus::Counter& arrived_wrong_;
  prometheus::Counter& source_modified_;
  prometheus::Histogram& window_seconds_;
  std::vector<prometheus::Histogram*> phase_seconds_;  // by Attempt::Phase
  prometheus::Gauge& buffer_bytes_;
  prometheus::Gauge& buffer_bytes_max_;
  prometheus::Gauge& device_buffer_bytes_;
  prometheus::Family<prometheus::Counter>& recycling_;
  prometheus::Counter& recycled_;
  prometheus::Counter& still_mapped_;
  prometheus::Counter& no_lease_support_;
  prometheus::Family<prometheus::Counter>& communicators_;
  prometheus::Counter& communicators_created_;
  prometheus::Counter& communicators_reused_;
  prometheus::Counter& plans_not_compared_;
  prometheus::Family<prometheus::Counter>& errors_;
  prometheus::Counter& heartbeats_;
  prometheus::Gauge& attached_;
};

}  // namespace remesh::worker
