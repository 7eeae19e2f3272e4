# SPDX-License-Identifier: Apache-2.0
"""A group whose calls are collective operations of a framework on arrays of bytes."""

import struct
import zlib
from typing import Iterable, List, Optional

import numpy as np

from remesh import errors
from remesh.group import check_devices, check_equal

_HEADER = struct.Struct("<II")  # length of the payload, checksum of the call's name
_CELL = 512  # bytes that every call exchanges: a header, and a payload that fits behind it
_ROOM = _CELL - _HEADER.size


class CellGroup:
    """Every call exchanges one cell with every process; payloads that do not fit into it follow by
    a second operation. Payloads travel as bytes (uint8), so their bits arrive as they are. What is
    gathered goes to all processes, so gather() costs as much memory on each of them as on process
    `to`: it is for payloads of kilobytes.

    A framework's group sets rank and size, and defines the two operations."""

    rank: int
    size: int

    def barrier(self, name: str, deadline: Optional[float] = None) -> None:
        """Group.barrier()."""
        if deadline is not None:
            kind = type(self).__name__
            raise errors.BadArgument(
                f"deadline: value {deadline:g} cannot be set for one call of a {kind}"
            )
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
        if self.size == 1:
            return mine
        return self._broadcast_row(_padded(mine, length), root).tobytes()[:length]

    def check_devices(self, ordered: Iterable[int]) -> None:
        """Group.check_devices()."""
        check_devices(self, ordered)

    def _all_gather_rows(self, row: np.ndarray) -> np.ndarray:
        """The rows (uint8, of equal size) of all processes, by rank. size > 1."""
        raise NotImplementedError

    def _broadcast_row(self, row: np.ndarray, root: int) -> np.ndarray:
        """The row of process `root`. size > 1."""
        raise NotImplementedError

    def _gather(self, name: str, payload: bytes) -> List[bytes]:
        """The payloads of all: within the cells if they fit, else by a second operation."""
        cells = self._meet(name, payload)
        lengths = [_length(cell) for cell in cells]
        if max(lengths) <= _ROOM:
            return [
                cell[_HEADER.size : _HEADER.size + length] for cell, length in zip(cells, lengths)
            ]
        rows = self._rows(_padded(payload, max(lengths)))
        return [row.tobytes()[:length] for row, length in zip(rows, lengths)]

    def _meet(self, name: str, payload: bytes) -> List[bytes]:
        """Exchanges one cell with every process. NameMismatch if some are at another call."""
        header = _HEADER.pack(len(payload), zlib.crc32(name.encode()))
        cells = [row.tobytes() for row in self._rows(_padded(header + payload[:_ROOM], _CELL))]
        sums = [_HEADER.unpack_from(cell)[1] for cell in cells]
        others = [rank for rank, each in enumerate(sums) if each != sums[self.rank]]
        if others:
            ranks = ", ".join(map(str, others))
            raise errors.NameMismatch(f"process {self.rank} is at {name}, {ranks} at another call")
        return cells

    def _rows(self, row: np.ndarray) -> np.ndarray:
        return row[np.newaxis] if self.size == 1 else self._all_gather_rows(row)


def _length(cell: bytes) -> int:
    return _HEADER.unpack_from(cell)[0]


def _padded(data: bytes, count: int) -> np.ndarray:
    """The bytes in an array whose size is a power of two, so that JAX compiles few sizes."""
    row = np.zeros(max(_CELL, 1 << (count - 1).bit_length()), np.uint8)
    row[: len(data)] = np.frombuffer(data, np.uint8)
    return row
