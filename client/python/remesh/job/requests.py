# SPDX-License-Identifier: Apache-2.0
"""What the processes tell each other in a save's first exchange, and what process 0 answers."""

import dataclasses
import hashlib
import json
import struct
from typing import Dict, Mapping, Sequence, Tuple

import numpy as np

from remesh import errors, storage
from remesh.job.errors import StructureMismatch
from remesh.job.worlds import OWN_LABELS, WORLD_SIZE

_REQUEST = struct.Struct("<qI32sB")  # of Request, the last: bytes of `reserved`


@dataclasses.dataclass(frozen=True)
class Order:
    """What process 0 decided on a save."""

    name: str
    uid: str
    capacity: int
    rows: Tuple[bytes, ...]  # extras of all processes, if others than their own store them
    next_step: int  # when should_save() says yes again
    next_name: str = ""  # of the save whose memory is to be reserved after this one

    def to_bytes(self) -> bytes:
        """For of(). The rows follow the rest."""
        head = json.dumps(
            [
                self.name,
                self.uid,
                self.capacity,
                [len(row) for row in self.rows],
                self.next_step,
                self.next_name,
            ]
        ).encode()
        return len(head).to_bytes(4, "little") + head + b"".join(self.rows)

    @staticmethod
    def of(data: bytes) -> "Order":
        """See to_bytes()."""
        end = 4 + int.from_bytes(data[:4], "little")
        name, uid, capacity, sizes, next_step, next_name = json.loads(data[4:end])
        rows = []
        for size in sizes:
            rows.append(data[end : end + size])
            end += size
        return Order(name, uid, capacity, tuple(rows), next_step, next_name)


@dataclasses.dataclass(frozen=True)
class Request:
    """What each process says in the first exchange."""

    step: int
    extra_bytes: int
    structure: bytes  # its digest
    reserved: bytes  # Reservations.report()
    row: bytes  # its extra, if others store it, too

    def to_bytes(self) -> bytes:
        """For of()."""
        head = _REQUEST.pack(self.step, self.extra_bytes, self.structure, len(self.reserved))
        return head + self.reserved + self.row

    @staticmethod
    def of(data: bytes) -> "Request":
        """See to_bytes()."""
        *fields, count = _REQUEST.unpack_from(data)
        end = _REQUEST.size + count
        return Request(*fields, data[_REQUEST.size : end], data[end:])


def structure_digest(arrays: Sequence[storage.Array]) -> bytes:
    """Of names, types, shapes and who holds what: equal on all processes."""
    found: Dict[storage.Holders, bytes] = {}
    whole = hashlib.sha256()
    for array in arrays:
        holders = array.holders
        if holders not in found:
            parts = (
                np.asarray(part, np.int64).tobytes()
                for part in (holders.shape, holders.processes, holders.lo, holders.hi)
            )
            found[holders] = hashlib.sha256(b"".join(parts)).digest()
        whole.update(f"{array.name}\0{array.element_type}\0".encode() + found[holders])
    return whole.digest()


def check_equal(requests: Sequence[Request]) -> None:
    """Raises StructureMismatch, which names the first process that differs from process 0."""
    for process, request in enumerate(requests):
        if request.step != requests[0].step:
            raise StructureMismatch(
                f"step: process {process} saves step {request.step}, "
                f"process 0 step {requests[0].step}",
                process=process,
            )
        if request.structure != requests[0].structure:
            raise StructureMismatch(
                f"tree: process {process} has other names, shapes, types or shardings than "
                "process 0",
                process=process,
            )


def check_labels(labels: Mapping[str, str]) -> None:
    """Raises BadArgument for a label that only the package may set."""
    for name in labels:
        if name.startswith(OWN_LABELS) or name == WORLD_SIZE:
            raise errors.BadArgument(
                f"labels: value {name!r} must not begin with {OWN_LABELS!r}, nor be {WORLD_SIZE!r}"
            )
