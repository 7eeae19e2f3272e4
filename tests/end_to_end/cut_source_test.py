# SPDX-License-Identifier: Apache-2.0
"""Sealed files are cut, or holes punched into them, at random moments of moves: a move is refused,
or its bytes are right.

A page that was cut off comes back, of zeros, when it is read. `cut_source_test.py --cuts 200` tries
that often; REMESH_BIN_DIR may name older binaries, to see what they do. Prints how each move ended,
by the moment of the cut.
"""

import collections
import contextlib
import ctypes
import os
import random
import sys
import threading
import time
import unittest

import grpc
import numpy as np
from remesh import errors, oracle
from remesh.trainer import ExecutionFailed
from remesh.v1 import plan_pb2, reshard_pb2, sharding_pb2, state_pb2

from harness import Array, ClusterTest, targets, text_sharding

CUTS = 24
SEED = 27
ARRAYS = [Array(f"w{i}", "f32", (512, 2048)) for i in range(6)]
ROWS = text_sharding("{devices=[4,1]<=[4]}", 0, 1, 2, 3)
COLUMNS = text_sharding("{devices=[1,4]<=[4]}", 3, 2, 1, 0)
for sharding in (ROWS, COLUMNS):
    sharding.memory_kind = "pinned_host"  # memory of devices cannot be cut
# Many windows, so that a move takes a while.
OPTIONS = plan_pb2.PlanOptions(window_bytes=64 << 10)
PAGE = 4096
_PUNCH_HOLE = 3  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
PHASES = {number: name for name, number in reshard_pb2.Execution.Phase.items()}
RIGHT, WRONG = "SUCCEEDED, right", "SUCCEEDED, OTHER BYTES"


def _punch(fd: int, offset: int, count: int) -> None:
    if _LIBC.fallocate(fd, _PUNCH_HOLE, offset, count) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


def cut_by_path(path: str, size: int, at: int) -> None:
    """No process has the file open. After the move its name is gone."""
    with contextlib.suppress(FileNotFoundError):
        os.truncate(path, at)
        os.truncate(path, size)


def cut(fd: int, size: int, at: int) -> None:
    os.ftruncate(fd, at)
    os.ftruncate(fd, size)


def punch(fd: int, size: int, at: int) -> None:
    at = at // PAGE * PAGE
    _punch(fd, at, min(size - at, 16 * PAGE))


def punch_all(fd: int, size: int, at: int) -> None:
    del at
    _punch(fd, 0, size)


HOW = {"cut by path": cut_by_path, "cut": cut, "hole": punch, "hole of all": punch_all}


class Phases:
    """The phase that a watch of the execution saw last."""

    def __init__(self, trainer, execution: str):
        self.last = "before it prepares"
        self._stream = trainer.reshards.WatchExecution(
            reshard_pb2.WatchExecutionRequest(name=execution), timeout=60
        )
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def close(self) -> None:
        self._stream.cancel()
        self._thread.join()

    def _watch(self) -> None:
        try:
            for seen in self._stream:
                self.last = PHASES[seen.phase]
        except grpc.RpcError:
            pass


