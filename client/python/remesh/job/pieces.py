# SPDX-License-Identifier: Apache-2.0
"""What a process writes into the shards of its host, and reads out of them: boxes that may be parts
of a shard."""

import collections
import dataclasses
import math
from typing import Any, Callable, Dict, Iterable, List, Sequence, Tuple

import numpy as np

from remesh import buffers, elements, storage
from remesh.buffers import Shard
from remesh.v1 import local_pb2

Interval = Tuple[Tuple[int, ...], Tuple[int, ...]]  # lo, hi


@dataclasses.dataclass(frozen=True)
class Piece:
    """An array and what of it this process holds: each distinct box once. content() returns a box's
    elements in row-major order, or packed bytes for types below a byte; it is called only for boxes
    that this process is to write.
    """

    array: storage.Array
    boxes: Sequence[Interval]
    content: Callable[[Interval], np.ndarray]


class Shards:
    """The shards of a host, by array."""

    def __init__(self, shards: Iterable[Shard]):
        self._by_array: Dict[str, List[Shard]] = collections.defaultdict(list)
        for shard in shards:
            self._by_array[shard.info.array].append(shard)

    def of(self, array: str) -> List[Shard]:
        """Those of one array."""
        return self._by_array.get(array, [])

    def with_box(self, array: str, box: Interval) -> List[Shard]:
        """Those that the box is in."""
        return [shard for shard in self.of(array) if _inside(box, _interval(shard))]


def write(
    shards: Shards, pieces: Sequence[Piece], writes_here: Callable[[storage.Array, Interval], bool]
) -> int:
    """Writes the pieces that this process is to write (`writes_here`) into the shards, and returns
    the number of bytes."""
    jobs: List[Tuple[Shard, Any]] = []
    count = 0
    for piece in pieces:
        for box in piece.boxes:
            found = shards.with_box(piece.array.name, box)
            if not found or not writes_here(piece.array, box):
                continue
            content = piece.content(box)
            for shard in found:
                count += _write_one(shard, box, content, jobs)
    return count + buffers.write(jobs)


# Adds to the jobs, or stores a part that is no range of the shard's bytes.
# Returns the bytes stored.
def _write_one(
    shard: Shard, box: Interval, content: np.ndarray, jobs: List[Tuple[Shard, Any]]
) -> int:
    part = _range_of(shard, box)
    if part is not None:
        jobs.append((part, content))
        return 0
    values = shard.values()
    plain = np.ascontiguousarray(content).reshape(-1).view(np.uint8).view(values.dtype)
    values[_slices(shard, box)] = plain.reshape(_extents(box))
    return plain.nbytes


def read(shard: Shard, box: Interval) -> np.ndarray:
    """The bytes of a box of the shard, row-major: a view where they are one range, else a copy."""
    part = _range_of(shard, box)
    if part is not None:
        return part.bytes
    return np.ascontiguousarray(shard.values()[_slices(shard, box)]).reshape(-1).view(np.uint8)


# The shard's part as a shard, if its bytes are one range.
def _range_of(shard: Shard, box: Interval):
    lo, hi = _interval(shard)
    if box == (lo, hi):
        return shard
    extents, inner = [b - a for a, b in zip(lo, hi)], _extents(box)
    cut = next(i for i, (whole, part) in enumerate(zip(extents, inner)) if whole != part)
    if any(extent != 1 for extent in inner[:cut]) or inner[cut + 1 :] != extents[cut + 1 :]:
        return None
    if elements.bit_width(shard.info.element_type) < 8:
        return None
    width = elements.bit_width(shard.info.element_type) // 8
    strides = [width * math.prod(extents[i + 1 :]) for i in range(len(extents))]
    info = local_pb2.Shard()
    info.CopyFrom(shard.info)
    info.offset += sum(stride * (a - b) for stride, a, b in zip(strides, box[0], lo))
    info.bytes = width * math.prod(inner)
    info.box.lo[:], info.box.hi[:] = box
    return dataclasses.replace(shard, info=info)


def _interval(shard: Shard) -> Interval:
    return tuple(shard.info.box.lo), tuple(shard.info.box.hi)


def _extents(box: Interval) -> List[int]:
    return [hi - lo for lo, hi in zip(*box)]


def _inside(inner: Interval, outer: Interval) -> bool:
    return all(map(int.__le__, outer[0], inner[0])) and all(map(int.__le__, inner[1], outer[1]))


def _slices(shard: Shard, box: Interval) -> Tuple[slice, ...]:
    first = shard.info.box.lo
    return tuple(slice(lo - origin, hi - origin) for origin, lo, hi in zip(first, *box))
