# SPDX-License-Identifier: Apache-2.0
"""The section of large worlds: what members of a world cost the server when they join, and in
rounds.

    scripts/bench worlds [MEMBERS...]    numbers of members; default: 1000 10000 16384

By hand, and in scripts/nightly: tests/benchmark/suite_worlds.py BUILD [MEMBERS...] prints the rows,
and fails if memory is above its limit: seconds are for people to judge.
"""

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from fleet.processes import Server, on_core
from report import table
from suite_fleet import holds

TITLE = "Large worlds"
TARGETS = ["remesh-server", "world-members"]
DEFAULT_MEMBERS = [1000, 10000, 16384]
ROUNDS = 10
BARRIER_LIMIT_SECONDS = 1
RESIDENT_LIMIT_MIB = 512  # of 10,000 members
LIMITED_MEMBERS = 10000
SETTINGS = ["keepalive_timeout: 60s"]  # one process answers for all members, and may be slow
SAVE_BYTES = (64, 1024)  # that each process brings to an exchange of outcomes, and that all get

LEGEND = """A real `remesh-server` on one core, with its SQLite journal, and all members of one
world in one process beside it, on another core if there is one: a Join stream for each over at most
200 connections. Seconds are those from a round's first call to its last answer, the members' own
time included: median, worst of {rounds} rounds. CPU is that of the server's process, for a round.
*A save's exchange*: member 0 gets {sent} bytes of each, and all get {received} bytes of it.
Resident: the server's peak since its start. Load average before: {load}."""


def measure(build, arguments):
    counts = [int(argument) for argument in arguments] or DEFAULT_MEMBERS
    load = " ".join(f"{x:.1f}" for x in os.getloadavg())
    rows = []
    for members in counts:
        for row in rows_of(build, members):
            print(" | ".join(row), flush=True)
            rows.append(row)
    legend = LEGEND.format(load=load, rounds=ROUNDS, sent=SAVE_BYTES[0], received=SAVE_BYTES[1])
    return [legend, "", *table(["figure", "limit", "measured", "holds"], rows)]


def rows_of(build, members):
    limited = members <= LIMITED_MEMBERS
    with tempfile.TemporaryDirectory(prefix="worlds-") as folder, Server(
        build, pathlib.Path(folder), SETTINGS
    ) as server:
        with Members(build, server, members) as world, showing(pathlib.Path(folder) / "log"):
            cpu = server.cpu_seconds()
            joined = world.ask("join")
            cpu = server.cpu_seconds() - cpu
            yield [
                f"{members:,} members: all have joined",
                "–",
                f"{joined['seconds']:.1f} s, CPU {cpu:.1f} s",
                "",
            ]
            yield round_row(
                server,
                world,
                f"{members:,} members: a barrier",
                ["barrier"],
                BARRIER_LIMIT_SECONDS if limited else None,
            )
            yield round_row(
                server,
                world,
                f"{members:,} members: a save's exchange",
                [f"gather {SAVE_BYTES[0]}", f"broadcast {SAVE_BYTES[1]}"],
                None,
            )
            peak, resident = (server.memory(key) * 1e6 / 2**20 for key in ("VmHWM", "VmRSS"))
            yield [
                f"{members:,} members: resident, peak",
                f"≤ {RESIDENT_LIMIT_MIB} MiB" if limited else "–",
                f"{peak:.0f} MiB ({resident:.0f} at the end)",
                holds(peak <= RESIDENT_LIMIT_MIB) if limited else "",
            ]


@contextlib.contextmanager
def showing(log):
    """Shows what the server logged if the members fail: it may say why."""
    try:
        yield
    except SystemExit:
        print(log.read_text()[-2000:], file=sys.stderr)
        raise


def round_row(server, world, what, lines, limit):
    """Of rounds, each of which asks these lines one after the other."""
    seconds, before = [], server.cpu_seconds()
    for _ in range(ROUNDS):
        answers = [world.ask(line) for line in lines]
        if any(answer["failed"] for answer in answers):
            sys.exit(f"{what}: {answers}")
        seconds.append(sum(answer["seconds"] for answer in answers))
    cpu = (server.cpu_seconds() - before) / ROUNDS
    median, worst = statistics.median(seconds), max(seconds)
    return [
        what,
        f"≤ {limit} s" if limit else "–",
        f"{median:.2f} s, worst {worst:.2f} s; CPU {cpu:.2f} s",
        holds(median <= limit) if limit else "",
    ]


class Members:
    """The process of all members."""

    def __init__(self, build, server, members):
        server.hosts = 0
        self._process = subprocess.Popen(
            [
                *on_core(1),
                build / "bin" / "world-members",
                "--server",
                server.address,
                "--members",
                str(members),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, line):
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit(f"{line}: the members have ended")
        return json.loads(answer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait()


if __name__ == "__main__":
    sys.exit(
        any(
            "resident" in line and "**no**" in line
            for line in measure(pathlib.Path(sys.argv[1]), sys.argv[2:])
        )
    )
