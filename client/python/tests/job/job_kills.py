# SPDX-License-Identifier: Apache-2.0
"""Worlds of real processes that kill themselves while they save: job_kills_test.py and the nightly
run use it.

A *keeper* process has imported everything and forks the processes of each world, which take a
second otherwise. It reads one order a line (JSON) and answers with one line: what every process
reported.

Each world restores, checks every element against the step, saves step + 1, and dies in the save of
step + 2, or in a call that it makes instead. Over a SocketGroup the others are killed at once. Over
the server's world they are not: they report who was named to them as lost, and when.
"""

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from typing import Any, Callable, ContextManager, Dict, List, Optional, Sequence

import numpy as np

import remesh
from remesh import errors, job, storage
from remesh.job import finishing, pieces, reserving, restoring, saving, worlds
from remesh.job.server_notice import ServerNotice
from remesh.state import State
from remesh.worker import LocalState

from socket_group import SocketGroup

# Where a process can die, by the function that it enters or leaves there. Of
# these only process 0 comes to the first four.
PHASES = {
    "update begins": (State, "update", "before"),
    "update ends": (State, "update", "after"),
    "delete begins": (State, "delete", "before"),
    "delete ends": (State, "delete", "after"),
    "exchange": (saving.Saver, "_begin", "before"),
    "begun": (saving.Saver, "_begin", "after"),
    "allocate": (LocalState, "allocate", "before"),
    "allocated": (LocalState, "allocate", "after"),
    "pwrite": (pieces, "_write_one", "before"),
    "written": (pieces, "write", "after"),
    "seal begins": (LocalState, "seal", "before"),
    "seal ends": (LocalState, "seal", "after"),
}
# In the background, after the save before.
RESERVE_PHASES = {
    "reserve": (reserving.Reservation, "_begin", "before"),
    "reserve created": (reserving.Reservation, "_begin", "after"),
    "reserve allocates": (reserving.Reservation, "_allocate", "before"),
    "reserve allocated": (reserving.Reservation, "_allocate", "after"),
}
# Instead of the save of step + 2.
CALL_PHASES = {
    "restore": (restoring.Restorer, "restore", "before"),
    "leaving": (ServerNotice, "due", "before"),
}
_TOLD_SECONDS = 30.0  # after which a process that has not been informed is killed
ONLY_FIRST = (
    *("update begins", "update ends", "delete begins", "delete ends"),
    *("reserve", "reserve created"),
)


def values(step: int) -> Dict[str, np.ndarray]:
    """The whole state at a step: no two steps have an element in common."""
    return {
        "rows": np.full((24, 4), step, np.int64) + 1000 * np.arange(24)[:, np.newaxis],
        "whole": np.full((7,), step, np.int64),
        "last": np.full((12, 2), step, np.int64),
    }


