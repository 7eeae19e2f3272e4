#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the Grafana boards, helm/remesh/files/dashboards/*.json; `--check` fails if one is not as it would be written.

Boards ask Prometheus for the jobs that the chart's PodMonitor makes; every series in them is one of docs/metrics.md.
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
    """One query. It says CHOSEN for the labels that the board's variables choose."""
    title: str
    words: str
    unit: str
    query: str
    legend: str = ""
    kind: str = "timeseries"  # or stat


def stat(title, words, unit, query, legend=""):
    return Panel(title, words, unit, query, legend, "stat")


def quantile(part: float, series: str, by: str = "", labels: str = "") -> str:
    groups = f"{by}, le" if by else "le"
    return f"histogram_quantile({part}, sum by ({groups}) (rate({series}_bucket{{CHOSEN{labels}}}[$__rate_interval])))"


def rate(series: str, by: str = "", labels: str = "", over: str = "$__rate_interval") -> str:
    function = "increase" if over == "$__range" else "rate"
    groups = f" by ({by})" if by else ""
    return f"sum{groups} ({function}({series}{{CHOSEN{labels}}}[{over}]))"


BOARDS = {
    "overview": [
        stat("Servers up", "Servers that answer scrapes; more than one in a namespace is wrong.", "none", 'sum(up{CHOSEN,job="remesh-server"})'),
        stat("Workers alive", "Registered workers that send heartbeats.", "none", 'sum(remesh_workers{CHOSEN,alive="true"})'),
        stat("Workers silent", "Registered workers that do not.", "none", 'sum(remesh_workers{CHOSEN,alive="false"})'),
        stat("States ready", "States that can be read and moved.", "none", 'sum(remesh_states{CHOSEN,phase="ready"})'),
        stat("States lost", "States with shards that no worker holds.", "none", 'sum(remesh_states{CHOSEN,phase="lost"})'),
        stat("States degraded", "States that have lost copies; other workers hold all of them.", "none", 'sum(remesh_states{CHOSEN,phase="degraded"})'),
        stat("Moves running", "Executions that have not ended.", "none", "sum(remesh_executions_running{CHOSEN})"),
        stat("Workers drained", "Nothing new is placed on them: remeshctl workers drain.", "none", "sum(remesh_workers_drained{CHOSEN})"),
        stat("Journal behind", "1: the journal went back in time, and nothing is decided.", "none", "max(remesh_journal_behind{CHOSEN})"),
        stat("Journal lost", "1: the journal's files are gone, and nothing is decided. Take a backup before the server is stopped.", "none",
             "max(remesh_journal_lost{CHOSEN})"),
        stat("Journal full", "1: the journal lives on its reserve, and nothing new begins.", "none", "max(remesh_journal_full{CHOSEN})"),
        stat("Versions", "Processes by version.", "none", "count by (job, version) (remesh_build_info{CHOSEN})", "{{job}} {{version}}"),
        Panel("States by phase", "States of all jobs.", "none", "sum by (phase) (remesh_states{CHOSEN})", "{{phase}}"),
        Panel("Moves by outcome", "Executions that ended, in the time shown.", "none", rate("remesh_executions_total", "outcome", over="$__range"), "{{outcome}}"),
        Panel("Moves that succeed", "Of those that succeeded or failed in the time shown; the objective is 99.5 %.", "percentunit",
              rate("remesh_executions_total", "", ',outcome="succeeded"', "$__range") + " / (" + rate("remesh_executions_total", "", ',outcome=~"succeeded|failed"', "$__range") + " > 0)"),
        Panel("Seconds of a move, median", "From the request to the end.", "s", quantile(0.5, "remesh_execution_seconds")),
        Panel("Seconds of a move, 99th percentile", "From the request to the end.", "s", quantile(0.99, "remesh_execution_seconds")),
        Panel("Transfers: took over predicted", "All seconds of the transfers that succeeded in the time shown over those predicted. Far above 1: set the capacities of workers; remeshctl topology get shows them.", "none",
              rate("remesh_execution_transfer_seconds_total", over="$__range") + " / (" + rate("remesh_execution_predicted_seconds_total", over="$__range") + " > 0)"),
        Panel("Transfers: took over predicted, 90th percentile", "Of single moves: far above 1, some are much slower than their plans say.", "none", quantile(0.9, "remesh_execution_transfer_ratio")),
        Panel("Bytes of moves", "Moved by executions when they end: between hosts and inside them.", "Bps", rate("remesh_execution_bytes_total", "path"), "{{path}}"),
        Panel("Bytes on the way", "Received from other hosts, window by window.", "Bps", rate("remesh_worker_transfer_bytes_total", "", ',direction="received"')),
        Panel("Attempts that ended in a wrong digest", "On arrival: broken memory or network. At the source: a trainer wrote during the move.", "none", rate("remesh_worker_digest_mismatches_total", "where", over="$__range"), "{{where}}"),
        Panel("Rounds of worlds", "Exchanges of trainer processes that ended, by outcome.", "ops", rate("remesh_world_rounds_total", "outcome"), "{{outcome}}"),
        Panel("Seconds of a round, median", "From its first member to its end.", "s", quantile(0.5, "remesh_world_round_seconds")),
        Panel("Worlds by phase", "Worlds of trainer processes.", "none", "sum by (phase) (remesh_worlds{CHOSEN})", "{{phase}}"),
        Panel("Members of worlds", "Processes in worlds, those that wait for one included.", "none", "sum(remesh_world_members{CHOSEN})"),
        Panel("Oldest round that waits", "How long members of a world have waited for others; remeshctl worlds list says for whom.", "s", "max(remesh_world_oldest_round_seconds{CHOSEN})"),
        Panel("Memory that is owed", "What workers keep because nothing proves that it is free; remeshctl workers owed lists it.", "bytes", "sum(remesh_owed_bytes{CHOSEN})"),
    ],
    "moves": [
        Panel("Received by node", "From other hosts, verified.", "Bps", rate("remesh_worker_transfer_bytes_total", "node", ',direction="received"'), "{{node}}"),
        Panel("Sent by node", "To other hosts.", "Bps", rate("remesh_worker_transfer_bytes_total", "node", ',direction="sent"'), "{{node}}"),
        Panel("Copied inside nodes", "Between the buffers of one host.", "Bps", rate("remesh_worker_transfer_bytes_total", "node", ',direction="copied"'), "{{node}}"),
        Panel("Busiest node over mean", "Of the bytes received: 1 is an even load.", "none",
              "max(" + rate("remesh_worker_transfer_bytes_total", "node", ',direction="received"') + ") / avg(" + rate("remesh_worker_transfer_bytes_total", "node", ',direction="received"') + " > 0)"),
        Panel("Seconds of a window, 99th percentile", "By node: the slowest one holds up the others.", "s", quantile(0.99, "remesh_worker_window_seconds", "node"), "{{node}}"),
        Panel("Where time goes", "Seconds a second that attempts spend in each phase, all nodes.", "s", rate("remesh_worker_phase_seconds_sum", "phase"), "{{phase}}"),
        Panel("Seconds in a phase, 99th percentile", "Of all nodes.", "s", quantile(0.99, "remesh_worker_phase_seconds", "phase"), "{{phase}}"),
        Panel("Chunks verified", "Chunks of 16 KiB that arrived with the digest of their origin.", "cps", rate("remesh_worker_chunks_verified_total", "node"), "{{node}}"),
        Panel("Errors by reason", "Attempts and commands that failed on workers.", "cps", rate("remesh_worker_errors_total", "reason"), "{{reason}}"),
        Panel("Buffers", "Reserved for shards and staging.", "bytes", "sum by (node) (remesh_worker_buffer_bytes{CHOSEN})", "{{node}}"),
        Panel("Buffers on GPUs", "Reserved in the GPUs' own memory; 0 where shards are in files.", "bytes", "sum by (node) (remesh_worker_device_buffer_bytes{CHOSEN})", "{{node}}"),
        Panel("Buffers of what they may take", "A move needs room for both generations.", "percentunit", "sum by (node) (remesh_worker_buffer_bytes{CHOSEN}) / (sum by (node) (remesh_worker_buffer_max_bytes{CHOSEN}) > 0)", "{{node}}"),
        Panel("Files of retired generations", "Asked for by a later generation of the state, by what came of it.", "cps", rate("remesh_worker_recycled_files_total", "outcome"), "{{outcome}}"),
        Panel("Communicators of NCCL", "Attempts between GPUs, by whether they made communicators or used those of an earlier one.", "none", rate("remesh_worker_nccl_communicators_total", "outcome", over="$__range"), "{{outcome}}"),
        Panel("Plans not compared", "Attempts whose plan an older server named without a digest.", "none", rate("remesh_worker_plans_not_compared_total", "node", over="$__range"), "{{node}}"),
        Panel("Attached", "1 while the server has welcomed the worker.", "none", "min by (node) (remesh_worker_attached{CHOSEN})", "{{node}}"),
        Panel("Heartbeats", "Sent to the server.", "cps", rate("remesh_worker_heartbeats_total", "node"), "{{node}}"),
        Panel("CPU of workers", "Cores in use.", "none", "sum by (node) (rate(process_cpu_seconds_total{CHOSEN}[$__rate_interval]) and on (namespace, job, instance) remesh_worker_attached{CHOSEN})", "{{node}}"),
        Panel("Resident memory of workers", "Buffers that the worker has mapped count.", "bytes", "sum by (node) (process_resident_memory_bytes{CHOSEN} and on (namespace, job, instance) remesh_worker_attached{CHOSEN})", "{{node}}"),
    ],
    "planner": [
        Panel("Answers by source", "Plans given, by where they came from.", "cps", rate("remesh_planning_seconds_count", "cache"), "{{cache}}"),
        Panel("Answers that were known", "Of all plans given: neither computed nor refused.", "percentunit",
              "1 - " + rate("remesh_planning_seconds_count", "", ',cache="miss"') + " / (" + rate("remesh_planning_seconds_count") + " > 0)"),
        Panel("Seconds to a plan, 99th percentile", "By source.", "s", quantile(0.99, "remesh_planning_seconds", "cache"), "{{cache}}"),
        Panel("Seconds to compute a plan, 99th percentile", "Of the planner itself, for plans that somebody waits for.", "s", quantile(0.99, "remesh_planner_compute_seconds")),
        Panel("Time spent computing", "Seconds a second, plans made ahead included.", "s", rate("remesh_plan_cache_compute_seconds_total")),
        Panel("Time saved", "Seconds of planning that the cache saved, in the time shown.", "s", rate("remesh_plan_cache_saved_seconds_total", "tier", over="$__range"), "{{tier}}"),
        Panel("Hits", "By tier, and whether the same devices asked.", "cps", rate("remesh_plan_cache_hits_total", "tier, kind"), "{{tier}} {{kind}}"),
        Panel("Misses", "By tier; the disk is asked after memory.", "cps", rate("remesh_plan_cache_misses_total", "tier"), "{{tier}}"),
        Panel("Cache of its limit", "Bytes kept of those allowed.", "percentunit", "sum by (tier) (remesh_plan_cache_bytes{CHOSEN}) / (sum by (tier) (remesh_plan_cache_max_bytes{CHOSEN}) > 0)", "{{tier}}"),
        Panel("Plans kept", "Structures; names of one structure share theirs.", "none", "sum by (tier) (remesh_plan_cache_plans{CHOSEN})", "{{tier}}"),
        Panel("Names of plans", "Each bound to somebody's devices.", "none", "sum by (tier) (remesh_plan_cache_entries{CHOSEN})", "{{tier}}"),
        Panel("Pinned", "Names that no limit puts out.", "none", "sum by (tier) (remesh_plan_cache_pinned{CHOSEN})", "{{tier}}"),
        Panel("Evictions", "By cause.", "cps", rate("remesh_plan_cache_evictions_total", "tier, cause"), "{{tier}} {{cause}}"),
        Panel("Errors of the plan store", "Reads and writes that failed or were dropped.", "cps", rate("remesh_plan_cache_errors_total", "tier"), "{{tier}}"),
        Panel("Waits for an equal question", "Callers that waited while another's equal question was answered.", "cps", rate("remesh_plan_cache_single_flight_waits_total")),
        Panel("Made ahead", "In the time shown.", "none", rate("remesh_plan_precompute_computed_total", over="$__range")),
        Panel("Made ahead and used", "Of those made ahead in the time shown.", "percentunit",
              rate("remesh_plan_precompute_used_total", over="$__range") + " / (" + rate("remesh_plan_precompute_computed_total", over="$__range") + " > 0)"),
        Panel("Waiting to be made", "Plans that were asked for ahead.", "none", "sum(remesh_plan_precompute_waiting{CHOSEN})"),
    ],
    "control": [
        Panel("Calls by method", "Calls that ended, on servers and workers.", "reqps", rate("grpc_server_handled_total", "grpc_service, grpc_method"), "{{grpc_service}}/{{grpc_method}}"),
        Panel("Calls that failed, by code", "Every code but OK.", "reqps", rate("grpc_server_handled_total", "grpc_method, grpc_code", ',grpc_code!="OK"'), "{{grpc_method}} {{grpc_code}}"),
        Panel("Failures for the server's own sake", "Of unary calls; the objective is 0.1 %.", "percentunit",
              rate("grpc_server_handled_total", "", ',grpc_type="unary",grpc_code=~"Unavailable|Internal|Unknown|DataLoss"') + " / (" + rate("grpc_server_handled_total", "", ',grpc_type="unary"') + " > 0)"),
        Panel("Seconds of a unary call, 99th percentile", "By method.", "s", quantile(0.99, "grpc_server_handling_seconds", "grpc_method", ',grpc_type="unary"'), "{{grpc_method}}"),
        Panel("Seconds of a unary call, median", "By method.", "s", quantile(0.5, "grpc_server_handling_seconds", "grpc_method", ',grpc_type="unary"'), "{{grpc_method}}"),
        Panel("Calls that begin", "By kind of call.", "reqps", rate("grpc_server_started_total", "grpc_type"), "{{grpc_type}}"),
        Panel("Messages received", "By method.", "cps", rate("grpc_server_msg_received_total", "grpc_method"), "{{grpc_method}}"),
        Panel("Messages sent", "By method.", "cps", rate("grpc_server_msg_sent_total", "grpc_method"), "{{grpc_method}}"),
        Panel("Plan watches", "Streams of WatchPlans that are open.", "none", "sum(remesh_plan_watches{CHOSEN})"),
        Panel("Resident memory", "By process.", "bytes", "sum by (job, instance) (process_resident_memory_bytes{CHOSEN})", "{{job}} {{instance}}"),
        Panel("CPU", "Cores in use, by process.", "none", rate("process_cpu_seconds_total", "job, instance"), "{{job}} {{instance}}"),
        Panel("File descriptors of the limit", "By process.", "percentunit", "max by (job, instance) (process_open_fds{CHOSEN} / process_max_fds{CHOSEN})", "{{job}} {{instance}}"),
        Panel("Certificate left", "Until the own certificate runs out, by process; nothing without TLS.", "s",
              "min by (job, instance) (remesh_tls_certificate_expiry_timestamp_seconds{CHOSEN} > 0) - time()", "{{job}} {{instance}}"),
        Panel("Certificate files that changed", "Refused: the old ones are still in force, and the log says why.", "cps", rate("remesh_tls_reloads_total", "job, outcome"), "{{job}} {{outcome}}"),
        Panel("Lost audit lines", "In the time shown: the disk of audit_log_file is full, or slower than the calls.", "none", rate("remesh_audit_lines_lost_total", over="$__range")),
        Panel("Life left of certificates", "Below a third RemeshCertificateExpires fires; nothing without TLS.", "percentunit",
              "min by (job, instance) ((remesh_tls_certificate_expiry_timestamp_seconds{CHOSEN} > 0) - time()) / min by (job, instance) "
              "(remesh_tls_certificate_expiry_timestamp_seconds{CHOSEN} - remesh_tls_certificate_not_before_timestamp_seconds{CHOSEN})", "{{job}} {{instance}}"),
        Panel("Workers of another release", "Alive, of another release than their server: an upgrade that is under way, or stopped.", "none", "max by (instance) (remesh_workers_other_version{CHOSEN})", "{{instance}}"),
        Panel("Settings taken", "1: the file as it is now is in force; 0: it is refused, and the log says why.", "none",
              "min by (job, instance) (remesh_config_last_reload_successful{CHOSEN})", "{{job}} {{instance}}"),
        Panel("Settings last taken", "Since a settings file was taken last.", "s",
              "time() - max by (job, instance) (remesh_config_last_reload_success_timestamp_seconds{CHOSEN})", "{{job}} {{instance}}"),
        Panel("Settings that wait for a restart", "1: the file has values that only a restart puts in force.", "none",
              "max by (job, instance) (remesh_config_restart_required{CHOSEN})", "{{job}} {{instance}}"),
        Panel("Uptime", "Since the start of each process.", "s", "time() - max by (job, instance) (process_start_time_seconds{CHOSEN})", "{{job}} {{instance}}"),
    ],
}


