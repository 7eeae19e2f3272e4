// SPDX-License-Identifier: Apache-2.0
#include "server/cache_metrics.h"


namespace remesh::server {
namespace {

using Stats = v1::CacheStats;
using Tier = v1::TierStats;

struct OfTier {
  const char* name;
  const char* help;
  const char* label;  // a label besides the tier; null: none
  const char* value;
  double (*read)(const Tier& tier);
};

struct OfCache {
  const char* name;
  const char* help;
  double (*read)(const Stats& stats);
};

constexpr char kHits[] = "remesh_plan_cache_hits_total";
constexpr char kHitsHelp[] = "Requests that the tier answered.";
constexpr char kEvictions[] = "remesh_plan_cache_evictions_total";
constexpr char kEvictionsHelp[] = "Plans that left the tier, by cause.";

constexpr OfTier kTierCounters[] = {
    {kHits, kHitsHelp, "kind", "same", [](const Tier& t) -> double { return t.hits(); }},
    {kHits, kHitsHelp, "kind", "isomorphic",
     [](const Tier& t) -> double { return t.isomorphic_hits(); }},
    {"remesh_plan_cache_misses_total",
     "Requests that reached the tier and that it could not answer.", nullptr, nullptr,
     [](const Tier& t) -> double { return t.misses(); }},
    {kEvictions, kEvictionsHelp, "cause", "bytes",
     [](const Tier& t) -> double { return t.evictions().bytes(); }},
    {kEvictions, kEvictionsHelp, "cause", "entries",
     [](const Tier& t) -> double { return t.evictions().entries(); }},
    {kEvictions, kEvictionsHelp, "cause", "age",
     [](const Tier& t) -> double { return t.evictions().age(); }},
    {kEvictions, kEvictionsHelp, "cause", "deleted",
     [](const Tier& t) -> double { return t.evictions().deleted(); }},
    {kEvictions, kEvictionsHelp, "cause", "flushed",
     [](const Tier& t) -> double { return t.evictions().flushed(); }},
    {kEvictions, kEvictionsHelp, "cause", "corrupt",
     [](const Tier& t) -> double { return t.evictions().corrupt(); }},
    {"remesh_plan_cache_saved_seconds_total", "Seconds of planning that the tier's answers saved.",
     nullptr, nullptr, [](const Tier& t) { return t.compute_seconds_saved(); }},
    {"remesh_plan_cache_errors_total", "Reads and writes that failed or were dropped.", nullptr,
     nullptr, [](const Tier& t) -> double { return t.errors(); }},
};

constexpr OfTier kTierGauges[] = {
    {"remesh_plan_cache_entries", "Names of cached plans, each bound to a set of devices.", nullptr,
     nullptr, [](const Tier& t) -> double { return t.entries(); }},
    {"remesh_plan_cache_plans", "Cached plans; names of one structure share a plan.", nullptr,
     nullptr, [](const Tier& t) -> double { return t.plans(); }},
    {"remesh_plan_cache_pinned", "Pinned names of plans.", nullptr, nullptr,
     [](const Tier& t) -> double { return t.pinned(); }},
    {"remesh_plan_cache_bytes", "Bytes that plans take; on disk, compressed.", nullptr, nullptr,
     [](const Tier& t) -> double { return t.bytes(); }},
    {"remesh_plan_cache_max_bytes", "Maximum bytes that plans may take.", nullptr, nullptr,
     [](const Tier& t) -> double { return t.max_bytes(); }},
};

constexpr OfCache kCounters[] = {
    {"remesh_plan_cache_computations_total", "Plans computed.",
     [](const Stats& s) -> double { return s.computations(); }},
    {"remesh_plan_cache_compute_seconds_total", "Seconds that computing plans took.",
     [](const Stats& s) { return s.compute_seconds(); }},
    {"remesh_plan_cache_single_flight_waits_total",
     "Requests that waited for an equal request in progress.",
     [](const Stats& s) -> double { return s.single_flight_waits(); }},
    {"remesh_plan_precompute_queued_total", "Plans that PrecomputePlans requested and no tier had.",
     [](const Stats& s) -> double { return s.precompute().queued(); }},
    {"remesh_plan_precompute_computed_total", "Plans made ahead.",
     [](const Stats& s) -> double { return s.precompute().computed(); }},
    {"remesh_plan_precompute_refused_total", "Plans that could not be made ahead.",
     [](const Stats& s) -> double { return s.precompute().refused(); }},
    {"remesh_plan_precompute_used_total", "Plans made ahead that a caller then requested.",
     [](const Stats& s) -> double { return s.precompute().used(); }},
};

constexpr OfCache kGauges[] = {
    {"remesh_plan_precompute_waiting", "Plans that wait to be made ahead.",
     [](const Stats& s) -> double { return s.precompute().waiting(); }},
    {"remesh_plan_watches", "Open streams of WatchPlans.",
     [](const Stats& s) -> double { return s.watches(); }},
};

struct NamedTier {
  const char* name;
  const Tier& (*of)(const Stats& stats);
};

constexpr NamedTier kTiers[] = {
    {"memory", [](const Stats& s) -> const Tier& { return s.memory(); }},
    {"disk", [](const Stats& s) -> const Tier& { return s.disk(); }},
};

prometheus::Labels LabelsOf(const OfTier& series, const NamedTier& tier) {
  prometheus::Labels labels = {{"tier", tier.name}};
  if (series.label != nullptr) labels[series.label] = series.value;
  return labels;
}

// Registering a name again returns the same family.
prometheus::Family<prometheus::Counter>& CounterFamily(prometheus::Registry& registry,
                                                       const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

prometheus::Family<prometheus::Gauge>& GaugeFamily(prometheus::Registry& registry, const char* name,
                                                   const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

}  // namespace

CacheMetrics::CacheMetrics(prometheus::Registry& registry) {
  for (const NamedTier& tier : kTiers) {
    for (const OfTier& one : kTierCounters) {
      auto& counter = CounterFamily(registry, one.name, one.help).Add(LabelsOf(one, tier));
      counts_.push_back({counter, [&](const Stats& s) { return one.read(tier.of(s)); }});
    }
    for (const OfTier& one : kTierGauges) {
      auto& gauge = GaugeFamily(registry, one.name, one.help).Add(LabelsOf(one, tier));
      levels_.push_back({gauge, [&](const Stats& s) { return one.read(tier.of(s)); }});
    }
  }
  for (const OfCache& one : kCounters) {
    counts_.push_back({CounterFamily(registry, one.name, one.help).Add({}), one.read});
  }
  for (const OfCache& one : kGauges) {
    levels_.push_back({GaugeFamily(registry, one.name, one.help).Add({}), one.read});
  }
}

void CacheMetrics::Update(const Stats& stats) {
  for (const Count& count : counts_) {
    count.counter.Increment(count.read(stats) - count.counter.Value());
  }
  for (const Level& level : levels_) level.gauge.Set(level.read(stats));
}

}  // namespace remesh::server