class CutSourceTest(ClusterTest):
    HOSTS = 2
    BUFFER_BYTES = 512 << 20

    def setUp(self):
        self.random = random.Random(SEED)
        self.content = {}  # what the oracle says, by array and box
        self.outcomes = collections.defaultdict(collections.Counter)
        self.again = collections.Counter()

    def test_a_cut_source_is_refused_or_its_bytes_are_right(self):
        seconds = min(self._move_whole(f"whole{i}") for i in range(3))
        for i in range(CUTS):
            self._try(f"cut{i}", 1.2 * seconds)
        self._print(seconds)
        wrong = sum(outcomes[WRONG] for outcomes in self.outcomes.values())
        self.assertEqual(wrong, 0, "moves SUCCEEDED with other bytes")
        self.assertEqual(self.again[WRONG], 0, "repeated moves SUCCEEDED with other bytes")
        refused = sum(outcomes.total() - outcomes[RIGHT] for outcomes in self.outcomes.values())
        self.assertGreater(refused, 0, "no cut fell into a move")

    def test_a_reader_that_opens_a_source_does_not_fail_its_move(self):
        name = self._create("read")
        stop = threading.Event()
        paths = self._paths(name)

        def read():
            while not stop.is_set():
                for path in paths:
                    with contextlib.suppress(FileNotFoundError), open(path, "r+b") as file:
                        file.read(PAGE)

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        try:
            self.move(name, 1, targets(ARRAYS, COLUMNS), OPTIONS)
        finally:
            stop.set()
            for reader in readers:
                reader.join()
        self.assertTrue(self._right(name, 2))
        self._delete(name)

    # ---- steps ----

    def _try(self, name: str, most_seconds: float) -> None:
        """One move of a new state, whose source is cut once."""
        name = self._create(name)
        path, how = self.random.choice(self._paths(name)), self.random.choice(list(HOW))
        size = os.stat(path).st_size
        at = self.random.randrange(size)
        # Every second one soon after the start, where a move prepares.
        delay = self.random.uniform(0, 0.04 if self.random.random() < 0.5 else most_seconds)
        with open(path, "r+b") as file:
            target = path if how == "cut by path" else file.fileno()
            if how == "cut by path":
                file.close()
            started = self.controller.start_reshard(name, 1, targets(ARRAYS, COLUMNS), OPTIONS)
            phases = Phases(self.controller, started.name)
            time.sleep(delay)
            before = phases.last
            HOW[how](target, size, at)
            after = PHASES[self._execution(started.name).phase]
            moment = before if before == after else f"{before} to {after}"
            outcome = self._ending(name, started.name)
            phases.close()
        self.outcomes[moment][outcome] += 1
        if outcome not in (RIGHT, WRONG):
            self._try_again(name)
        self._delete(name)

    def _try_again(self, name: str) -> None:
        """The content is gone: the next move must not SUCCEED with what is left of it."""
        self.wait_until("the state is READY", lambda: self._ready(name))
        started = self.controller.start_reshard(name, 1, targets(ARRAYS, COLUMNS), OPTIONS)
        self.again[self._ending(name, started.name)] += 1

    def _ending(self, name: str, execution: str) -> str:
        try:
            self.controller.wait_execution(execution, timeout_seconds=60)
        except ExecutionFailed as failure:
            self.assertEqual(failure.execution.phase, reshard_pb2.Execution.FAILED, failure)
            return errors.info_of(failure.execution.error).reason
        return RIGHT if self._right(name, 2) else WRONG

    def _move_whole(self, name: str) -> float:
        """How long an undisturbed move takes."""
        name = self._create(name)
        begun = time.monotonic()
        self.move(name, 1, targets(ARRAYS, COLUMNS), OPTIONS)
        seconds = time.monotonic() - begun
        self.assertTrue(self._right(name, 2))
        self._delete(name)
        return seconds

    def _create(self, name: str) -> str:
        """A READY state. Its content is computed once, for all states."""
        name = f"jobs/cuts/states/{name}"
        self.controller.create_state(self.state_of(name, ARRAYS, ROWS))
        for trainer in self.trainers.values():
            for shard in trainer.allocate(name):
                shard.bytes[:] = self._content(shard.info)
            trainer.seal(name)
        self.controller.wait_ready(name, 20)
        return name

    def _content(self, info) -> np.ndarray:
        key = (info.array, tuple(info.box.lo), tuple(info.box.hi))
        if key not in self.content:
            self.content[key] = np.zeros(info.bytes, np.uint8)
            oracle.fill(
                self.content[key],
                info.array,
                info.element_type,
                info.shape,
                info.box.lo,
                info.box.hi,
                0,
            )
        return self.content[key]

    def _right(self, name: str, generation: int) -> bool:
        shards = [
            shard
            for trainer in self.trainers.values()
            for shard in trainer.read(name, generation, 20)
        ]
        return all(np.array_equal(shard.bytes, self._content(shard.info)) for shard in shards)

    def _paths(self, name: str) -> list:
        return sorted(
            {
                shard.info.path
                for trainer in self.trainers.values()
                for shard in trainer.read(name, 1, 20)
            }
        )

    def _execution(self, name: str) -> reshard_pb2.Execution:
        return self.controller.reshards.GetExecution(
            reshard_pb2.GetExecutionRequest(name=name), timeout=20
        )

    def _ready(self, name: str) -> bool:
        state = self.controller.states.GetState(state_pb2.GetStateRequest(name=name), timeout=20)
        return state.phase == state_pb2.State.READY

    def _delete(self, name: str) -> None:
        self.controller.states.DeleteState(state_pb2.DeleteStateRequest(name=name), timeout=20)

    def _print(self, seconds: float) -> None:
        print(
            f"\n{CUTS} cuts and holes, seed {SEED}; an undisturbed move takes {seconds:.2f} s\n| "
            "moment of the cut | moves | ended |\n|---|---|---|"
        )
        for moment, outcomes in sorted(self.outcomes.items()):
            print(f"| {moment} | {outcomes.total()} | {_counts(outcomes)} |")
        print(
            f"| repeated after a failure | {self.again.total()} | {_counts(self.again)} |",
            flush=True,
        )


def _counts(outcomes: collections.Counter) -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))


if __name__ == "__main__":
    if "--cuts" in sys.argv:
        at = sys.argv.index("--cuts")
        CUTS = int(sys.argv[at + 1])
        del sys.argv[at : at + 2]
    unittest.main()