def expression(panel: Panel) -> str:
    return panel.query.replace("CHOSEN", CHOSEN)


def panel_json(panel: Panel, identity: int, place: dict) -> dict:
    options = {"timeseries": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
               "stat": {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "colorMode": "none", "graphMode": "none"}}
    target = {"refId": "A", "datasource": SOURCE, "expr": expression(panel), "legendFormat": panel.legend or panel.title}
    return {"id": identity, "type": panel.kind, "title": panel.title, "description": panel.words, "datasource": SOURCE, "gridPos": place,
            "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []}, "options": options[panel.kind], "targets": [target]}


def placed(panels: list) -> list:
    """Left to right; a row is as high as its first panel."""
    result, x, y, height = [], 0, 0, 0
    for identity, panel in enumerate(panels, start=1):
        width, high = (COLUMNS // 6, FLAT) if panel.kind == "stat" else (COLUMNS // 3, TALL)
        if x + width > COLUMNS or (x > 0 and high != height):
            x, y = 0, y + height
        height = high
        result.append(panel_json(panel, identity, {"x": x, "y": y, "w": width, "h": high}))
        x += width
    return result


def variable(name: str, label: str, query: str, every: str) -> dict:
    return {"type": "query", "name": name, "label": label, "datasource": SOURCE, "query": {"query": query, "refId": name}, "definition": query,
            "refresh": 2, "multi": True, "includeAll": True, "allValue": every, "sort": 1, "current": {"text": "All", "value": "$__all"}, "options": [],
            "hide": 0, "skipUrlSync": False}


def board_json(name: str, panels: list) -> dict:
    variables = [
        {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus", "current": {}, "options": [], "refresh": 1,
         "hide": 0, "skipUrlSync": False},
        # Without Kubernetes there is no such label.
        variable("namespace", "Namespace", "label_values(remesh_build_info, namespace)", ".*"),
        variable("job", "job", 'label_values(remesh_build_info{namespace=~"$namespace"}, job)', ".+"),
        variable("instance", "instance", 'label_values(remesh_build_info{namespace=~"$namespace",job=~"$job"}, instance)', ".+"),
    ]
    links = [{"type": "dashboards", "title": "remesh", "tags": ["remesh"], "asDropdown": True, "includeVars": True, "keepTime": True,
              "icon": "", "targetBlank": False, "tooltip": "", "url": ""}]
    return {"uid": f"remesh-{name}", "title": f"remesh / {name}", "tags": ["remesh"], "editable": False, "schemaVersion": 39, "version": 1,
            "refresh": "30s", "timezone": "browser", "time": {"from": "now-1h", "to": "now"}, "templating": {"list": variables},
            "annotations": {"list": []}, "links": links, "panels": placed(panels)}


def main() -> int:
    wanted = {FOLDER / f"remesh-{name}.json": json.dumps(board_json(name, panels), indent=1) + "\n" for name, panels in BOARDS.items()}
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
