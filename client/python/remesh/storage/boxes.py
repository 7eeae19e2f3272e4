# SPDX-License-Identifier: Apache-2.0
"""Arrays, and the distinct boxes in which processes hold them."""

import dataclasses
import math
from typing import Optional, Sequence, Tuple

import numpy as np

from remesh import elements


@dataclasses.dataclass(frozen=True)
class Host:
    """A host of the job: its worker's device ids in the worker's order."""

    name: str
    devices: Tuple[int, ...]
    has_gpus: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class Holders:
    """Which process holds which box of an array: process processes[k] holds [lo[k], hi[k]).

    Arrays of one shape and sharding should share one object: it is looked at once."""

    shape: Tuple[int, ...]
    processes: np.ndarray  # int64 [entries]
    lo: np.ndarray  # int64 [entries, dimensions]
    hi: np.ndarray

    @staticmethod
    def of(
        shape: Sequence[int], entries: Sequence[Tuple[int, Sequence[int], Sequence[int]]]
    ) -> "Holders":
        """From (process, lo, hi) of each entry."""
        processes = np.array([entry[0] for entry in entries], np.int64)
        lo = np.array([entry[1] for entry in entries], np.int64).reshape(len(entries), len(shape))
        hi = np.array([entry[2] for entry in entries], np.int64).reshape(len(entries), len(shape))
        return Holders(tuple(shape), processes, lo, hi)

    @staticmethod
    def everywhere(shape: Sequence[int], processes: int) -> "Holders":
        """Every process holds the whole array."""
        lo = np.zeros((processes, len(shape)), np.int64)
        return Holders(tuple(shape), np.arange(processes), lo, lo + np.array(shape, np.int64))


@dataclasses.dataclass(frozen=True)
class Array:
    """An array of the job. element_type: XLA's lower-case name."""

    name: str
    element_type: str
    holders: Holders

    @property
    def shape(self) -> Tuple[int, ...]:
        return self.holders.shape

    @property
    def packed(self) -> bool:
        """Elements smaller than a byte: their boxes cannot be cut or joined in memory."""
        return elements.bit_width(self.element_type) < 8


@dataclasses.dataclass(frozen=True, eq=False)
class Distinct:
    """The distinct boxes of a Holders, in lexicographic order, and the hosts that hold each."""

    lo: np.ndarray  # int64 [boxes, dimensions]
    hi: np.ndarray
    pairs: np.ndarray  # int64 [held, 2]: (box, host), sorted, each once
    grid: Optional[Tuple[int, ...]]  # tiles a dimension if the boxes are XLA's tiles of a grid

    @property
    def volumes(self) -> np.ndarray:
        return np.prod(self.hi - self.lo, axis=1, dtype=np.int64)

    def key(self, packed: bool) -> Tuple:
        """Equal for shardings that are equal but for the extents of the array."""
        boxes = (self.grid,) if self.grid is not None else (self.lo.tobytes(), self.hi.tobytes())
        return (packed, self.lo.shape, self.pairs.tobytes(), *boxes)


def distinct(holders: Holders, host_of: np.ndarray) -> Distinct:
    """host_of: host of each process."""
    full = np.all(holders.hi > holders.lo, axis=1)
    dimensions = len(holders.shape)
    entries = np.concatenate([holders.lo[full], holders.hi[full]], axis=1)
    if dimensions == 0:
        boxes, box_of = np.zeros((1, 0), np.int64), np.zeros(len(entries), np.int64)
    else:
        boxes, box_of = np.unique(entries, axis=0, return_inverse=True)
    pairs = np.unique(
        np.stack([box_of.reshape(-1), host_of[holders.processes[full]]], axis=1), axis=0
    )
    lo, hi = boxes[:, :dimensions], boxes[:, dimensions:]
    return Distinct(lo, hi, pairs, grid_of(holders.shape, lo, hi))


def grid_of(shape: Sequence[int], lo: np.ndarray, hi: np.ndarray) -> Optional[Tuple[int, ...]]:
    """The grid whose tiles, cut as XLA cuts them, are exactly these boxes in lexicographic
    order."""
    grid = []
    for dimension, extent in enumerate(shape):
        starts = np.unique(lo[:, dimension])
        tile = -(-extent // len(starts))
        if not np.array_equal(starts, np.arange(len(starts)) * tile):
            return None
        if not np.array_equal(hi[:, dimension], np.minimum(lo[:, dimension] + tile, extent)):
            return None
        grid.append(len(starts))
    return tuple(grid) if math.prod(grid) == len(lo) else None


def is_one_box(lo: np.ndarray, hi: np.ndarray) -> bool:
    """Whether these disjoint boxes join to one."""
    whole = np.prod(hi.max(axis=0) - lo.min(axis=0), dtype=np.int64)
    return bool(whole == np.prod(hi - lo, axis=1, dtype=np.int64).sum())
