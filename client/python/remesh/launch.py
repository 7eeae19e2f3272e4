# SPDX-License-Identifier: Apache-2.0
"""remesh launch: runs a program in several processes on this machine, world after world.

A world ends when its processes have ended, or when one dies: then the others get SIGKILL, and the
next world has those that are left. If they left (exit statuses of remesh.job.Reason), the next
world may have another size. docs/training.md describes it.
"""

import argparse
import dataclasses
import itertools
import os
import select
import shutil
import signal
import socket
import time
import uuid
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from remesh.launch_world import World, write_line

_TOLD_TO_GO, _RESIZED = 143, 75
_SETTLE_SECONDS = 0.1  # in which several processes may die of one cause
_WORKER_SOCKET = "/run/remesh/worker.sock"  # its default


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a world ended. statuses: of each rank that ended by itself; -N: by signal N. overdue:
    ranks that did not end in time and were killed. told: whether the launcher got a signal to end.
    asked: the size that a process asked for, or 0."""

    statuses: Mapping[int, int]
    overdue: Tuple[int, ...] = ()
    told: bool = False
    asked: int = 0

    def died(self) -> Dict[int, int]:
        """Statuses of the ranks that neither finished nor left. One that the launcher sent
        SIGTERM may have had no handler for it."""
        fine = (0, _TOLD_TO_GO, _RESIZED, -signal.SIGTERM if self.told else 0)
        return {rank: each for rank, each in self.statuses.items() if each not in fine}

    def lost(self) -> int:
        """How many ranks are gone. Those that end because another one is gone exit or abort: they
        count as one, and not at all beside one that was killed."""
        causes = self.died().values()
        killed = [each for each in causes if each < 0 and each != -signal.SIGABRT]
        return len(killed) or min(len(causes), 1)

    def left(self) -> bool:
        """Whether a rank left to be started again."""
        return not {_TOLD_TO_GO, _RESIZED}.isdisjoint(self.statuses.values())

    def exit_status(self) -> int:
        """That of the worst rank, as shells say it: one that died, else was overdue, else left."""
        late = [-signal.SIGKILL] if self.overdue else []
        worst = list(self.died().values()) or late or list(self.statuses.values())
        return max(each if each >= 0 else 128 - each for each in worst)


def next_size(ended: Ended, size: int, settings: argparse.Namespace) -> int:
    """Size of the world after one of `size` processes; 0: the job has ended."""
    if ended.died():
        return size - ended.lost()
    if not ended.left():
        return 0
    same = _RESIZED in ended.statuses.values()
    wanted = ended.asked or settings.next_size or (size if same else size - 1)
    return min(max(wanted, settings.min), settings.max)


class Launcher:
    """Runs worlds in the main thread, whose signals it takes. settings: of the command line."""

    def __init__(self, settings: argparse.Namespace):
        self._settings = settings
        self._told = False
        # A signal that comes just before the wait for one must end it: a handler
        # alone does not.
        self._signals, signals = os.pipe()
        os.set_blocking(signals, False)
        signal.set_wakeup_fd(signals, warn_on_full_buffer=False)
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            if each == signal.SIGCHLD or signal.getsignal(each) != signal.SIG_IGN:
                signal.signal(each, lambda *_: None)

    def run(self) -> int:
        """Until the job has ended. Returns the exit status."""
        settings, size, deaths, run_id = self._settings, self._settings.n, 0, uuid.uuid4().hex
        for number in itertools.count(1):
            ended = self._run_world(size, f"{run_id}.{number - 1}")
            size = next_size(ended, size, settings)
            if ended.left() and ended.asked not in (0, size):
                limits = f"--min is {settings.min}, --max is {settings.max}"
                _say(f"{ended.asked} processes were asked for: {limits}")
            deaths += bool(ended.died())
            if ended.told or not (ended.died() or size):
                break
            if deaths > settings.restarts:
                _say(f"the job ends: {deaths} deaths, --restarts is {settings.restarts}")
                break
            if size < settings.min:
                _say(f"the job ends: {size} processes are left, --min is {settings.min}")
                break
            _say(f"world {number + 1} begins with {size} processes")
        return ended.exit_status()

    def _run_world(self, size: int, attempt: str) -> Ended:
        with _held_port() as holder, open(os.memfd_create("next_size"), "rb") as asked:
            port = holder.getsockname()[1]
            shared = {
                "PYTHONUNBUFFERED": "1",  # a rank that is killed has printed what it said
                "REMESH_ATTEMPT": attempt,
                "REMESH_COORDINATOR": f"127.0.0.1:{port}",
                "REMESH_NEXT_SIZE_FILE": f"/proc/{os.getpid()}/fd/{asked.fileno()}",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                **dict.fromkeys(("REMESH_WORLD_SIZE", "WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(size)),
            }
            environments = [{**os.environ, **shared, **_ranks(rank)} for rank in range(size)]
            world = World(self._settings.command, environments)
            try:
                overdue = self._supervise(world)
            finally:
                world.close()
            size_asked = _size_of(asked.readline(20))
        own = {rank: each for rank, each in world.statuses.items() if rank not in world.killed}
        return Ended(own, overdue, self._told, size_asked)

    # Until all ranks have ended. Returns those that did not end in time.
    def _supervise(self, world: World) -> Tuple[int, ...]:
        kill_at, died = float("inf"), False
        grace = self._settings.grace
        while world.running():
            number = self._next_signal(kill_at)
            world.poll()
            if number == signal.SIGINT and self._told:
                kill_at = 0.0
            elif number not in (0, signal.SIGCHLD) and not self._told:
                self._told = True
                world.terminate()
                kill_at = min(kill_at, time.monotonic() + grace)
            so_far = Ended(world.statuses, told=self._told)
            if so_far.died() and not died and not world.killed:
                died = True
                self._report(world, so_far)
                kill_at = min(kill_at, time.monotonic() + _SETTLE_SECONDS)
            elif so_far.left():
                kill_at = min(kill_at, time.monotonic() + grace)
            if time.monotonic() >= kill_at:
                world.kill()
                kill_at = float("inf")
        overdue = () if died else tuple(sorted(world.killed))
        for rank in overdue:
            _say(f"rank {rank} was killed: it had not ended in time")
        return overdue

    def _next_signal(self, until: float) -> int:
        wait = min(max(until - time.monotonic(), 0), 3600)
        ready = select.select([self._signals], [], [], wait)[0]
        return os.read(self._signals, 1)[0] if ready else 0

    def _report(self, world: World, ended: Ended) -> None:
        for rank, status in sorted(ended.died().items()):
            how = f"exited with {status}" if status >= 0 else signal.Signals(-status).name
            _say(f"rank {rank} (pid {world.pid(rank)}) died: {how}; the others are killed")


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The command `remesh launch`. Returns its exit status."""
    return Launcher(_parse(arguments)).run()


