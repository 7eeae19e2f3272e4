# SPDX-License-Identifier: Apache-2.0
"""Worlds of real processes that kill themselves while they save: job_kills_test.py and the nightly
run use it.

A *keeper* process has imported everything and forks the processes of each world, which take a
second otherwise. It reads one order a line (JSON) and answers with one line: what every process
reported.

Each world restores, checks every element against the step, saves step + 1, and dies in the save of
step + 2.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from typing import Any, Dict, List, Sequence

import numpy as np

import remesh
from remesh import job, storage
from remesh.job import pieces, reserving, restoring, saving, worlds
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


def die_at(phase: str, everyone: bool) -> None:
    """Arms the death of this process, or of its whole world."""
    owner, name, when = {**PHASES, **RESERVE_PHASES}[phase]
    function = getattr(owner, name)

    def dies(*arguments, **named):
        if when == "after":
            function(*arguments, **named)  # nobody will use what it returns
        if everyone:
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
        commit = saving.Saver._seal

        def early(self, save, *rest):
            if self._group.rank == 0:
                self._delete_older(save.name)
            commit(self, save, *rest)

        saving.Saver._seal = early
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


def dies(order: Dict[str, Any], rank: int) -> bool:
    """Whether this process is the one that dies first."""
    return order["victim"] == rank or (order["victim"] == "all" and rank == order["killer"])


def await_reserved(core: job.Core) -> None:
    """Waits until the next save's memory is reserved here."""
    present = core._saver._reservations._present
    if present:
        present._ended.wait(20.0)


def run(order: Dict[str, Any], rank: int, group: SocketGroup) -> Dict[str, Any]:
    """One process of a world."""
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
    found = core.restore_arrays(arrays_of(group.size))
    step = found.step if found else 0
    if found:
        check(found, rank, group.size)
    extra = {"rank": rank}
    report = {"restored": step if found else None, "saved": step + 1}
    if order["victim"] is not None:
        os.write(order["pipe"], json.dumps({"rank": rank, **report}).encode() + b"\n")
    early = order["phase"] in RESERVE_PHASES
    if early and dies(order, rank):
        die_at(order["phase"], order["victim"] == "all")
    core.save_pieces(
        pieces_of(step + 1, rank, group.size),
        step + 1,
        extra={**extra, "step": step + 1},
        block=True,
    )
    # block: process 0 has deleted the older save, so that only what follows is killed.
    if order["victim"] is None:
        core.close()
        return report
    await_reserved(core)
    group.barrier("reserved")
    if not early and dies(order, rank):
        die_at(order["phase"], order["victim"] == "all")
    core.save_pieces(
        pieces_of(step + 2, rank, group.size),
        step + 2,
        extra={**extra, "step": step + 2},
        block=True,
    )
    return {**report, "saved": step + 2}


def _child(order, rank, listener, port) -> None:
    try:
        report = run(order, rank, SocketGroup(rank, len(order["sockets"]), listener, port))
        os.write(
            order["pipe"], json.dumps({"rank": rank, "ended": True, **report}).encode() + b"\n"
        )
    except BaseException:  # pylint: disable=broad-except
        os.write(
            order["pipe"],
            json.dumps({"rank": rank, "error": traceback.format_exc()[-1500:]}).encode() + b"\n",
        )
    finally:
        os._exit(0)


def keeper() -> None:
    """See the module's comment."""
    for line in sys.stdin:
        order = json.loads(line)
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
            print(json.dumps([json.loads(each) for each in reports]), flush=True)


# Waits for the victim, and then kills the others, as a supervisor does; without
# a victim waits for all.
def _await_death(order, children: List[int]) -> None:
    victim = order["killer"] if order["victim"] == "all" else order["victim"]
    if victim is not None:
        os.waitpid(children[victim], 0)
        os.killpg(children[0], signal.SIGKILL)
    for rank, child in enumerate(children):
        if rank != victim:
            os.waitpid(child, 0)


class Keeper:
    """The test's side of a keeper process."""

    def __init__(
        self,
        cluster,
        processes: int,
        job_name: str,
        program: Sequence[str] = (sys.executable, __file__),
    ):
        self._cluster, self._job = cluster, job_name
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
        order = {
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
