# SPDX-License-Identifier: Apache-2.0
"""A move of a state that runs on the server."""

import contextlib
import dataclasses
from typing import Callable, Optional, Tuple

from remesh import errors
from remesh.calls import Caller
from remesh.v1 import reshard_pb2

SUCCEEDED = reshard_pb2.Execution.SUCCEEDED
ENDED = (SUCCEEDED, reshard_pb2.Execution.FAILED, reshard_pb2.Execution.CANCELLED)


@dataclasses.dataclass(frozen=True)
class Moved:
    """A move that succeeded."""

    execution: reshard_pb2.Execution

    @property
    def generation(self) -> int:
        """The state's generation now: the former one if the state was laid out like this before, as
        nothing moved then."""
        return self.execution.target_generation

    @property
    def lost_devices(self) -> Tuple[int, ...]:
        """Devices of which the move asked nothing."""
        return tuple(self.execution.lost_device_ids)

    @property
    def crossing_bytes(self) -> int:
        """Bytes that went from host to host."""
        return self.execution.summary.crossing_bytes

    @property
    def seconds(self) -> float:
        """From the request to the end."""
        nanoseconds = (
            self.execution.end_time.ToNanoseconds() - self.execution.create_time.ToNanoseconds()
        )
        return max(nanoseconds / 1e9, 0.0)


class Move:
    """An execution. Thread-safe; of no use after a fork(). The server runs it to its end, whether
    anyone waits or not."""

    def __init__(self, caller: Caller, reshards: Callable, execution: reshard_pb2.Execution):
        """reshards: returns the stub of the ReshardService."""
        self._caller, self._reshards, self._started = caller, reshards, execution

    @property
    def name(self) -> str:
        """jobs/{job}/executions/{id}."""
        return self._started.name

    def wait(
        self,
        timeout: float = 300.0,
        progress: Optional[Callable[[reshard_pb2.Execution], None]] = None,
    ) -> Moved:
        """Waits for the end, even across a restart of the server. progress: called in this thread
        after every change. MoveFailed, TimedOut (the move goes on), ServerAway."""
        if self._started.phase == SUCCEEDED:  # nothing to move
            return Moved(self._started)
        request = reshard_pb2.WatchExecutionRequest(name=self.name)
        with contextlib.closing(
            self._caller.watch(
                lambda: self._reshards().WatchExecution, request, timeout, f"{self.name} ended"
            )
        ) as stream:
            for execution in stream:
                if progress:
                    progress(execution)
                if execution.phase == SUCCEEDED:
                    return Moved(execution)
                if execution.phase in ENDED:
                    raise failure_of(execution)
        raise AssertionError("a watch ends by an error only")

    def cancel(self) -> None:
        """Asks the server to end the move. RemeshError once it is COMMITTING or has ended."""
        self._caller.call(
            lambda: self._reshards().CancelExecution,
            reshard_pb2.CancelExecutionRequest(name=self.name),
        )


def failure_of(execution: reshard_pb2.Execution) -> errors.RemeshError:
    """The error that says why an execution ended."""
    error = errors.from_status(execution.error, errors.MoveFailed, execution=execution)
    phase = reshard_pb2.Execution.Phase.Name(execution.phase)
    error.message = f"{execution.name} ended in {phase}: {error.message}"
    error.metadata["execution"] = execution.name
    return error