def _parse(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    usage = "%(prog)s -n SIZE [options] -- COMMAND..."
    parser = argparse.ArgumentParser("remesh launch", usage, __doc__.split("\n")[0])
    sizes = (("--max", "of any world"), ("--next-size", "of the world after one that left"))
    parser.add_argument("-n", type=int, required=True, help="processes of the first world")
    parser.add_argument("--min", type=int, default=1, help="processes without which the job ends")
    for name, text in sizes:
        parser.add_argument(name, type=int, help=f"processes {text}")
    parser.add_argument("--restarts", type=int, default=3, help="deaths to outlive (3)")
    parser.add_argument("--grace", type=float, default=30, help="seconds to SIGKILL (30)")
    parser.add_argument("--socket", help=f"of the worker ($REMESH_SOCKET, {_WORKER_SOCKET})")
    parser.add_argument("command", nargs="+", help="the program and its arguments")
    given = parser.parse_args(arguments)
    given.max = given.max or max(given.n, given.next_size or 0)
    if not 1 <= given.min <= given.n <= given.max:
        parser.error(
            f"sizes: 1 <= --min {given.min} <= -n {given.n} <= --max {given.max} must hold"
        )
    if given.next_size is not None and not given.min <= given.next_size <= given.max:
        parser.error(f"--next-size: value {given.next_size} must be from --min to --max")
    if shutil.which(given.command[0]) is None:
        parser.error(f"COMMAND: value {given.command[0]!r} must be a program")
    found = given.socket or os.environ.get("REMESH_SOCKET") or _WORKER_SOCKET
    if given.socket or os.path.exists(found):
        os.environ["REMESH_SOCKET"] = found
    return given


def _ranks(rank: int) -> Dict[str, str]:
    return dict.fromkeys(("REMESH_RANK", "RANK", "LOCAL_RANK"), str(rank))


# As a process wrote it; 0: no number.
def _size_of(line: bytes) -> int:
    text = line.strip()
    if text and not text.isdigit():
        _say(f"a size that a process asked for is no number: {text!r}")
    return int(text) if text.isdigit() else 0


# A port for a coordinator that must be named before it listens. This socket holds
# it and never listens: it lets in those who ask to reuse it, as gRPC and torch do.
def _held_port() -> socket.socket:
    holder = socket.socket(socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET)
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        holder.setsockopt(socket.SOL_SOCKET, option, 1)
    if holder.family == socket.AF_INET6:
        holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    holder.bind(("", 0))
    return holder


def _say(text: str) -> None:
    write_line(2, f"remesh launch: {text}".encode())
