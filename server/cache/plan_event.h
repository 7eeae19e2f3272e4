// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "remesh/v1/plan.pb.h"
#include "server/cache/eviction.h"
#include "server/cache/listed_plan.h"

namespace remesh::server {

// What watchers of plans hear.

v1::WatchPlansResponse EventOf(v1::WatchPlansResponse::Event event, const ListedPlan& listed);
// EVICTED or FLUSHED from memory; `on_disk`: whether there is a tier that may still have it.
v1::WatchPlansResponse EvictedFromMemory(const ListedPlan& listed, EvictionCause cause,
                                         bool on_disk);
// The same from disk; `in_memory`: what memory has of the name, or null.
v1::WatchPlansResponse EvictedFromDisk(const Evicted& evicted, const ListedPlan* in_memory);

}  // namespace remesh::server
