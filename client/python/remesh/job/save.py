# SPDX-License-Identifier: Apache-2.0
"""A save as the caller sees it, and how long its phases took."""

import concurrent.futures
import time
from typing import Dict, Optional


class Save:
    """A save. staged: its sources may be written again. committed: it is whole and will be
    restored. Both are futures of None or the error. seconds: by phase."""

    def __init__(self, step: int):
        self.step = step
        self.name = ""
        self.staged: "concurrent.futures.Future[None]" = concurrent.futures.Future()
        self.committed: "concurrent.futures.Future[None]" = concurrent.futures.Future()
        self.seconds: Dict[str, float] = {}

    def wait(self, timeout: Optional[float] = None) -> "Save":
        """Until it is committed. Raises its error; TimeoutError."""
        self.committed.result(timeout)
        return self

    def __repr__(self) -> str:
        state = (
            "committed" if self.committed.done() else "staged" if self.staged.done() else "begun"
        )
        return f"<Save {self.name} step {self.step} {state}>"


class Stopwatch:
    """Seconds by phase, as they go by."""

    def __init__(self, seconds: Dict[str, float]):
        self._seconds, self._last = seconds, time.perf_counter()

    def lap(self, phase: str) -> None:
        """Ends a phase."""
        now = time.perf_counter()
        self._seconds[phase] = now - self._last
        self._last = now

    def text(self) -> str:
        """ "begin 0.01 s, allocate 0.2 s"."""
        return ", ".join(f"{phase} {seconds:.3f} s" for phase, seconds in self._seconds.items())
