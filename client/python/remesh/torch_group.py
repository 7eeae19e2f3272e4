# SPDX-License-Identifier: Apache-2.0
"""The processes of torch.distributed, by a gloo group of their own."""

import datetime
import time
from typing import Any, Callable, Optional

import numpy as np

from remesh import errors
from remesh.cell_group import CellGroup

_DEADLINE_SECONDS = 900.0


class TorchGroup(CellGroup):
    """All processes of torch.distributed: make it after init_process_group(), on all of them. Its
    operations run on the CPU over its own gloo connections, beside those of NCCL or of the default
    group. Each group belongs to one thread: make another one for another thread.

    What it sees of a process that dies: the kernel closes its connections, and the others raise
    MemberLost at once. What it cannot see: a process that is stopped or stuck, or a machine that
    vanishes with its connections open. Then the call raises BarrierTimeout at the deadline; which
    process is absent gloo does not say. After either error the group is broken, and every later
    call raises the same.

    It has no fence, unlike ServerGroup: torch's world is not one of the server's, which cannot tell
    that a later one has formed. A process that was stopped, and goes on after the job has started
    again, is refused only what its successors have changed or deleted since."""

    def __init__(self, deadline: float = _DEADLINE_SECONDS) -> None:
        """deadline: seconds that a call waits for the others. More than a restore's move and
        patience together, for which all wait on process 0."""
        import torch  # pylint: disable=import-outside-toplevel
        import torch.distributed as dist  # pylint: disable=import-outside-toplevel

        self.rank: int = dist.get_rank()
        self.size: int = dist.get_world_size()
        self._torch, self._dist, self._deadline = torch, dist, deadline
        self._broken: Optional[errors.RemeshError] = None
        timeout = datetime.timedelta(seconds=deadline)
        self._group = dist.new_group(backend="gloo", timeout=timeout) if self.size > 1 else None

    def close(self) -> None:
        """Closes the connections: others who still wait for this process raise MemberLost. May be
        called twice, and after destroy_process_group()."""
        group, self._group = self._group, None
        self._broken = self._broken or errors.Closed("the group is closed")
        if group is not None and self._dist.is_initialized():
            self._dist.destroy_process_group(group)

    def _all_gather_rows(self, row: np.ndarray) -> np.ndarray:
        rows = self._torch.empty(self.size * len(row), dtype=self._torch.uint8)
        mine = self._torch.from_numpy(row)
        self._collective(self._dist.all_gather_into_tensor, rows, mine)
        return rows.numpy().reshape(self.size, len(row))

    def _broadcast_row(self, row: np.ndarray, root: int) -> np.ndarray:
        self._collective(self._dist.broadcast, self._torch.from_numpy(row), root)
        return row

    def _collective(self, operation: Callable, *arguments: Any) -> None:
        if self._broken:
            raise self._broken
        begun = time.monotonic()
        try:
            operation(*arguments, group=self._group)
        except RuntimeError as error:
            waited = time.monotonic() - begun
            self._broken = self._lost(waited, str(error).split(". ")[0])  # advice follows
            raise self._broken from None

    # What a failed operation was: gloo has no types for it, but a time-out takes
    # as long as the deadline.
    def _lost(self, waited: float, why: str) -> errors.RemeshError:
        if waited >= self._deadline:
            return errors.BarrierTimeout(
                f"waited {self._deadline:g} s for the other processes: {why}"
            )
        return errors.MemberLost(f"a collective operation of torch failed: {why}")
