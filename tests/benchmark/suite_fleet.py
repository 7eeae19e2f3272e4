# SPDX-License-Identifier: Apache-2.0
"""The section of large fleets: what hosts cost the server when they register, are idle, move a
state, and come back.

scripts/bench fleet [HOSTS...]    numbers of hosts; default: 1000 4000 16384 for Registers, 1024
2048 16384 for moves
"""

import os
import pathlib
import sys
import tempfile

from fleet import measurements
from fleet.controller import ARRAYS, Client, columns, rows
from fleet.processes import DEVICES, Fleet, Server
from report import table

TITLE = "Large fleets"
TARGETS = ["remesh-server", "fleet-workers", "python_proto"]
REGISTER_LIMIT_MS = 0.3
CORES_LIMIT, HEARTBEAT_LIMIT_US = 0.4, 25
PREPARE_LIMIT_KIB = 4
MOVE_LIMITS = {1024: (0.6, 100), 2048: (1.2, 150), 16384: (10, 600)}  # seconds of CPU, MB over idle
DEFAULT_HOSTS = [1000, 1024, 2048, 4000, 16384]
ALL_TO_ALL_HOSTS, ALL_TO_ALL_LIMIT_MB = 1024, 300  # peak over idle

LEGEND = """A real `remesh-server` on one core, with its SQLite journal, and fake workers of {devices} devices
in one process beside it, on another core if there is one: real gRPC streams over at most 200
connections, a heartbeat after as much silence as the server asks for, an immediate answer to every
command, no data. CPU is that of the server's process. *Move*: a flat state of {arrays} arrays over
all hosts (15 arrays over 16,384 hosts: a state has at most 2,000,000 shards) goes to all but the
last, and back; the plan is cached before. Load average before: {load}."""


MISSES = """A heartbeat costs more than its limit: with Debian's gRPC 1.51 a message to a server that does
nothing with it takes 29 µs. An idle server of 16,384 workers spends a quarter of its time switching
threads and a tenth in gRPC's search through all open operations, which that package, built with
assertions, makes for every message. More or fewer polling threads (16, 4, 2 or none beside gRPC's
own) change nothing. So workers send fewer heartbeats where there are many of them."""


def measure(build, arguments):
    counts = [int(argument) for argument in arguments] or DEFAULT_HOSTS
    sys.path.insert(0, str(build / "python"))
    load = " ".join(f"{x:.1f}" for x in os.getloadavg())
    measured = []
    for hosts in counts:
        for row in rows_of(build, hosts):
            print(" | ".join(row), flush=True)
            measured.append(row)
    return [
        LEGEND.format(devices=DEVICES, arrays=ARRAYS, load=load),
        "",
        *table(["figure", "limit", "measured", "holds"], measured),
        "",
        MISSES,
    ]


def rows_of(build, hosts):
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder, Server(
        build, pathlib.Path(folder)
    ) as server:
        with Fleet(build, server, hosts) as fleet:
            yield from register_rows(hosts, measurements.register(server, fleet, hosts))
            yield from idle_rows(hosts, measurements.rest(server, fleet))
            client = Client(server)
            client.create_state(hosts)
            fleet.wait_until("every shard sealed", lambda: client.phase() == "READY")
            there_and_back = [("one host less", hosts - 1), ("and back", hosts)]
            for generation, (name, holders) in enumerate(there_and_back, 1):
                moved = measurements.move(
                    server, fleet, client, generation, holders * DEVICES, hosts
                )
                yield from move_rows(hosts, name, moved)
            yield from program_rows(
                hosts, measurements.fetch_programs(server, fleet, client, hosts)
            )
            yield from restart_rows(hosts, measurements.restart(server, fleet))
    yield from start_rows(server)
    if hosts == ALL_TO_ALL_HOSTS:
        yield from all_to_all_rows(build, hosts)


def register_rows(hosts, registered):
    cpu = 1e3 * registered.cpu
    yield [
        f"{hosts:,} hosts: CPU of a Register",
        f"≤ {REGISTER_LIMIT_MS} ms",
        f"{cpu:.2f} ms ({registered.seconds:.1f} s for all)",
        holds(cpu <= REGISTER_LIMIT_MS),
    ]


