// SPDX-License-Identifier: Apache-2.0
#include "server/cache/plan_event.h"

namespace remesh::server {
namespace {

using Event = v1::WatchPlansResponse;

Event::Cause ToProto(EvictionCause cause) {
  switch (cause) {
    case EvictionCause::kBytes:
      return Event::BYTES;
    case EvictionCause::kEntries:
      return Event::ENTRIES;
    case EvictionCause::kAge:
      return Event::AGE;
    case EvictionCause::kCorrupt:
      return Event::CORRUPT;
    case EvictionCause::kFlushed:
      break;
  }
  return Event::CAUSE_UNSPECIFIED;
}

Event EvictionOf(EvictionCause cause, v1::CacheTier tier, v1::Plan plan) {
  Event response;
  response.set_event(cause == EvictionCause::kFlushed ? Event::FLUSHED : Event::EVICTED);
  *response.mutable_plan() = std::move(plan);
  response.set_tier(tier);
  response.set_cause(ToProto(cause));
  return response;
}

}  // namespace

Event EventOf(Event::Event event, const ListedPlan& listed) {
  Event response;
  response.set_event(event);
  *response.mutable_plan() = ToProto(listed, v1::BASIC);
  return response;
}

Event EvictedFromMemory(const ListedPlan& listed, EvictionCause cause, bool on_disk) {
  v1::Plan plan = ToProto(listed, v1::BASIC);
  plan.set_tier(on_disk ? v1::DISK : v1::CACHE_TIER_UNSPECIFIED);
  return EvictionOf(cause, v1::MEMORY, std::move(plan));
}

Event EvictedFromDisk(const Evicted& evicted, const ListedPlan* in_memory) {
  if (in_memory != nullptr) {
    return EvictionOf(evicted.cause, v1::DISK, ToProto(*in_memory, v1::BASIC));
  }
  PlanFile::Name gone;
  gone.name = evicted.name;
  gone.about = evicted.about;
  v1::Plan plan = ToEntry(gone, v1::BASIC);
  plan.set_tier(v1::CACHE_TIER_UNSPECIFIED);
  return EvictionOf(evicted.cause, v1::DISK, std::move(plan));
}

}  // namespace remesh::server