def holders(name: str, shape, size: int) -> storage.Holders:
    """`whole` is on every process; the others are cut into rows."""
    if name == "whole":
        return storage.Holders.everywhere(shape, size)
    cuts = [shape[0] * i // size for i in range(size + 1)]
    return storage.Holders.of(
        shape, [(p, (cuts[p], 0), (cuts[p + 1], shape[1])) for p in range(size)]
    )


def arrays_of(size: int) -> List[storage.Array]:
    """Of every step."""
    return [
        storage.Array(name, "s64", holders(name, value.shape, size))
        for name, value in values(0).items()
    ]


def box_of(array: storage.Array, rank: int):
    """The box of this process."""
    at = int(np.flatnonzero(array.holders.processes == rank)[0])
    return tuple(array.holders.lo[at].tolist()), tuple(array.holders.hi[at].tolist())


def pieces_of(step: int, rank: int, size: int) -> List[job.Piece]:
    """What this process saves."""

    def content(name):
        return lambda box: values(step)[name][tuple(slice(*each) for each in zip(*box))]

    return [
        job.Piece(array, [box_of(array, rank)], content(array.name)) for array in arrays_of(size)
    ]


def check(found: job.Found, rank: int, size: int) -> None:
    """AssertionError unless every element and extra is of the step that the save claims."""
    for array in arrays_of(size):
        box = box_of(array, rank)
        content = pieces.read(found.shards.with_box(array.name, box)[0], box).view(np.int64)
        want = values(found.step)[array.name][tuple(slice(*each) for each in zip(*box))].reshape(-1)
        assert np.array_equal(content, want), f"{array.name}: {content[:4]} instead of {want[:4]}"
    assert all(
        extra == {"step": found.step, "rank": each} for each, extra in enumerate(found.extras)
    ), found.extras


def die_at(order: Dict[str, Any]) -> None:
    """Arms the death of this process, or of its whole world."""
    owner, name, when = {**PHASES, **RESERVE_PHASES, **CALL_PHASES}[order["phase"]]
    function = getattr(owner, name)

    def dies(*arguments, **named):
        if when == "after":
            function(*arguments, **named)  # what it returns is not used
        tell(order, died=time.monotonic())
        if order["victim"] == "all":
            os.killpg(0, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, dies)


def plant(bug: str) -> None:
    """Breaks the package as the name says: the test must find it."""
    if bug == "step after seal":
        seal = LocalState.seal
        late: List[Any] = []
        State.update, update = (lambda self, **named: late.append((self, named))), State.update

        def sealed(self, **named):
            answer = seal(self, **named)
            if late:
                self.read(1, wait=20.0)  # until all hosts have sealed, however slow they are
            for state, fields in late:
                update(state, **fields)
            return answer

        LocalState.seal = sealed
    elif bug == "older deleted first":
        commit = finishing.Finisher._seal

        def early(self, save, *rest):
            if self._decides:
                self._delete_older(save.name)
            commit(self, save, *rest)

        finishing.Finisher._seal = early
    elif bug == "reserved restored":
        restoring.RESERVED = "none"
        restoring.WHOLE = ("READY", "DEGRADED", "BUILDING")
        restoring.WRITTEN = reserving.RESERVED
        _hide_building()
        worlds.Worlds._end_lower_worlds = lambda self: None
    elif bug == "building restored":
        restoring.WHOLE = ("READY", "DEGRADED", "BUILDING")
        restoring.WRITTEN = "world-size"
        _hide_building()
    elif bug == "write_once off":
        from remesh.v1 import state_pb2

        full = state_pb2.State
        worlds.state_pb2 = type(
            "Protos",
            (),
            {
                "CreateStateRequest": state_pb2.CreateStateRequest,
                "State": lambda write_once, **named: full(**named),
                "StateSpec": state_pb2.StateSpec,
            },
        )


def _hide_building() -> None:
    phase_of = State.phase
    State.phase = property(
        lambda self: "READY" if phase_of.fget(self) == "BUILDING" else phase_of.fget(self)
    )


def tell(order: Dict[str, Any], **report: Any) -> None:
    """Adds to what the world reports."""
    os.write(order["pipe"], json.dumps(report).encode() + b"\n")


def dies(order: Dict[str, Any], rank: int) -> bool:
    """Whether this process is the one that dies first."""
    return order["victim"] == rank or (order["victim"] == "all" and rank == order["killer"])


def await_reserved(core: job.Core) -> None:
    """Waits until the next save's memory is reserved here."""
    present = core._saver._reservations._present
    if present:
        present._ended.wait(20.0)


def run(order: Dict[str, Any], rank: int, group: Optional[SocketGroup]) -> Dict[str, Any]:
    """One process of a world. group: None: as the server knows it."""
    if order.get("bug"):
        plant(order["bug"])
    client = remesh.connect(order["sockets"][rank], order["server"])
    core = job.Core(
        order["job"],
        client=client,
        job_group=group,
        patience=20.0,
        commit_seconds=20.0,
        reserve=order["reserve"],
    )
    size = core.size
    found = core.restore_arrays(arrays_of(size))
    if found:
        check(found, rank, size)

    def save(step: int) -> None:
        # block: process 0 has deleted the older save, so that only what
        # follows is killed.
        extra = {"rank": rank, "step": step}
        core.save_pieces(pieces_of(step, rank, size), step, extra=extra, block=True)

    calls = {
        "restore": lambda: core.restore_arrays(arrays_of(size)),
        "leaving": lambda: leave(core),
    }
    return live(order, rank, core, found.step if found else None, save, calls)


def leave(core: job.Core) -> None:
    """Asks at every step whether to leave, until a process that died is named."""
    for step in itertools.count():
        core.leaving(step)
        time.sleep(0.001)


def live(
    order: Dict[str, Any],
    rank: int,
    core: job.Core,
    restored: Optional[int],
    save: Callable[[int], None],
    calls: Dict[str, Callable[[], Any]],
) -> Dict[str, Any]:
    """What a process does once it has restored. calls: by what CALL_PHASES calls them."""
    step = restored or 0
    report = {"restored": restored, "saved": step + 1}
    if order["victim"] is not None:
        tell(order, rank=rank, **report)
    early = order["phase"] in RESERVE_PHASES
    if early and dies(order, rank):
        die_at(order)
    save(step + 1)
    if order["victim"] is None:
        core.close()
        return report
    if not early or dies(order, rank):
        await_reserved(core)  # the others are sent it in the barrier of one that dies in it
    core._group.barrier("reserved")
    if not early and dies(order, rank):
        die_at(order)
    calls.get(order["phase"], lambda: save(step + 2))()
    return {**report, "saved": step + 2}


def _child(order, rank, listener, port) -> None:
    size = len(order["sockets"])
    group = None
    try:
        if order["told"]:
            attempt = f"{os.getppid()}.{order['number']}"
            os.environ.update(
                REMESH_RANK=str(rank), REMESH_WORLD_SIZE=str(size), REMESH_ATTEMPT=attempt
            )
        else:
            group = SocketGroup(rank, size, listener, port)
        tell(order, rank=rank, ended=True, **run(order, rank, group))
    except BaseException as error:  # pylint: disable=broad-except
        lost = isinstance(error, errors.MemberLost) and [error.rank, error.host]
        text = traceback.format_exc()[-1500:]
        tell(order, rank=rank, error=text, lost=lost, at=time.monotonic())
    finally:
        os._exit(0)


def surroundings(_: Dict[str, Any]) -> ContextManager[None]:
    """What a world needs beside it: nothing. Another one may add to the order."""
    return contextlib.nullcontext()


def keeper() -> None:
    """See the module's comment."""
    for line in sys.stdin:
        order = json.loads(line)
        with surroundings(order):
            print(json.dumps(_run_world(order)), flush=True)


# Returns what the processes reported.
def _run_world(order: Dict[str, Any]) -> List[Dict[str, Any]]:
    read_end, order["pipe"] = os.pipe()
    listener = socket.create_server(("127.0.0.1", 0))
    port, children = listener.getsockname()[1], []
    for rank in range(len(order["sockets"])):
        child = os.fork()
        if child == 0:
            os.close(read_end)
            os.setpgid(0, children[0] if children else 0)
            _child(order, rank, listener, port)
        if not children:
            os.setpgid(child, child)
        children.append(child)
    listener.close()
    os.close(order["pipe"])
    _await_death(order, children)
    with os.fdopen(read_end) as reports:
        return [json.loads(each) for each in reports]


# Waits for the victim, and then kills the others, as a supervisor does, unless
# they are to be told of it; without a victim waits for all.
def _await_death(order, children: List[int]) -> None:
    victim = order["killer"] if order["victim"] == "all" else order["victim"]
    others = [child for rank, child in enumerate(children) if rank != victim]
    if victim is not None:
        # Its id stays its own until all have ended.
        os.waitid(os.P_PID, children[victim], os.WEXITED | os.WNOWAIT)
        late = threading.Timer(_TOLD_SECONDS if order["told"] else 0, _kill_all, [children[0]])
        late.start()
        for child in others:
            os.waitpid(child, 0)
        late.cancel()
        late.join()
        os.waitpid(children[victim], 0)
        return
    for child in others:
        os.waitpid(child, 0)


def _kill_all(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass  # all have ended


class Keeper:
    """The test's side of a keeper process."""

    def __init__(
        self,
        cluster,
        processes: int,
        job_name: str,
        program: Sequence[str] = (sys.executable, __file__),
        told: bool = False,
    ):
        """told: the processes form a world of the server and are sent who died."""
        self._cluster, self._job, self._told = cluster, job_name, told
        self._number = 0
        self._sockets = [cluster.worker_socket(host) for host in cluster.host_names[:processes]]
        self._process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def close(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def world(
        self, phase: str = "", victim=None, killer: int = 0, bug: str = "", reserve: bool = False
    ) -> List[Dict[str, Any]]:
        """Runs a world and returns what its processes reported."""
        self._number += 1
        order = {
            "number": self._number,
            "told": self._told,
            "job": self._job,
            "sockets": self._sockets,
            "server": self._cluster.server_address,
            "phase": phase,
            "victim": victim,
            "killer": killer,
            "bug": bug,
            "reserve": reserve,
        }
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


if __name__ == "__main__":
    keeper()
