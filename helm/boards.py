#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the Grafana boards, helm/remesh/files/dashboards/*.json; `--check` fails if one is not as
it would be written.

Boards ask Prometheus for the jobs that the chart's PodMonitor makes; every series in them is one of
docs/metrics.md.
"""

import dataclasses
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent / "remesh" / "files" / "dashboards"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
CHOSEN = 'namespace=~"$namespace",job=~"$job",instance=~"$instance"'
COLUMNS, TALL, FLAT = 24, 8, 4


@dataclasses.dataclass(frozen=True)
class Panel:
    """A query, or (legend, query) pairs. It says CHOSEN for the labels that the board's variables
    choose."""

    title: str
    words: str
    unit: str
    query: str | tuple
    legend: str = ""
    kind: str = "timeseries"  # or stat, state-timeline, table
    width: int = 0  # in columns; 0: as its kind


def stat(title, words, unit, query, legend=""):
    return Panel(title, words, unit, query, legend, "stat")


def quantile(part: float, series: str, by: str = "", labels: str = "") -> str:
    groups = f"{by}, le" if by else "le"
    return f"histogram_quantile({part}, sum by ({groups}) (rate({series}_bucket{{CHOSEN{labels}}}[$__rate_interval])))"


def rate(series: str, by: str = "", labels: str = "", over: str = "$__rate_interval") -> str:
    function = "increase" if over == "$__range" else "rate"
    groups = f" by ({by})" if by else ""
    return f"sum{groups} ({function}({series}{{CHOSEN{labels}}}[{over}]))"


def ratio(part: str, whole: str) -> str:
    """Nothing where the whole is 0."""
    return f"{part} / ({whole} > 0)"


def states(phase: str) -> str:
    return f'sum(remesh_states{{CHOSEN,phase="{phase}"}})'


def workers(alive: str) -> str:
    return f'sum(remesh_workers{{CHOSEN,alive="{alive}"}})'


FIRING = 'ALERTS{alertname=~"Remesh.*",alertstate="firing",namespace=~"$namespace"}'
# Each is 0 while all is well. Without a server there are no series: then the row is empty, and an
# alert fires.
HEALTH = (
    ("server", 'count(up{CHOSEN,job="remesh-server"}) - sum(up{CHOSEN,job="remesh-server"})'),
    (
        "journal",
        "max(remesh_journal_behind{CHOSEN}) + max(remesh_journal_lost{CHOSEN}) + max(remesh_journal_full{CHOSEN})",
    ),
    ("workers silent", workers("false")),
    ("states lost", states("lost")),
    ("states degraded", states("degraded")),
    (
        "moves failed",
        'round(sum(increase(remesh_executions_total{CHOSEN,outcome="failed"}[$__rate_interval])))',
    ),
    (
        "digest mismatches",
        "round(sum(increase(remesh_worker_digest_mismatches_total{CHOSEN}[$__rate_interval])))",
    ),
)

BOARDS = {
    "overview": [
        Panel(
            "Is anything wrong?",
            "Green: nothing. Red: how many servers, workers, states or moves are in trouble, and since when.",
            "none",
            HEALTH,
            kind="state-timeline",
            width=16,
        ),
        Panel(
            "Firing alerts",
            "Of this namespace; each has a runbook. Empty: none fires.",
            "none",
            FIRING,
            "{{alertname}} {{severity}} {{instance}}",
            kind="table",
        ),
        stat(
            "Servers that answer",
            "Servers that answer scrapes; more than one in a namespace is wrong.",
            "none",
            'sum(up{CHOSEN,job="remesh-server"})',
        ),
        stat(
            "Workers attached", "Registered workers that send heartbeats.", "none", workers("true")
        ),
        stat("Workers silent", "Registered workers that do not.", "none", workers("false")),
        stat("States ready", "States that can be read and moved.", "none", states("ready")),
        stat("States lost", "States with shards that no worker holds.", "none", states("lost")),
        stat(
            "States degraded",
            "States that have lost copies; other workers hold all of them.",
            "none",
            states("degraded"),
        ),
        stat(
            "Moves running",
            "Executions that have not ended.",
            "none",
            "sum(remesh_executions_running{CHOSEN})",
        ),
        stat(
            "Workers drained",
            "Nothing new is placed on them: remeshctl workers drain.",
            "none",
            "sum(remesh_workers_drained{CHOSEN})",
        ),
        stat(
            "Journal behind",
            "1: the journal went back in time, and nothing is decided.",
            "none",
            "max(remesh_journal_behind{CHOSEN})",
        ),
        stat(
            "Journal lost",
            "1: the journal's files are gone, and nothing is decided. Take a backup before the server is stopped.",
            "none",
            "max(remesh_journal_lost{CHOSEN})",
        ),
        stat(
            "Journal full",
            "1: the journal lives on its reserve, and nothing new begins.",
            "none",
            "max(remesh_journal_full{CHOSEN})",
        ),
        stat(
            "Versions",
            "Processes by version.",
            "none",
            "count by (job, version) (remesh_build_info{CHOSEN})",
            "{{job}} {{version}}",
        ),
        Panel(
            "States by phase",
            "States of all jobs.",
            "none",
            "sum by (phase) (remesh_states{CHOSEN})",
            "{{phase}}",
        ),
        Panel(
            "Moves by outcome",
            "Executions that ended, in the time shown.",
            "none",
            rate("remesh_executions_total", "outcome", over="$__range"),
            "{{outcome}}",
        ),
        Panel(
            "Moves that succeed, objective 99.5 %",
            "Share of moves that succeeded, of those that succeeded or failed in the time shown. Below 99.5 % the objective is missed.",
            "percentunit",
            ratio(
                rate("remesh_executions_total", "", ',outcome="succeeded"', "$__range"),
                rate("remesh_executions_total", "", ',outcome=~"succeeded|failed"', "$__range"),
            ),
        ),
        Panel(
            "Duration of moves, median",
            "From the request to the end.",
            "s",
            quantile(0.5, "remesh_execution_seconds"),
        ),
        Panel(
            "Duration of moves, 99th percentile",
            "From the request to the end.",
            "s",
            quantile(0.99, "remesh_execution_seconds"),
        ),
        Panel(
            "Transfer time, measured over predicted",
            "All seconds of the transfers that succeeded in the time shown over those predicted. Far above 1: set the capacities of workers; remeshctl topology get shows them.",
            "none",
            ratio(
                rate("remesh_execution_transfer_seconds_total", over="$__range"),
                rate("remesh_execution_predicted_seconds_total", over="$__range"),
            ),
        ),
        Panel(
            "Transfer time, measured over predicted, 90th percentile",
            "Of single moves: far above 1, some are much slower than their plans say.",
            "none",
            quantile(0.9, "remesh_execution_transfer_ratio"),
        ),
        Panel(
            "Bytes moved",
            "Moved by executions when they end: between hosts and inside them.",
            "Bps",
            rate("remesh_execution_bytes_total", "path"),
            "{{path}}",
        ),
        Panel(
            "Transfer rate",
            "Received from other hosts, window by window.",
            "Bps",
            rate("remesh_worker_transfer_bytes_total", "", ',direction="received"'),
        ),
        Panel(
            "Digest mismatches",
            "On arrival: broken memory or network. At the source: a trainer wrote during the move.",
            "none",
            rate("remesh_worker_digest_mismatches_total", "where", over="$__range"),
            "{{where}}",
        ),
        Panel(
            "Rounds of worlds",
            "Exchanges of trainer processes that ended, by outcome.",
            "ops",
            rate("remesh_world_rounds_total", "outcome"),
            "{{outcome}}",
        ),
        Panel(
            "Duration of rounds, median",
            "From its first member to its end.",
            "s",
            quantile(0.5, "remesh_world_round_seconds"),
        ),
        Panel(
            "Worlds by phase",
            "Worlds of trainer processes.",
            "none",
            "sum by (phase) (remesh_worlds{CHOSEN})",
            "{{phase}}",
        ),
        Panel(
            "Members of worlds",
            "Processes in worlds, those that wait for one included.",
            "none",
            "sum(remesh_world_members{CHOSEN})",
        ),
        Panel(
            "Longest wait in a round",
            "How long members of a world have waited for others; remeshctl worlds list says for whom.",
            "s",
            "max(remesh_world_oldest_round_seconds{CHOSEN})",
        ),
        Panel(
            "Memory owed",
            "What workers keep because nothing proves that it is free; remeshctl workers owed lists it.",
            "bytes",
            "sum(remesh_owed_bytes{CHOSEN})",
        ),
    ],
    "moves": [
        Panel(
            "Received by node",
            "From other hosts, verified.",
            "Bps",
            rate("remesh_worker_transfer_bytes_total", "node", ',direction="received"'),
            "{{node}}",
        ),
        Panel(
            "Sent by node",
            "To other hosts.",
            "Bps",
            rate("remesh_worker_transfer_bytes_total", "node", ',direction="sent"'),
            "{{node}}",
        ),
        Panel(
            "Copied inside nodes",
            "Between the buffers of one host.",
            "Bps",
            rate("remesh_worker_transfer_bytes_total", "node", ',direction="copied"'),
            "{{node}}",
        ),
        Panel(
            "Busiest node over mean",
            "Of the bytes received: 1 is an even load.",
            "none",
            "max("
            + rate("remesh_worker_transfer_bytes_total", "node", ',direction="received"')
            + ") / avg("
            + rate("remesh_worker_transfer_bytes_total", "node", ',direction="received"')
            + " > 0)",
        ),
        Panel(
            "Seconds of a window, 99th percentile",
            "By node: the slowest one holds up the others.",
            "s",
            quantile(0.99, "remesh_worker_window_seconds", "node"),
            "{{node}}",
        ),
        Panel(
            "Where time goes",
            "Seconds a second that attempts spend in each phase, all nodes.",
            "s",
            rate("remesh_worker_phase_seconds_sum", "phase"),
            "{{phase}}",
        ),
        Panel(
            "Duration of phases, 99th percentile",
            "Of all nodes.",
            "s",
            quantile(0.99, "remesh_worker_phase_seconds", "phase"),
            "{{phase}}",
        ),
        Panel(
            "Chunks verified",
            "Chunks of 16 KiB that arrived with the digest of their origin.",
            "cps",
            rate("remesh_worker_chunks_verified_total", "node"),
            "{{node}}",
        ),
        Panel(
            "Errors by reason",
            "Attempts and commands that failed on workers.",
            "cps",
            rate("remesh_worker_errors_total", "reason"),
            "{{reason}}",
        ),
        Panel(
            "Memory for shards and staging",
            "Reserved for shards and staging.",
            "bytes",
            "sum by (node) (remesh_worker_buffer_bytes{CHOSEN})",
            "{{node}}",
        ),
        Panel(
            "Memory for shards on GPUs",
            "Reserved in the GPUs' own memory; 0 where shards are in files.",
            "bytes",
            "sum by (node) (remesh_worker_device_buffer_bytes{CHOSEN})",
            "{{node}}",
        ),
        Panel(
            "Memory for shards, of the limit",
            "A move needs room for both generations.",
            "percentunit",
            ratio(
                "sum by (node) (remesh_worker_buffer_bytes{CHOSEN})",
                "sum by (node) (remesh_worker_buffer_max_bytes{CHOSEN})",
            ),
            "{{node}}",
        ),
        Panel(
            "Reuse of retired files",
            "Files that a later generation of the state tried to reuse, by outcome.",
            "cps",
            rate("remesh_worker_recycled_files_total", "outcome"),
            "{{outcome}}",
        ),
        Panel(
            "NCCL communicators",
            "Attempts between GPUs, by whether they made communicators or used those of an earlier one.",
            "none",
            rate("remesh_worker_nccl_communicators_total", "outcome", over="$__range"),
            "{{outcome}}",
        ),
        Panel(
            "Plans without a digest",
            "Attempts whose plan an older server named without a digest.",
            "none",
            rate("remesh_worker_plans_not_compared_total", "node", over="$__range"),
            "{{node}}",
        ),
        Panel(
            "Workers attached to the server",
            "1 while the server has welcomed the worker.",
            "none",
            "min by (node) (remesh_worker_attached{CHOSEN})",
            "{{node}}",
        ),
        Panel(
            "Heartbeats",
            "Sent to the server.",
            "cps",
            rate("remesh_worker_heartbeats_total", "node"),
            "{{node}}",
        ),
        Panel(
            "Worker CPU",
            "Cores in use.",
            "none",
            "sum by (node) (rate(process_cpu_seconds_total{CHOSEN}[$__rate_interval]) and on (namespace, job, instance) remesh_worker_attached{CHOSEN})",
            "{{node}}",
        ),
        Panel(
            "Worker resident memory",
            "Buffers that the worker has mapped count.",
            "bytes",
            "sum by (node) (process_resident_memory_bytes{CHOSEN} and on (namespace, job, instance) remesh_worker_attached{CHOSEN})",
            "{{node}}",
        ),
    ],
    "planner": [
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
    ],
    "control": [
        Panel(
            "Calls by method",
            "Calls that ended, on servers and workers.",
            "reqps",
            rate("grpc_server_handled_total", "grpc_service, grpc_method") + " > 0",
            "{{grpc_service}}/{{grpc_method}}",
        ),
        Panel(
            "Calls that failed, by code",
            "Watches that their caller or a restart ends do not count, nor do calls that their caller cancels.",
            "reqps",
            rate(
                "grpc_server_handled_total",
                "grpc_method, grpc_code",
                ',grpc_type="unary",grpc_code!~"OK|Canceled"',
            )
            + " > 0 or "
            + rate(
                "grpc_server_handled_total",
                "grpc_method, grpc_code",
                ',grpc_type!="unary",grpc_code!~"OK|Canceled|DeadlineExceeded|Unavailable"',
            )
            + " > 0",
            "{{grpc_method}} {{grpc_code}}",
        ),
        Panel(
            "Server errors, objective 0.1 %",
            "Share of unary calls that end in Unavailable, Internal, Unknown or DataLoss. The objective is at most 0.1 %.",
            "percentunit",
            ratio(
                rate(
                    "grpc_server_handled_total",
                    "",
                    ',grpc_type="unary",grpc_code=~"Unavailable|Internal|Unknown|DataLoss"',
                ),
                rate("grpc_server_handled_total", "", ',grpc_type="unary"'),
            ),
        ),
        Panel(
            "Latency of unary calls, 99th percentile",
            "By method.",
            "s",
            quantile(0.99, "grpc_server_handling_seconds", "grpc_method", ',grpc_type="unary"'),
            "{{grpc_method}}",
        ),
        Panel(
            "Latency of unary calls, median",
            "By method.",
            "s",
            quantile(0.5, "grpc_server_handling_seconds", "grpc_method", ',grpc_type="unary"'),
            "{{grpc_method}}",
        ),
        Panel(
            "Calls started",
            "By kind of call.",
            "reqps",
            rate("grpc_server_started_total", "grpc_type"),
            "{{grpc_type}}",
        ),
        Panel(
            "Messages received",
            "By method.",
            "cps",
            rate("grpc_server_msg_received_total", "grpc_method") + " > 0",
            "{{grpc_method}}",
        ),
        Panel(
            "Messages sent",
            "By method.",
            "cps",
            rate("grpc_server_msg_sent_total", "grpc_method") + " > 0",
            "{{grpc_method}}",
        ),
        Panel(
            "Open plan watches",
            "Streams of WatchPlans that are open.",
            "none",
            "sum(remesh_plan_watches{CHOSEN})",
        ),
        Panel(
            "Resident memory",
            "By process.",
            "bytes",
            "sum by (job, instance) (process_resident_memory_bytes{CHOSEN})",
            "{{job}} {{instance}}",
        ),
        Panel(
            "CPU",
            "Cores in use, by process.",
            "none",
            rate("process_cpu_seconds_total", "job, instance"),
            "{{job}} {{instance}}",
        ),
        Panel(
            "File descriptors, of the limit",
            "By process.",
            "percentunit",
            "max by (job, instance) (process_open_fds{CHOSEN} / process_max_fds{CHOSEN})",
            "{{job}} {{instance}}",
        ),
        Panel(
            "Time until the certificate expires",
            "Until the own certificate runs out, by process; nothing without TLS.",
            "s",
            "min by (job, instance) (remesh_tls_certificate_expiry_timestamp_seconds{CHOSEN} > 0) - time()",
            "{{job}} {{instance}}",
        ),
        Panel(
            "Certificate reloads",
            "Refused: the old ones are still in force, and the log says why.",
            "cps",
            rate("remesh_tls_reloads_total", "job, outcome"),
            "{{job}} {{outcome}}",
        ),
        Panel(
            "Audit lines lost",
            "In the time shown: the disk of audit_log_file is full, or slower than the calls.",
            "none",
            rate("remesh_audit_lines_lost_total", over="$__range"),
        ),
        Panel(
            "Certificate lifetime left",
            "Below a third RemeshCertificateExpires fires; nothing without TLS.",
            "percentunit",
            "min by (job, instance) ((remesh_tls_certificate_expiry_timestamp_seconds{CHOSEN} > 0) - time()) / min by (job, instance) "
            "(remesh_tls_certificate_expiry_timestamp_seconds{CHOSEN} - remesh_tls_certificate_not_before_timestamp_seconds{CHOSEN})",
            "{{job}} {{instance}}",
        ),
        Panel(
            "Workers of another release",
            "Alive, of another release than their server: an upgrade that is under way, or stopped.",
            "none",
            "max by (instance) (remesh_workers_other_version{CHOSEN})",
            "{{instance}}",
        ),
        Panel(
            "Settings file accepted",
            "1: the file as it is now is in force; 0: it is refused, and the log says why.",
            "none",
            "min by (job, instance) (remesh_config_last_reload_successful{CHOSEN})",
            "{{job}} {{instance}}",
        ),
        Panel(
            "Age of the settings in force",
            "Since a settings file was taken last.",
            "s",
            "time() - max by (job, instance) (remesh_config_last_reload_success_timestamp_seconds{CHOSEN})",
            "{{job}} {{instance}}",
        ),
        Panel(
            "Settings that need a restart",
            "1: the file has values that only a restart puts in force.",
            "none",
            "max by (job, instance) (remesh_config_restart_required{CHOSEN})",
            "{{job}} {{instance}}",
        ),
        Panel(
            "Uptime",
            "Since the start of each process.",
            "s",
            "time() - max by (job, instance) (process_start_time_seconds{CHOSEN})",
            "{{job}} {{instance}}",
        ),
    ],
}


# What is good and what is bad in a panel: colours, each from its value on. The same values as those
# of alerts, where there is one.
ANY_IS_BAD = (("green", None), ("red", 1))
ANY_IS_ODD = (("green", None), ("orange", 1))
ALL_IS_GOOD = (("red", None), ("green", 1))
LEVELS = {
    "Is anything wrong?": ANY_IS_BAD,
    "Servers that answer": (("red", None), ("green", 1), ("red", 2)),
    "Workers attached": ALL_IS_GOOD,
    "Workers silent": ANY_IS_BAD,
    "States lost": ANY_IS_BAD,
    "States degraded": ANY_IS_BAD,
    "Workers drained": ANY_IS_ODD,
    "Journal behind": ANY_IS_BAD,
    "Journal lost": ANY_IS_BAD,
    "Journal full": ANY_IS_BAD,
    "Moves that succeed, objective 99.5 %": (("red", None), ("green", 0.995)),
    "Transfer time, measured over predicted": (("green", None), ("orange", 3)),
    "Transfer time, measured over predicted, 90th percentile": (("green", None), ("orange", 3)),
    "Digest mismatches": ANY_IS_BAD,
    "Longest wait in a round": (("green", None), ("red", 600)),
    "Memory owed": ANY_IS_ODD,
    "Busiest node over mean": (("green", None), ("orange", 2)),
    "Memory for shards, of the limit": (("green", None), ("orange", 0.8), ("red", 0.9)),
    "Plans without a digest": ANY_IS_ODD,
    "Workers attached to the server": ALL_IS_GOOD,
    "Plan store errors": (("green", None), ("red", 0.001)),
    "Server errors, objective 0.1 %": (("green", None), ("red", 0.001)),
    "File descriptors, of the limit": (("green", None), ("red", 0.8)),
    "Certificate lifetime left": (("red", None), ("green", 1 / 3)),
    "Time until the certificate expires": (("red", None), ("orange", 86400), ("green", 7 * 86400)),
    "Audit lines lost": ANY_IS_BAD,
    "Workers of another release": ANY_IS_ODD,
    "Settings file accepted": ALL_IS_GOOD,
    "Settings that need a restart": ANY_IS_ODD,
}
# Scales on which an objective can be seen; they widen where values are outside.
SCALES = {
    "Moves that succeed, objective 99.5 %": {"axisSoftMin": 0.98, "axisSoftMax": 1},
    "Server errors, objective 0.1 %": {"axisSoftMin": 0, "axisSoftMax": 0.002},
}


# Lines that mean the same in every panel have the same colour.
LINES = {
    "ready": "green",
    "succeeded": "green",
    "ok": "green",
    "moving": "blue",
    "building": "purple",
    "degraded": "orange",
    "cancelled": "orange",
    "lost": "red",
    "failed": "red",
}


def overrides_json(panel: Panel) -> list:
    if panel.kind != "timeseries" or panel.legend not in ("{{phase}}", "{{outcome}}"):
        return []
    return [
        {
            "matcher": {"id": "byName", "options": name},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}],
        }
        for name, color in LINES.items()
    ]


def queries(panel: Panel) -> list:
    """(legend, query) pairs."""
    pairs = (
        panel.query
        if isinstance(panel.query, tuple)
        else ((panel.legend or panel.title, panel.query),)
    )
    return [(legend, query.replace("CHOSEN", CHOSEN)) for legend, query in pairs]


def options_json(panel: Panel) -> dict:
    legend = {
        "showLegend": True,
        "displayMode": "list",
        "placement": "bottom",
        "calcs": ["lastNotNull"],
    }
    if panel.kind == "stat":
        return {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "graphMode": "none",
            "colorMode": "background" if panel.title in LEVELS else "none",
        }
    if panel.kind == "state-timeline":
        return {
            "mergeValues": True,
            "showValue": "never",
            "alignValue": "left",
            "rowHeight": 0.8,
            "legend": {"showLegend": False},
            "tooltip": {"mode": "single", "sort": "none"},
        }
    if panel.kind == "table":
        return {"showHeader": True, "cellHeight": "sm"}
    return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}


def field_json(panel: Panel) -> dict:
    field = {"unit": panel.unit, "noValue": "none fires" if panel.kind == "table" else "no data"}
    if panel.title not in SCALES:
        field["min"] = 0
    if panel.kind == "timeseries":
        field["custom"] = {
            **SCALES.get(panel.title, {}),
            "thresholdsStyle": {"mode": "dashed+area" if panel.title in LEVELS else "off"},
        }
    if panel.title in LEVELS:
        field["thresholds"] = {
            "mode": "absolute",
            "steps": [{"color": color, "value": value} for color, value in LEVELS[panel.title]],
        }
        if panel.kind != "timeseries":
            field["color"] = {"mode": "thresholds"}
    return field


# The columns of the table of alerts.
COLUMNS_OF_ALERTS = {
    "id": "organize",
    "options": {
        "excludeByName": {
            name: True
            for name in (
                "Time",
                "Value",
                "__name__",
                "alertstate",
                "prometheus",
                "container",
                "endpoint",
                "pod",
            )
        },
        "indexByName": {
            name: i
            for i, name in enumerate(("severity", "alertname", "namespace", "job", "instance"))
        },
    },
}


def panel_json(panel: Panel, identity: int, place: dict) -> dict:
    # A value of now: where the series has ended there is none, and not the last one that was.
    instant = {"table": {"instant": True, "format": "table"}, "stat": {"instant": True}}.get(
        panel.kind, {}
    )
    targets = [
        {
            "refId": chr(ord("A") + i),
            "datasource": SOURCE,
            "expr": query,
            "legendFormat": legend,
            **instant,
        }
        for i, (legend, query) in enumerate(queries(panel))
    ]
    return {
        "id": identity,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.words,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": field_json(panel), "overrides": overrides_json(panel)},
        "options": options_json(panel),
        "targets": targets,
        **({"transformations": [COLUMNS_OF_ALERTS]} if panel.kind == "table" else {}),
    }


def placed(panels: list) -> list:
    """Left to right; a row is as high as its first panel."""
    result, x, y, height = [], 0, 0, 0
    for identity, panel in enumerate(panels, start=1):
        width, high = (
            (COLUMNS // 6, FLAT) if panel.kind == "stat" else (panel.width or COLUMNS // 3, TALL)
        )
        if x + width > COLUMNS or (x > 0 and high != height):
            x, y = 0, y + height
        height = high
        result.append(panel_json(panel, identity, {"x": x, "y": y, "w": width, "h": high}))
        x += width
    return result


def annotation(name: str, color: str, query: str, title: str) -> dict:
    return {
        "name": name,
        "enable": True,
        "hide": False,
        "iconColor": color,
        "datasource": SOURCE,
        "expr": query.replace("CHOSEN", CHOSEN),
        "step": "30s",
        "titleFormat": title,
        "textFormat": "remeshctl executions list says which",
        "useValueForTime": False,
    }


ANNOTATIONS = [
    annotation("Moves", "blue", "sum(remesh_executions_running{CHOSEN}) > 0", "a move is running"),
    annotation(
        "Failed moves",
        "red",
        'sum(increase(remesh_executions_total{CHOSEN,outcome="failed"}[2m])) > 0',
        "a move failed",
    ),
]


def variable(name: str, label: str, query: str, every: str) -> dict:
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": every,
        "sort": 1,
        "current": {"text": "All", "value": "$__all"},
        "options": [],
        "hide": 0,
        "skipUrlSync": False,
    }


def board_json(name: str, panels: list) -> dict:
    variables = [
        {
            "type": "datasource",
            "name": "datasource",
            "label": "Data source",
            "query": "prometheus",
            "current": {},
            "options": [],
            "refresh": 1,
            "hide": 0,
            "skipUrlSync": False,
        },
        # Without Kubernetes there is no such label.
        variable("namespace", "Namespace", "label_values(remesh_build_info, namespace)", ".*"),
        variable(
            "job", "job", 'label_values(remesh_build_info{namespace=~"$namespace"}, job)', ".+"
        ),
        variable(
            "instance",
            "instance",
            'label_values(remesh_build_info{namespace=~"$namespace",job=~"$job"}, instance)',
            ".+",
        ),
    ]
    links = [
        {
            "type": "dashboards",
            "title": "remesh",
            "tags": ["remesh"],
            "asDropdown": True,
            "includeVars": True,
            "keepTime": True,
            "icon": "",
            "targetBlank": False,
            "tooltip": "",
            "url": "",
        }
    ]
    return {
        "uid": f"remesh-{name}",
        "title": f"remesh / {name}",
        "tags": ["remesh"],
        "editable": False,
        "schemaVersion": 39,
        "version": 1,
        "refresh": "30s",
        "timezone": "browser",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables},
        "annotations": {"list": ANNOTATIONS},
        "links": links,
        "panels": placed(panels),
    }


def main() -> int:
    titles = {panel.title for panels in BOARDS.values() for panel in panels}
    assert titles >= LEVELS.keys() | SCALES.keys(), (LEVELS.keys() | SCALES.keys()) - titles
    wanted = {
        FOLDER / f"remesh-{name}.json": json.dumps(board_json(name, panels), indent=1) + "\n"
        for name, panels in BOARDS.items()
    }
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.name} is not what helm/boards.py writes: run it")
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in stale:
        path.write_text(wanted[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
