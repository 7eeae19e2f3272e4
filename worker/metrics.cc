// SPDX-License-Identifier: Apache-2.0
#include "worker/metrics.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/error.h"
#include "base/text/transport_names.h"
#include "service/metrics/one_gauge.h"

namespace remesh::worker {
namespace {

// By Attempt::Phase, without kOver, which an attempt never leaves.
constexpr const char* kPhases[] = {"reserving", "fetching", "opening",    "transferring",
                                   "verifying", "verified", "committing", "committed",
                                   "failed",    "stopping"};
static_assert(std::size(kPhases) == static_cast<size_t>(Attempt::Phase::kOver));

// Reasons that alerts query before the first such error.
constexpr const char* kExpectedErrors[] = {"DIGEST_MISMATCH", "PEER_LOST", "SOURCE_MODIFIED",
                                           "TRANSPORT_FAILED"};

const prometheus::Histogram::BucketBoundaries kSeconds = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3,
                                                          1,     3,     10,   30,   100, 300};

prometheus::Family<prometheus::Counter>& Counters(prometheus::Registry& registry, const char* name,
                                                  const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

prometheus::Family<prometheus::Histogram>& Histograms(prometheus::Registry& registry,
                                                      const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

}  // namespace

WorkerMetrics::Wire WorkerMetrics::AddWire(const std::string& transport) {
  return {.sent = &bytes_.Add({{"direction", "sent"}, {"transport", transport}}),
          .received = &bytes_.Add({{"direction", "received"}, {"transport", transport}})};
}

void WorkerMetrics::Count(const MoverBytes::Link& delta, const Wire& wire) {
  wire.sent->Increment(static_cast<double>(delta.sent));
  wire.received->Increment(static_cast<double>(delta.received));
}

WorkerMetrics::WorkerMetrics(prometheus::Registry& registry, const std::string& transport,
                             const std::string& stream, bool encrypts)
    : bytes_(Counters(registry, "remesh_worker_transfer_bytes_total",
                      "Bytes moved in finished windows.")),
      windowed_(AddWire(transport)),
      in_clear_(AddWire(stream)),
      encrypted_(encrypts ? AddWire(stream + kEncryptedTransport) : in_clear_),
      copied_(bytes_.Add({{"direction", "copied"}, {"transport", "local"}})),
      chunks_verified_(Counters(registry, "remesh_worker_chunks_verified_total",
                                "Chunks (16 KiB) that arrived with the origin's digest.")
                           .Add({})),
      mismatches_(Counters(registry, "remesh_worker_digest_mismatches_total",
                           "Attempts that ended because a digest was not the expected one.")),
      arrived_wrong_(mismatches_.Add({{"where", "arrival"}})),
      source_modified_(mismatches_.Add({{"where", "source"}})),
      window_seconds_(Histograms(registry, "remesh_worker_window_seconds",
                                 "Seconds from the start of a window to its end on this host.")
                          .Add({}, kSeconds)),
      buffer_bytes_(service::OneGauge(registry, "remesh_worker_buffer_bytes",
                                      "Bytes reserved for shards and staging.")),
      buffer_bytes_max_(service::OneGauge(registry, "remesh_worker_buffer_max_bytes",
                                          "Bytes that shards and staging may take; 0: no limit.")),
      device_buffer_bytes_(service::OneGauge(registry, "remesh_worker_device_buffer_bytes",
                                             "Bytes reserved for shards in device memory.")),
      recycling_(
          Counters(registry, "remesh_worker_recycled_files_total",
                   "Files of retired generations that a later one tried to reuse, by outcome.")),
      recycled_(recycling_.Add({{"outcome", "recycled"}})),
      still_mapped_(recycling_.Add({{"outcome", "still_mapped"}})),
      no_lease_support_(recycling_.Add({{"outcome", "no_lease_support"}})),
      communicators_(
          Counters(registry, "remesh_worker_nccl_communicators_total",
                   "Attempts that connected by NCCL, by origin of their communicators.")),
      communicators_created_(communicators_.Add({{"outcome", "created"}})),
      communicators_reused_(communicators_.Add({{"outcome", "reused"}})),
      plans_not_compared_(Counters(registry, "remesh_worker_plans_not_compared_total",
                                   "Attempts whose plan the server named without a digest.")
                              .Add({})),
      errors_(Counters(registry, "remesh_worker_errors_total",
                       "Attempts and commands that failed, by reason.")),
      heartbeats_(
          Counters(registry, "remesh_worker_heartbeats_total", "Heartbeats sent to the server.")
              .Add({})),
      attached_(service::OneGauge(registry, "remesh_worker_attached",
                                  "1 while this worker is attached to the server.")) {
  auto& phases = Histograms(registry, "remesh_worker_phase_seconds",
                            "Seconds that attempts spent in each phase on this host.");
  for (const char* phase : kPhases)
    phase_seconds_.push_back(&phases.Add({{"phase", phase}}, kSeconds));
  for (const char* reason : kExpectedErrors) errors_.Add({{"reason", reason}});
}

void WorkerMetrics::WindowDone(const MoverBytes& delta, double seconds, bool encrypted) {
  Count(delta.windowed, windowed_);
  Count(delta.streamed, encrypted ? encrypted_ : in_clear_);
  copied_.Increment(static_cast<double>(delta.copied));
  chunks_verified_.Increment(static_cast<double>(delta.chunks_verified));
  window_seconds_.Observe(seconds);
}

void WorkerMetrics::PhaseDone(Attempt::Phase phase, double seconds) {
  REMESH_CHECK(phase != Attempt::Phase::kOver);
  phase_seconds_[static_cast<size_t>(phase)]->Observe(seconds);
}

void WorkerMetrics::CommunicatorsOpened(bool reused) {
  (reused ? communicators_reused_ : communicators_created_).Increment();
}

void WorkerMetrics::PlanNotCompared() { plans_not_compared_.Increment(); }

void WorkerMetrics::MovingFailed(const absl::Status& status) {
  const std::string reason = GetErrorInfo(status).reason;
  if (reason == "DIGEST_MISMATCH") arrived_wrong_.Increment();
  if (reason == "SOURCE_MODIFIED") source_modified_.Increment();
}

void WorkerMetrics::SetDeviceBufferBytes(int64_t bytes) {
  device_buffer_bytes_.Set(static_cast<double>(bytes));
}

void WorkerMetrics::SetBufferBytes(int64_t bytes) { buffer_bytes_.Set(static_cast<double>(bytes)); }

void WorkerMetrics::SetBufferBytesMax(int64_t bytes) {
  buffer_bytes_max_.Set(static_cast<double>(bytes));
}

void WorkerMetrics::SetRecycling(const RecyclingCounts& counts) {
  const auto raise = [](prometheus::Counter& counter, int64_t value) {
    counter.Increment(std::max(0.0, static_cast<double>(value) - counter.Value()));
  };
  raise(recycled_, counts.recycled);
  raise(still_mapped_, counts.still_mapped);
  raise(no_lease_support_, counts.no_lease_support);
}

void WorkerMetrics::CountError(const absl::Status& status) {
  errors_.Add({{"reason", GetErrorInfo(status).reason}}).Increment();
}

void WorkerMetrics::CountHeartbeat() { heartbeats_.Increment(); }

void WorkerMetrics::SetAttached(bool attached) { attached_.Set(attached ? 1 : 0); }

}  // namespace remesh::worker
