// SPDX-License-Identifier: Apache-2.0
#include "server/cache/cache_counters.h"

#include "google/protobuf/util/time_util.h"

namespace remesh::server {
namespace {

v1::Evictions ToProto(const EvictionCounts& counts) {
  v1::Evictions evictions;
  evictions.set_bytes(counts.bytes);
  evictions.set_entries(counts.entries);
  evictions.set_age(counts.age);
  evictions.set_deleted(counts.deleted);
  evictions.set_flushed(counts.flushed);
  evictions.set_corrupt(counts.corrupt);
  return evictions;
}

v1::TierStats ToProto(const CacheCounters::Tier& counters) {
  v1::TierStats tier;
  tier.set_hits(counters.hits);
  tier.set_isomorphic_hits(counters.isomorphic_hits);
  tier.set_misses(counters.misses);
  tier.set_compute_seconds_saved(counters.compute_seconds_saved);
  return tier;
}

v1::PrecomputeStats ToProto(const CacheCounters::Precompute& counters) {
  v1::PrecomputeStats precompute;
  precompute.set_queued(counters.queued);
  precompute.set_waiting(counters.waiting);
  precompute.set_computed(counters.computed);
  precompute.set_refused(counters.refused);
  precompute.set_used(counters.used);
  return precompute;
}

void SetMaxAge(absl::Duration max_age, v1::TierStats& tier) {
  *tier.mutable_max_age() =
      google::protobuf::util::TimeUtil::NanosecondsToDuration(absl::ToInt64Nanoseconds(max_age));
}

void SetHeld(const MemoryTier& memory, v1::TierStats& tier) {
  const MemoryTier::Limits& limits = memory.limits();
  tier.set_entries(static_cast<int64_t>(memory.names().size()));
  tier.set_plans(memory.plan_count());
  tier.set_pinned(memory.pinned_count());
  tier.set_bytes(memory.bytes());
  tier.set_max_bytes(limits.max_bytes);
  tier.set_max_entries(limits.max_entries);
  if (limits.max_age != absl::InfiniteDuration()) SetMaxAge(limits.max_age, tier);
}

void SetHeld(DiskTier& disk, v1::TierStats& tier) {
  const DiskTier::Stats stats = disk.stats();
  const PlanFile::Limits& limits = disk.limits();
  tier.set_entries(stats.held.names);
  tier.set_plans(stats.held.plans);
  tier.set_pinned(stats.held.pinned);
  tier.set_bytes(stats.held.bytes);
  tier.set_max_bytes(limits.max_bytes);
  tier.set_max_entries(limits.max_entries);
  SetMaxAge(limits.max_age, tier);
  tier.set_misses(stats.misses);
  *tier.mutable_evictions() = ToProto(stats.evictions);
  tier.set_errors(stats.errors);
}

}  // namespace

v1::CacheStats ToProto(const CacheCounters& counters, const MemoryTier& memory, DiskTier& disk) {
  v1::CacheStats stats;
  *stats.mutable_memory() = ToProto(counters.memory);
  *stats.mutable_memory()->mutable_evictions() = ToProto(counters.memory_evictions);
  SetHeld(memory, *stats.mutable_memory());
  if (disk.present()) {
    *stats.mutable_disk() = ToProto(counters.disk);
    SetHeld(disk, *stats.mutable_disk());
  }
  stats.set_computations(counters.computations);
  stats.set_compute_seconds(counters.compute_seconds);
  stats.set_single_flight_waits(counters.single_flight_waits);
  *stats.mutable_precompute() = ToProto(counters.precompute);
  return stats;
}

}  // namespace remesh::server
