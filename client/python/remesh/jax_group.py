# SPDX-License-Identifier: Apache-2.0
"""The processes of a multi-process JAX program, by JAX's public multihost_utils."""

from typing import Any, Callable

import numpy as np

from remesh import errors
from remesh.cell_group import CellGroup


class JaxGroup(CellGroup):
    """All processes of jax.distributed: make it after jax.distributed.initialize().

    A call is a collective operation on one device of each process: it takes a few milliseconds, the
    first of each size compiles.

    A process that dies is ended by JAX's own heartbeat: there is no deadline here. When JAX notices
    the death (jax.distributed.initialize's heartbeat_timeout_seconds, 100 s by default) it aborts
    the other processes, or lets the operation fail, which raises MemberLost. Use it in the thread
    that runs JAX's other collective operations, for their order must be the same on all
    processes.

    It has no fence, unlike ServerGroup: JAX's world is not one of the server's, which cannot tell
    that a later one has formed. A process that was stopped, and goes on after the job has started
    again, is refused only what its successors have changed or deleted since."""

    def __init__(self) -> None:
        import jax  # pylint: disable=import-outside-toplevel
        from jax.experimental import multihost_utils  # pylint: disable=import-outside-toplevel

        self.rank: int = jax.process_index()
        self.size: int = jax.process_count()
        self._utils = multihost_utils
        self._jax_error = jax.errors.JaxRuntimeError

    def _all_gather_rows(self, row: np.ndarray) -> np.ndarray:
        return self._collective(self._utils.process_allgather, row)

    def _broadcast_row(self, row: np.ndarray, root: int) -> np.ndarray:
        return self._collective(self._utils.broadcast_one_to_all, row, is_source=self.rank == root)

    def _collective(self, operation: Callable, row: np.ndarray, **arguments: Any) -> np.ndarray:
        try:
            return np.asarray(operation(row, **arguments))
        except self._jax_error as error:
            raise errors.MemberLost(
                f"a collective operation of JAX failed: {str(error).splitlines()[0]}"
            ) from None
