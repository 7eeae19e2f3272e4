# SPDX-License-Identifier: Apache-2.0
"""remesh launch: runs a program in several processes on this machine, world after world.

When one dies the others are killed, and the next world has those that are left: docs/training.md.
"""

import argparse
import itertools
import os
import shutil
import signal
import socket
import time
import uuid
from typing import Dict, List, Optional, Sequence

from remesh.launch_world import World, write_line

_RESIZED, _KILLED = 75, 128 + signal.SIGKILL
_LEFT = {143, _RESIZED}  # statuses of ranks that are to be started again
_LOOK_SECONDS = 0.05  # from one look at the ranks to the next
_WORKER_SOCKET = "/run/remesh/worker.sock"  # its default
_SIGNALS = {128 + each: each.name for each in signal.Signals}  # by status


def died(statuses: Sequence[int]) -> List[int]:
    """Those of ranks that neither finished nor left."""
    return [each for each in statuses if each not in {0, *_LEFT}]


def next_size(statuses: Sequence[int], asked: int, size: int, given: argparse.Namespace) -> int:
    """Size of the world after one of `size` processes; 0: the job has ended. statuses: of those
    that ended by themselves. asked: the size that one of them asked for, or 0."""
    causes = died(statuses)
    if causes:
        # Those that end because another one is gone exit or abort.
        killed = [each for each in causes if each in _SIGNALS and each != 128 + signal.SIGABRT]
        return size - max(len(killed), 1)
    if _LEFT.isdisjoint(statuses):
        return 0
    wanted = asked or given.next_size or (size if _RESIZED in statuses else size - 1)
    return min(max(wanted, given.min), given.max)


def exit_status(statuses: Sequence[int], overdue: Sequence[int] = ()) -> int:
    """That of the worst rank: one that died, else was overdue, else left."""
    return max(died(statuses) or [_KILLED for _ in overdue] or statuses)


def run(given: argparse.Namespace, signals: Sequence[int]) -> int:
    """World after world. Returns the exit status. signals: those that asked the launcher to end."""
    size, deaths, run_id = given.n, 0, uuid.uuid4().hex
    for number in itertools.count():
        with open(os.memfd_create("next_size"), "rb") as size_file, _held_port() as holder:
            environment = {
                "REMESH_ATTEMPT": f"{run_id}.{number}",
                "REMESH_NEXT_SIZE_FILE": f"/proc/{os.getpid()}/fd/{size_file.fileno()}",
                **_environment(size, holder.getsockname()[1]),
            }
            world = World(given.command, size, environment)
            _supervise(world, given.grace, signals)
            world.close()
            asked = _size_of(size_file.readline(20))
        statuses = list(world.statuses.values())
        deaths += bool(died(statuses))
        size = next_size(statuses, asked, size, given)
        if signals or not (died(statuses) or size):
            break
        if deaths > given.restarts:
            _say(f"the job ends: {deaths} deaths, --restarts is {given.restarts}")
            break
        if size < given.min:
            _say(f"the job ends: {size} processes are left, --min is {given.min}")
            break
        if asked not in (0, size) and not died(statuses):
            _say(f"{asked} processes were asked for: --min is {given.min}, --max is {given.max}")
        _say(f"world {number + 2} begins with {size} processes")
    return exit_status(statuses, world.running())


# Until all ranks have ended, or those that run are to be killed. grace: seconds.
def _supervise(world: World, grace: float, signals: Sequence[int]) -> None:
    told, kill_at = False, float("inf")
    while world.running() and time.monotonic() < kill_at:
        time.sleep(_LOOK_SECONDS)
        world.poll()
        statuses = list(world.statuses.values())
        if died(statuses) and not told:
            _report_death(world)
            return
        if signals and not told:
            told = True
            for rank in world.running():
                os.kill(world.processes[rank].pid, signal.SIGTERM)
        if told or not _LEFT.isdisjoint(statuses):
            kill_at = min(kill_at, time.monotonic() + grace)
        if signal.SIGINT in signals[1:]:
            kill_at = 0
    for rank in world.running():
        _say(f"rank {rank} was killed: it had not ended in time")


def _report_death(world: World) -> None:
    time.sleep(_LOOK_SECONDS)  # several may die of one cause
    world.poll()
    for rank, status in sorted(world.statuses.items()):
        if died([status]):
            how = _SIGNALS.get(status, f"exited with {status}")
            pid = world.processes[rank].pid
            _say(f"rank {rank} (pid {pid}) died: {how}; the others are killed")


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The command `remesh launch`. Returns its exit status."""
    usage = "%(prog)s -n SIZE [options] -- COMMAND..."
    parser = argparse.ArgumentParser("remesh launch", usage, __doc__.split("\n")[0])
    add = parser.add_argument
    add("-n", type=int, required=True, help="processes of the first world")
    add("--min", type=int, default=1, help="processes without which the job ends (1)")
    add("--max", type=int, help="processes of any world (the larger of -n and --next-size)")
    add("--next-size", type=int, help="processes of the world after one that left")
    add("--restarts", type=int, default=3, help="deaths to outlive (3)")
    add("--grace", type=float, default=30, help="seconds to SIGKILL (30)")
    add("command", nargs="+", help="the program and its arguments")
    given = parser.parse_args(arguments)
    given.max = given.max or max(given.n, given.next_size or 0)
    for name, size in (("-n", given.n), ("--next-size", given.next_size or given.n)):
        if not 1 <= given.min <= size <= given.max:
            parser.error(f"{name}: 1 <= --min {given.min} <= {size} <= --max {given.max} must hold")
    if shutil.which(given.command[0]) is None:
        parser.error(f"COMMAND: value {given.command[0]!r} must be a program")
    signals: List[int] = []
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(each) != signal.SIG_IGN:
            signal.signal(each, lambda number, _: signals.append(number))
    return run(given, signals)


# What all ranks of a world are sent.
def _environment(size: int, port: int) -> Dict[str, str]:
    socket_found = {"REMESH_SOCKET": _WORKER_SOCKET} if os.path.exists(_WORKER_SOCKET) else {}
    return {
        **socket_found,
        **os.environ,
        "PYTHONUNBUFFERED": "1",  # a rank that is killed has printed what it said
        "REMESH_COORDINATOR": f"127.0.0.1:{port}",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        **dict.fromkeys(("REMESH_WORLD_SIZE", "WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(size)),
    }


# A port for a coordinator that must be named before it listens. This socket holds
# it and never listens: it lets in those who ask to reuse it, as gRPC and torch do.
def _held_port() -> socket.socket:
    holder = socket.socket()
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        holder.setsockopt(socket.SOL_SOCKET, option, 1)
    holder.bind(("", 0))
    return holder


# As a process wrote it; 0: no number.
def _size_of(line: bytes) -> int:
    text = line.strip()
    if text and not text.isdigit():
        _say(f"a size that a process asked for is no number: {text!r}")
    return int(text) if text.isdigit() else 0


def _say(text: str) -> None:
    write_line(2, f"remesh launch: {text}".encode())
