# SPDX-License-Identifier: Apache-2.0
"""What the processes of scripts/bench restart share: they obey one JSON command a line.

A side is a module side_jax.py or side_torch.py beside this file with a class Side(Processes).
"""

import abc
import json
import sys
import threading
import time
import traceback
from typing import Any, Callable, Dict

import numpy as np

PAGE = 4096
ROWS = 12288  # can be cut for 2, 3 and 4 processes
ARRAYS = 16


def columns(mib: int) -> int:
    """Of ARRAYS f32 arrays of ROWS rows that are `mib` MiB together, or a little more."""
    return -(-mib * (1 << 20) // (4 * ROWS * ARRAYS))


class Way(abc.ABC):
    """One way to save and restore the state of a world."""

    def prepare(self) -> None:
        """Waits for what happens in the background before the next save."""

    @abc.abstractmethod
    def save(self, state: Any, step: int) -> Callable[[], Dict[str, float]]:
        """Returns when the state may be written again. The result waits until the save is whole,
        and returns seconds by phase."""

    @abc.abstractmethod
    def restore(self, step: int) -> Dict[str, float]:
        """Restores what this process wants into self.restored, as NumPy arrays. Returns seconds by
        phase."""

    def forget(self) -> None:
        """Lets go of what was restored."""
        self.restored = []

    @abc.abstractmethod
    def close(self) -> None:
        """Ends it. What was saved stays."""


def join_commits() -> None:
    """Until remesh has done what a save does in the background, reserving memory included."""
    for thread in threading.enumerate():
        if thread.name == "remesh-commit":
            thread.join()


class Processes(abc.ABC):
    """One process of a world. Its public methods are the commands."""

    def __init__(self, order: Dict[str, Any], rank: int):
        self.order, self.rank = order, rank
        self.ways: Dict[str, Way] = {}
        self.state: Any = None
        self._floor = None

    @abc.abstractmethod
    def barrier(self) -> None:
        """Returns when all processes are here."""

    @abc.abstractmethod
    def make_way(self, way: str) -> Way:
        """A new one of this name."""

    @abc.abstractmethod
    def local_arrays(self) -> list:
        """What this process holds of the state, as NumPy arrays."""

    def open(self, way: str) -> Dict:
        self.ways[way] = self.make_way(way)
        return {}

    def close(self, way: str) -> Dict:
        self.ways.pop(way).close()
        return {}

    def memcpy(self) -> Dict:
        """Into memory that is there."""
        sources = self.local_arrays()
        if self._floor is None:
            self._floor = [np.zeros_like(array) for array in sources]
        self.barrier()
        begin = time.perf_counter()
        for target, source in zip(self._floor, sources):
            np.copyto(target, source)
        return {"seconds": time.perf_counter() - begin}

    def save(self, way: str, step: int) -> Dict:
        used = self.ways[way]
        self.barrier()
        begin, processor = time.perf_counter(), time.process_time()
        wait = used.save(self.state, step)
        blocks = time.perf_counter() - begin
        phases = wait()
        return {
            "blocks": blocks,
            "committed": time.perf_counter() - begin,
            "processor": time.process_time() - processor,
            "phases": phases,
        }

    def prepare(self, way: str) -> Dict:
        """What happens in the background before the next save."""
        processor = time.process_time()
        self.ways[way].prepare()
        return {"processor": time.process_time() - processor}

    def restore(self, way: str, step: int) -> Dict:
        """touched: when each page of what was restored has been read once, too."""
        used = self.ways[way]
        self.barrier()
        begin, processor = time.perf_counter(), time.process_time()
        phases = used.restore(step)
        seconds = time.perf_counter() - begin
        for array in used.restored:
            array.reshape(-1).view(np.uint8)[::PAGE].max()
        touched = time.perf_counter() - begin
        spent = time.process_time() - processor
        digest = float(
            sum(array.reshape(-1)[:: len(array.reshape(-1)) // 7].sum() for array in used.restored)
        )
        used.forget()
        return {
            "seconds": seconds,
            "touched": touched,
            "processor": spent,
            "phases": phases,
            "digest": digest,
        }


def serve(side) -> None:
    """Obeys standard input until it ends."""
    process = side(json.loads(sys.argv[1]), int(sys.argv[2]))
    _answer({})
    for line in sys.stdin:
        command = json.loads(line)
        try:
            _answer(getattr(process, command.pop("do"))(**command))
        except Exception:  # pylint: disable=broad-exception-caught
            _answer({"error": traceback.format_exc()})


def _answer(fields: Dict) -> None:
    print("answer " + json.dumps(fields), flush=True)
