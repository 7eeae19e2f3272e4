// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>

#include "planner/values/request.h"

namespace remesh::testing {

// How wild random requests may be.
struct RandomRequestOptions {
  int hosts_max = 6;
  int devices_per_host_max = 8;
  int arrays_max = 4;
  int rank_max = 4;
  int64_t elements_max = 600;  // of one array
  bool unequal_capacities = true;
  bool racks = true;
  int racks_max = 3;  // of any nesting; a third of the requests has some
  bool boxes = true;  // explicit box layouts among the others
  bool subgroups = true;
  bool memory_kinds = true;
  bool lost_devices = true;  // fallbacks are declared then
  bool small_windows = true;
};

// The same seed gives the same request on every machine.
using Random = std::mt19937_64;

// Uniform in [lo, hi]. REQUIRES: lo <= hi.
int64_t Uniform(Random& random, int64_t lo, int64_t hi);

// A random request that passes ValidateRequest(): permuted, overlapping and sparse device lists,
// uneven and empty shards, zero-sized arrays and scalars, partial replication, sub-byte types,
// several boxes a device, several arrays that share or do not share placements.
planner::ReshardRequest RandomRequest(uint64_t seed, const RandomRequestOptions& options = {});

// A layout of `shape` over `device_count` positions that covers the array, by random parts or
// boxes.
planner::LayoutPtr RandomLayout(Random& random, const planner::Shape& shape, int32_t device_count,
                                bool boxes = true);

// The same request under other names: device ids, host and domain names, order of hosts, of
// domains, of device lists' positions (with the layouts' positions; not of target lists whose order
// is free) and, when `arrays` is set, of arrays. Structure is kept, so that its canonical request
// is equal.
planner::ReshardRequest Renamed(Random& random, const planner::ReshardRequest& request,
                                bool arrays = false);

}  // namespace remesh::testing
