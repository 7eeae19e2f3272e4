# SPDX-License-Identifier: Apache-2.0
"""Moves as the workers see them: bytes, windows, phases and memory."""

from grafana.panel import ALL_IS_GOOD, ANY_IS_ODD, Panel
from grafana.queries import quantile, rate, ratio

PANELS = [
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
        levels=(("green", None), ("orange", 2)),
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
        levels=(("green", None), ("orange", 0.8), ("red", 0.9)),
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
        "Attempts between GPUs, by whether they made communicators or used those of an earlier "
        "one.",
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
        levels=ANY_IS_ODD,
    ),
    Panel(
        "Workers attached to the server",
        "1 while the server has welcomed the worker.",
        "none",
        "min by (node) (remesh_worker_attached{CHOSEN})",
        "{{node}}",
        levels=ALL_IS_GOOD,
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
        "sum by (node) (rate(process_cpu_seconds_total{CHOSEN}[$__rate_interval]) and on "
        "(namespace, job, instance) remesh_worker_attached{CHOSEN})",
        "{{node}}",
    ),
    Panel(
        "Worker resident memory",
        "Buffers that the worker has mapped count.",
        "bytes",
        "sum by (node) (process_resident_memory_bytes{CHOSEN} and on (namespace, job, instance) "
        "remesh_worker_attached{CHOSEN})",
        "{{node}}",
    ),
]
