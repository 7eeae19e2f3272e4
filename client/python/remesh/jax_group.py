# SPDX-License-Identifier: Apache-2.0
"""The processes of a multi-process JAX program, by JAX's public multihost_utils."""

import struct
import zlib
from typing import Any, Callable, List, Optional

import numpy as np

from remesh import errors
from remesh.group import check_equal

_HEADER = struct.Struct("<II")  # length of the payload, checksum of the call's name
_CELL = 512  # bytes that every call exchanges: a header, and a payload that fits behind it
_ROOM = _CELL - _HEADER.size


class JaxGroup:
    """All processes of jax.distributed: make it after jax.distributed.initialize().

    A call is a collective operation on one device of each process: it takes a few milliseconds, the
    first of each size compiles. Payloads travel as bytes (uint8), so their bits arrive as they are.
    JAX gathers to all processes, so gather() costs as much memory on each of them as on process
    `to`: it is for payloads of kilobytes.

    A process that dies is ended by JAX's own heartbeat: there is no deadline here. When JAX notices
    the death (jax.distributed.initialize's heartbeat_timeout_seconds, 100 s by default) it aborts
    the other processes, or lets the operation fail, which raises MemberLost. Use it in the thread
    that runs JAX's other collective operations, for their order must be the same on all
    processes."""

    def __init__(self) -> None:
        import jax  # pylint: disable=import-outside-toplevel
        from jax.experimental import multihost_utils  # pylint: disable=import-outside-toplevel

        self.rank: int = jax.process_index()
        self.size: int = jax.process_count()
        self._utils = multihost_utils
        self._jax_error = jax.errors.JaxRuntimeError

    def barrier(self, name: str) -> None:
        """Group.barrier()."""
        self._meet(f"barrier {name}", b"")

    def agree(self, name: str, value: bytes) -> None:
        """Group.agree()."""
        check_equal(self._gather(f"agree {name}", value), name)

    def gather(self, name: str, payload: bytes, to: int = 0) -> Optional[List[bytes]]:
        """Group.gather()."""
        payloads = self._gather(f"gather {name}", payload)
        return payloads if self.rank == to else None

    def broadcast(self, name: str, payload: bytes, root: int = 0) -> bytes:
        """Group.broadcast()."""
        mine = payload if self.rank == root else b""
        cells = self._meet(f"broadcast {name}", mine)
        length = _length(cells[root])
        if length <= _ROOM:
            return cells[root][_HEADER.size : _HEADER.size + length]
        sent = self._collective(
            self._utils.broadcast_one_to_all, _padded(mine, length), is_source=self.rank == root
        )
        return sent.tobytes()[:length]

    def _gather(self, name: str, payload: bytes) -> List[bytes]:
        """The payloads of all: within the cells if they fit, else by a second operation."""
        cells = self._meet(name, payload)
        lengths = [_length(cell) for cell in cells]
        if max(lengths) <= _ROOM:
            return [
                cell[_HEADER.size : _HEADER.size + length] for cell, length in zip(cells, lengths)
            ]
        rows = self._all_gather(_padded(payload, max(lengths)))
        return [row.tobytes()[:length] for row, length in zip(rows, lengths)]

    def _meet(self, name: str, payload: bytes) -> List[bytes]:
        """Exchanges one cell with every process. NameMismatch if some are at another call."""
        header = _HEADER.pack(len(payload), zlib.crc32(name.encode()))
        cells = [
            row.tobytes() for row in self._all_gather(_padded(header + payload[:_ROOM], _CELL))
        ]
        sums = [_HEADER.unpack_from(cell)[1] for cell in cells]
        others = [rank for rank, each in enumerate(sums) if each != sums[self.rank]]
        if others:
            ranks = ", ".join(map(str, others))
            raise errors.NameMismatch(f"process {self.rank} is at {name}, {ranks} at another call")
        return cells

    def _all_gather(self, row: np.ndarray) -> np.ndarray:
        if self.size == 1:
            return row[np.newaxis]
        return self._collective(self._utils.process_allgather, row)

    def _collective(self, operation: Callable, row: np.ndarray, **arguments: Any) -> np.ndarray:
        if self.size == 1:
            return row
        try:
            return np.asarray(operation(row, **arguments))
        except self._jax_error as error:
            raise errors.MemberLost(
                f"a collective operation of JAX failed: {str(error).splitlines()[0]}"
            ) from None


def _length(cell: bytes) -> int:
    return _HEADER.unpack_from(cell)[0]


def _padded(data: bytes, count: int) -> np.ndarray:
    """The bytes in an array whose size is a power of two, so that few sizes are compiled."""
    row = np.zeros(max(_CELL, 1 << (count - 1).bit_length()), np.uint8)
    row[: len(data)] = np.frombuffer(data, np.uint8)
    return row
