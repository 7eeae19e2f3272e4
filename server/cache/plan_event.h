// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "remesh/v1/plan.pb.h"
#include "server/cache/eviction.h"
#include "server/cache/listed_plan.h"

namespace remesh::server {

// Events for watchers of plans.

v1::WatchPlansResponse EventOf(v1::WatchPlansResponse::Event event, const ListedPlan& listed);
// EVICTED or FLUSHED from memory. `on_disk`: whether there is a disk tier that may still have the
// plan.
v1::WatchPlansResponse EvictedFromMemory(const ListedPlan& listed, EvictionCause cause,
                                         bool on_disk);
// As above, from disk. `in_memory`: what memory has under the name, or null.
v1::WatchPlansResponse EvictedFromDisk(const Evicted& evicted, const ListedPlan* in_memory);

}  // namespace remesh::server