def idle_rows(hosts, idle):
    yield [
        f"{hosts:,} hosts, idle: cores",
        f"≤ {CORES_LIMIT}",
        f"{idle.cores:.2f} ({idle.heartbeats:,.0f} heartbeats a second)",
        holds(idle.cores <= CORES_LIMIT),
    ]
    yield [
        f"{hosts:,} hosts, idle: CPU of a heartbeat",
        f"≤ {HEARTBEAT_LIMIT_US} µs",
        f"{1e6 * idle.cpu:.0f} µs",
        holds(1e6 * idle.cpu <= HEARTBEAT_LIMIT_US),
    ]
    yield [f"{hosts:,} hosts, idle: resident", "–", f"{idle.resident:.0f} MB", ""]


def move_rows(hosts, name, moved):
    limits = MOVE_LIMITS.get(hosts)
    what = f"{hosts:,} hosts, {name}"
    yield [
        f"{what}: CPU",
        f"≤ {limits[0]} s" if limits else "–",
        f"{moved.cpu:.2f} s (SUCCEEDED after {moved.seconds:.1f} s)",
        holds(moved.cpu <= limits[0]) if limits else "",
    ]
    yield [
        f"{what}: peak over idle",
        f"≤ {limits[1]} MB" if limits else "–",
        f"{moved.peak:.0f} MB",
        holds(moved.peak <= limits[1]) if limits else "",
    ]
    kib = moved.prepare_bytes / max(1, moved.prepares) / 1024
    yield [
        f"{what}: Prepares",
        f"≤ {PREPARE_LIMIT_KIB} KiB a host",
        f"{kib:.1f} KiB a host, largest {moved.largest_prepare / 1024:.1f} KiB, "
        f"{moved.prepare_bytes / 1e6:.1f} MB in all",
        holds(moved.largest_prepare <= PREPARE_LIMIT_KIB * 1024),
    ]


def all_to_all_rows(build, hosts):
    """Rows to columns, on one device of each host: every host exchanges with every other."""
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder, Server(
        build, pathlib.Path(folder)
    ) as server, Fleet(build, server, hosts) as fleet:
        fleet.ask("attach")
        client = Client(server, rows, columns, shape=[hosts, hosts], arrays=1)
        client.create_state(hosts)
        fleet.wait_until("every shard sealed", lambda: client.phase() == "READY")
        moved = measurements.move(server, fleet, client, 1, hosts * DEVICES, hosts)
    yield [
        f"{hosts:,} hosts, all to all: peak over idle",
        f"≤ {ALL_TO_ALL_LIMIT_MB} MB",
        f"{moved.peak:.0f} MB ({moved.cpu:.1f} s of CPU; Prepares: largest "
        f"{moved.largest_prepare / 1024:.0f} KiB, {moved.prepare_bytes / 1e6:.0f} MB in all)",
        holds(moved.peak <= ALL_TO_ALL_LIMIT_MB),
    ]


def program_rows(hosts, served):
    limit = 3 if hosts == 2048 else None
    yield [
        f"{hosts:,} hosts: programs of all hosts served",
        f"≤ {limit} s" if limit else "–",
        f"{served.seconds:.1f} s ({served.program_bytes / 1e6:.1f} MB)",
        holds(served.seconds <= limit) if limit else "",
    ]
    p99 = 1e3 * served.waits[len(served.waits) * 99 // 100]
    yield [
        f"{hosts:,} hosts: cached StartExecution of a 4-host job beside it, p99",
        "≤ 100 ms",
        f"{p99:.0f} ms ({len(served.waits)} calls)",
        holds(p99 <= 100),
    ]


def restart_rows(hosts, back):
    limit = 7 if hosts == 16384 else None
    yield [
        f"{hosts:,} hosts back after kill -9: from the start of the server",
        f"≤ {limit} s" if limit else "–",
        f"{back.seconds:.1f} s ({back.listens:.1f} s until it listens, {back.cpu:.1f} s of CPU; "
        f"{back.attached:,} attached, {back.lost} lost by then, state {back.phase})",
        holds(back.seconds <= limit and back.phase == "READY" and not back.lost) if limit else "",
    ]


def start_rows(server):
    """Shutdown, and start on a journal with all hosts. The workers have gone."""
    hosts = server.hosts
    yield [
        f"{hosts:,} hosts in the journal: shutdown; start",
        "≤ 3 s each",
        f"{server.stop_seconds:.1f} s; {server.start_seconds:.1f} s",
        holds(server.stop_seconds <= 3 and server.start_seconds <= 3),
    ]


def holds(does):
    return "yes" if does else "**no**"
