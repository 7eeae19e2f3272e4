# SPDX-License-Identifier: Apache-2.0
"""What a Trainer lent its worker, and until when the memory must be kept."""

import time
import warnings
from typing import Callable, List, Optional, Sequence

from remesh import device_memory, lending
from remesh.v1 import local_pb2

LET_GO_SECONDS = 10.0
LOOK_SECONDS = 0.02


class Loan:
    """What is lent of one state, by a lease where it ends with this process."""

    def __init__(self, worker_socket: str, memories: Sequence):
        self._worker_socket, self._memories, self.generation = worker_socket, memories, 0
        self._lease = (
            lending.Lease(worker_socket) if any(_ipc_of(memory) for memory in memories) else None
        )

    def request(self, state: str) -> local_pb2.LendRequest:
        request = local_pb2.LendRequest(
            state=state, wait=True, lease=self._lease.token if self._lease else ""
        )
        for memory in self._memories:
            ipc = _ipc_of(memory)
            by = (
                {
                    "ipc": local_pb2.IpcAllocation(
                        handle=ipc.handle, bytes=ipc.bytes, offset=ipc.offset
                    )
                }
                if ipc
                else {"token": device_memory.send_handle(self._worker_socket, memory.descriptor)}
            )
            request.memories.add(
                bytes=memory.bytes, kind=memory.kind, device_uuid=memory.device_uuid, **by
            )
        # Memory of the host stays with the worker whatever becomes of it here.
        self._memories = [memory for memory in self._memories if memory.kind != "host"]
        return request

    def held(self, is_lent: Callable[[], bool], give_up: float) -> bool:
        return self.outlives_lease(give_up) if self._lease else is_lent()

    def close(self) -> None:
        if self._lease:
            self._lease.close()

    def lend_is_over(self) -> bool:
        """Whether the Lend call has ended: memory that the worker does not have then, it will not
        have again."""
        return self.generation > 0 or self._lease is None or self._lease.closed()

    def outlives_lease(self, give_up: float) -> bool:
        """Whether the worker still has memory that was lent by the lease, or does not say so by
        `give_up`."""
        patience = min(
            max(give_up - time.monotonic(), LOOK_SECONDS), device_memory.PATIENCE_SECONDS
        )
        try:
            return self._lease is not None and self._lease.held(patience)
        except OSError:  # a worker that does not answer may still have the memory
            return True


# The owner of all loans by a lease, whatever becomes of their trainers: the worker may read their
# memory, which must not be freed or used again until the worker has said that it does not have it.
kept = set()


def _not_let_go(loans: Sequence[Loan], give_up: float) -> List[Loan]:
    """Drops those of the loans that the worker has let go of, and returns the others."""
    others = [loan for loan in loans if loan.outlives_lease(give_up)]
    kept.difference_update(set(loans).difference(others))
    return others


def sweep(but: Sequence[Loan] = ()) -> None:
    """Drops every loan, but these, that the worker has let go of by now. Does not wait for it."""
    _not_let_go(
        [loan for loan in kept.difference(but) if loan.lend_is_over()], give_up=time.monotonic()
    )


def end(loans: Sequence[Loan]) -> None:
    """Ends the leases of the loans, and waits until the worker has let go of their memory."""
    for loan in loans:
        loan.close()
    sweep(but=loans)
    give_up = time.monotonic() + LET_GO_SECONDS
    while (loans := _not_let_go(loans, give_up)) and time.monotonic() <= give_up:
        time.sleep(LOOK_SECONDS)
    if loans:
        warnings.warn(
            f"after {LET_GO_SECONDS:g} s the worker still has memory that this process lent: the "
            "memory is kept; a later lend() or close() frees it once the worker has let go of it",
            RuntimeWarning,
            stacklevel=3,
        )


def _ipc_of(memory) -> Optional[lending.Allocation]:
    return getattr(memory, "ipc", None)
