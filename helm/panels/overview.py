# SPDX-License-Identifier: Apache-2.0
"""Is anything wrong, and do moves succeed?"""

from grafana.panel import ALL_IS_GOOD, ANY_IS_BAD, ANY_IS_ODD, Panel, stat
from grafana.queries import quantile, rate, ratio


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
        "max(remesh_journal_behind{CHOSEN}) + max(remesh_journal_lost{CHOSEN}) + "
        "max(remesh_journal_full{CHOSEN})",
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

PANELS = [
    Panel(
        "Is anything wrong?",
        "Green: nothing. Red: how many servers, workers, states or moves are in trouble, and since "
        "when.",
        "none",
        HEALTH,
        kind="state-timeline",
        width=16,
        levels=ANY_IS_BAD,
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
        levels=(("red", None), ("green", 1), ("red", 2)),
    ),
    stat(
        "Workers attached",
        "Registered workers that send heartbeats.",
        "none",
        workers("true"),
        levels=ALL_IS_GOOD,
    ),
    stat(
        "Workers silent",
        "Registered workers that do not.",
        "none",
        workers("false"),
        levels=ANY_IS_BAD,
    ),
    stat("States ready", "States that can be read and moved.", "none", states("ready")),
    stat(
        "States lost",
        "States with shards that no worker holds.",
        "none",
        states("lost"),
        levels=ANY_IS_BAD,
    ),
    stat(
        "States degraded",
        "States that have lost copies; other workers hold all of them.",
        "none",
        states("degraded"),
        levels=ANY_IS_BAD,
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
        levels=ANY_IS_ODD,
    ),
    stat(
        "Journal behind",
        "1: the journal went back in time, and nothing is decided.",
        "none",
        "max(remesh_journal_behind{CHOSEN})",
        levels=ANY_IS_BAD,
    ),
    stat(
        "Journal lost",
        "1: the journal's files are gone, and nothing is decided. Take a backup before the server "
        "is stopped.",
        "none",
        "max(remesh_journal_lost{CHOSEN})",
        levels=ANY_IS_BAD,
    ),
    stat(
        "Journal full",
        "1: the journal lives on its reserve, and nothing new begins.",
        "none",
        "max(remesh_journal_full{CHOSEN})",
        levels=ANY_IS_BAD,
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
        "Share of moves that succeeded, of those that succeeded or failed in the time shown. Below "
        "99.5 % the objective is missed.",
        "percentunit",
        ratio(
            rate("remesh_executions_total", "", ',outcome="succeeded"', "$__range"),
            rate("remesh_executions_total", "", ',outcome=~"succeeded|failed"', "$__range"),
        ),
        levels=(("red", None), ("green", 0.995)),
        scale=(0.98, 1),
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
        "All seconds of the transfers that succeeded in the time shown over those predicted. Far "
        "above 1: set the capacities of workers; remeshctl topology get shows them.",
        "none",
        ratio(
            rate("remesh_execution_transfer_seconds_total", over="$__range"),
            rate("remesh_execution_predicted_seconds_total", over="$__range"),
        ),
        levels=(("green", None), ("orange", 3)),
    ),
    Panel(
        "Transfer time, measured over predicted, 90th percentile",
        "Of single moves: far above 1, some are much slower than their plans say.",
        "none",
        quantile(0.9, "remesh_execution_transfer_ratio"),
        levels=(("green", None), ("orange", 3)),
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
        levels=ANY_IS_BAD,
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
        levels=(("green", None), ("red", 600)),
    ),
    Panel(
        "Memory owed",
        "What workers keep because nothing proves that it is free; remeshctl workers owed lists "
        "it.",
        "bytes",
        "sum(remesh_owed_bytes{CHOSEN})",
        levels=ANY_IS_ODD,
    ),
]
