# SPDX-License-Identifier: Apache-2.0
"""What scripts/bench fleet measures, in this order on one server and its fleet of `hosts` hosts.
Memory is in MB, CPU is that of the server's process in seconds."""

import time
from typing import List, NamedTuple

from fleet.controller import Client
from fleet.processes import DEVICES

SETTLE_SECONDS, IDLE_SECONDS = 2, 20


class Registered(NamedTuple):
    cpu: float  # of one host
    seconds: float  # until all have


def register(server, fleet, hosts) -> Registered:
    before = server.cpu_seconds()
    attached = fleet.ask("attach")
    return Registered((server.cpu_seconds() - before) / hosts, attached["seconds"])


class Idle(NamedTuple):
    cores: float
    heartbeats: float  # a second
    cpu: float  # of one heartbeat
    resident: float


def rest(server, fleet) -> Idle:
    time.sleep(SETTLE_SECONDS)
    fleet.ask("counts")
    before = server.cpu_seconds()
    time.sleep(IDLE_SECONDS)
    seconds = server.cpu_seconds() - before
    beats = fleet.ask("counts")["heartbeats"]
    return Idle(
        cores=seconds / IDLE_SECONDS,
        heartbeats=beats / IDLE_SECONDS,
        cpu=seconds / max(1, beats),
        resident=server.memory("VmRSS"),
    )


class Moved(NamedTuple):
    seconds: float  # until it has SUCCEEDED
    cpu: float
    peak: float  # over what is resident before
    prepares: int
    prepare_bytes: int
    largest_prepare: int


def move(server, fleet, client, generation, devices, hosts) -> Moved:
    """One move of all hosts, whose plan is cached before."""
    client.plan(generation, devices)
    fleet.ask("counts")
    idle = server.memory("VmRSS")
    server.reset_peak()
    cpu, begin = server.cpu_seconds(), time.monotonic()
    client.start(generation, devices)
    fleet.wait_until("every host committed", lambda: fleet.commits >= hosts)
    client.wait_succeeded(fleet)
    return Moved(
        seconds=time.monotonic() - begin,
        cpu=server.cpu_seconds() - cpu,
        peak=server.memory("VmHWM") - idle,
        prepares=fleet.total["prepares"],
        prepare_bytes=fleet.total["prepare_bytes"],
        largest_prepare=fleet.total["largest_prepare"],
    )


class Served(NamedTuple):
    seconds: float  # until every host has its program
    program_bytes: int
    waits: List[float]  # of another job's calls, sorted


def fetch_programs(server, fleet, client, hosts) -> Served:
    """A third move, for which each host fetches its program, while a job of 4 hosts asks for a move
    of its own that is planned already."""
    other = Client(server, state="jobs/other/states/s")
    other.create_state(4)
    fleet.wait_until("the other state sealed", lambda: other.phase() == "READY")
    other.plan(1, 3 * DEVICES)
    client.plan(3, (hosts - 1) * DEVICES)
    fleet.ask("programs")
    fleet.ask("counts")
    waits, begin, served = [], time.monotonic(), None
    client.start(3, (hosts - 1) * DEVICES)
    while fleet.commits < hosts:
        if served is None and fleet.total["programs"] >= hosts:
            served = time.monotonic() - begin
        asked = time.monotonic()
        other.plan(1, 3 * DEVICES)
        waits.append(time.monotonic() - asked)
    served = served or time.monotonic() - begin
    client.wait_succeeded(fleet)
    return Served(served, fleet.total["program_bytes"], sorted(waits))


class Back(NamedTuple):
    seconds: float  # from the start of the server until all are attached
    listens: float  # until it listens
    cpu: float
    attached: int
    lost: int  # hosts, by then
    phase: str  # of the state


def restart(server, fleet) -> Back:
    """kill -9, and a new server on the same journal."""
    server.kill()
    fleet.wait_until("every stream ended", lambda: fleet.attached == 0)
    lost_before = server.hosts_lost()
    begin = time.monotonic()
    server.start()
    listens = time.monotonic()
    back = fleet.ask("wait")
    return Back(
        seconds=time.monotonic() - begin,
        listens=listens - begin,
        cpu=server.cpu_seconds(),
        attached=back["attached"],
        lost=server.hosts_lost() - lost_before,
        phase=Client(server).phase(),
    )
