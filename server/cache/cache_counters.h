// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "remesh/v1/cache.pb.h"
#include "server/cache/disk_tier.h"
#include "server/cache/eviction.h"
#include "server/cache/memory_tier.h"

namespace remesh::server {

// Counts of what has happened to questions since the process began; see the fields of
// v1.CacheStats.
struct CacheCounters {
  struct Tier {
    int64_t hits = 0;
    int64_t isomorphic_hits = 0;
    int64_t misses = 0;  // the disk counts its own
    double compute_seconds_saved = 0;
  };
  struct Precompute {
    int64_t queued = 0;
    int64_t waiting = 0;
    int64_t computed = 0;
    int64_t refused = 0;
    int64_t used = 0;
  };
  Tier memory;
  Tier disk;
  EvictionCounts memory_evictions;
  int64_t computations = 0;
  double compute_seconds = 0;
  int64_t single_flight_waits = 0;
  Precompute precompute;
};

// The message also says what the tiers hold now.
v1::CacheStats ToProto(const CacheCounters& counters, const MemoryTier& memory, DiskTier& disk);

}  // namespace remesh::server
