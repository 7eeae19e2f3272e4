# SPDX-License-Identifier: Apache-2.0
"""How plans are made, and what the cache saves."""

from grafana.panel import Panel
from grafana.queries import quantile, rate, ratio

PANELS = [
    Panel(
        "Plans by source",
        "Plans given, by where they came from.",
        "cps",
        rate("remesh_planning_seconds_count", "cache"),
        "{{cache}}",
    ),
    Panel(
        "Plan cache hit ratio",
        "Share of requests whose plan was in the cache.",
        "percentunit",
        "1 - "
        + ratio(
            rate("remesh_planning_seconds_count", "", ',cache="miss"'),
            rate("remesh_planning_seconds_count"),
        ),
    ),
    Panel(
        "Time to answer with a plan, 99th percentile",
        "By source.",
        "s",
        quantile(0.99, "remesh_planning_seconds", "cache"),
        "{{cache}}",
    ),
    Panel(
        "Time to compute a plan, 99th percentile",
        "Time in the planner itself, without plans made ahead.",
        "s",
        quantile(0.99, "remesh_planner_compute_seconds"),
    ),
    Panel(
        "Planning load",
        "Seconds a second, plans made ahead included.",
        "s",
        rate("remesh_plan_cache_compute_seconds_total"),
    ),
    Panel(
        "Planning time saved by the cache",
        "Seconds of planning that the cache saved, in the time shown.",
        "s",
        rate("remesh_plan_cache_saved_seconds_total", "tier", over="$__range"),
        "{{tier}}",
    ),
    Panel(
        "Cache hits",
        "By tier, and whether the same devices asked.",
        "cps",
        rate("remesh_plan_cache_hits_total", "tier, kind"),
        "{{tier}} {{kind}}",
    ),
    Panel(
        "Cache misses",
        "By tier; the disk is asked after memory.",
        "cps",
        rate("remesh_plan_cache_misses_total", "tier"),
        "{{tier}}",
    ),
    Panel(
        "Cache size, of the limit",
        "Bytes kept of those allowed.",
        "percentunit",
        ratio(
            "sum by (tier) (remesh_plan_cache_bytes{CHOSEN})",
            "sum by (tier) (remesh_plan_cache_max_bytes{CHOSEN})",
        ),
        "{{tier}}",
    ),
    Panel(
        "Plans in the cache",
        "Structures; names of one structure share theirs.",
        "none",
        "sum by (tier) (remesh_plan_cache_plans{CHOSEN})",
        "{{tier}}",
    ),
    Panel(
        "Plan names in the cache",
        "A name is a plan for a certain set of devices.",
        "none",
        "sum by (tier) (remesh_plan_cache_entries{CHOSEN})",
        "{{tier}}",
    ),
    Panel(
        "Pinned plans",
        "Plan names that no limit evicts.",
        "none",
        "sum by (tier) (remesh_plan_cache_pinned{CHOSEN})",
        "{{tier}}",
    ),
    Panel(
        "Cache evictions",
        "By cause.",
        "cps",
        rate("remesh_plan_cache_evictions_total", "tier, cause"),
        "{{tier}} {{cause}}",
    ),
    Panel(
        "Plan store errors",
        "Reads and writes that failed or were dropped.",
        "cps",
        rate("remesh_plan_cache_errors_total", "tier"),
        "{{tier}}",
        levels=(("green", None), ("red", 0.001)),
    ),
    Panel(
        "Requests that waited for an equal one",
        "Callers that waited while the plan of an equal request was computed.",
        "cps",
        rate("remesh_plan_cache_single_flight_waits_total"),
    ),
    Panel(
        "Plans made ahead",
        "In the time shown.",
        "none",
        rate("remesh_plan_precompute_computed_total", over="$__range"),
    ),
    Panel(
        "Plans made ahead that were used",
        "Of those made ahead in the time shown.",
        "percentunit",
        ratio(
            rate("remesh_plan_precompute_used_total", over="$__range"),
            rate("remesh_plan_precompute_computed_total", over="$__range"),
        ),
    ),
    Panel(
        "Plans waiting to be made ahead",
        "Plans that were asked for ahead.",
        "none",
        "sum(remesh_plan_precompute_waiting{CHOSEN})",
    ),
]
