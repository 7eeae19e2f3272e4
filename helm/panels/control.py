# SPDX-License-Identifier: Apache-2.0
"""Calls, processes, certificates and settings of servers and workers."""

from grafana.panel import ALL_IS_GOOD, ANY_IS_BAD, ANY_IS_ODD, Panel
from grafana.queries import quantile, rate, ratio

PANELS = [
    Panel(
        "Calls by method",
        "Calls that ended, on servers and workers.",
        "reqps",
        rate("grpc_server_handled_total", "grpc_service, grpc_method") + " > 0",
        "{{grpc_service}}/{{grpc_method}}",
    ),
    Panel(
        "Calls that failed, by code",
        "Watches that their caller or a restart ends do not count, nor do calls that their caller "
        "cancels.",
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
        "Share of unary calls that end in Unavailable, Internal, Unknown or DataLoss. The "
        "objective is at most 0.1 %.",
        "percentunit",
        ratio(
            rate(
                "grpc_server_handled_total",
                "",
                ',grpc_type="unary",grpc_code=~"Unavailable|Internal|Unknown|DataLoss"',
            ),
            rate("grpc_server_handled_total", "", ',grpc_type="unary"'),
        ),
        levels=(("green", None), ("red", 0.001)),
        scale=(0, 0.002),
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
        levels=(("green", None), ("red", 0.8)),
    ),
    Panel(
        "Time until the certificate expires",
        "Until the own certificate runs out, by process; nothing without TLS.",
        "s",
        "min by (job, instance) (remesh_tls_certificate_expiry_timestamp_seconds{CHOSEN} > 0) - "
        "time()",
        "{{job}} {{instance}}",
        levels=(("red", None), ("orange", 86400), ("green", 7 * 86400)),
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
        levels=ANY_IS_BAD,
    ),
    Panel(
        "Certificate lifetime left",
        "Below a third RemeshCertificateExpires fires; nothing without TLS.",
        "percentunit",
        "min by (job, instance) ((remesh_tls_certificate_expiry_timestamp_seconds{CHOSEN} > 0) - "
        "time()) / min by (job, instance) "
        "(remesh_tls_certificate_expiry_timestamp_seconds{CHOSEN} - "
        "remesh_tls_certificate_not_before_timestamp_seconds{CHOSEN})",
        "{{job}} {{instance}}",
        levels=(("red", None), ("green", 1 / 3)),
    ),
    Panel(
        "Workers of another release",
        "Alive, of another release than their server: an upgrade that is under way, or stopped.",
        "none",
        "max by (instance) (remesh_workers_other_version{CHOSEN})",
        "{{instance}}",
        levels=ANY_IS_ODD,
    ),
    Panel(
        "Settings file accepted",
        "1: the file as it is now is in force; 0: it is refused, and the log says why.",
        "none",
        "min by (job, instance) (remesh_config_last_reload_successful{CHOSEN})",
        "{{job}} {{instance}}",
        levels=ALL_IS_GOOD,
    ),
    Panel(
        "Age of the settings in force",
        "Since a settings file was taken last.",
        "s",
        "time() - max by (job, instance) "
        "(remesh_config_last_reload_success_timestamp_seconds{CHOSEN})",
        "{{job}} {{instance}}",
    ),
    Panel(
        "Settings that need a restart",
        "1: the file has values that only a restart puts in force.",
        "none",
        "max by (job, instance) (remesh_config_restart_required{CHOSEN})",
        "{{job}} {{instance}}",
        levels=ANY_IS_ODD,
    ),
    Panel(
        "Uptime",
        "Since the start of each process.",
        "s",
        "time() - max by (job, instance) (process_start_time_seconds{CHOSEN})",
        "{{job}} {{instance}}",
    ),
]
