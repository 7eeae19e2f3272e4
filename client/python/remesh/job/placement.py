# SPDX-License-Identifier: Apache-2.0
"""Where the boxes of a save lie: on which hosts, and which process of a host writes them."""

import logging
from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np

from remesh import storage
from remesh.job import extras
from remesh.job.members import Members
from remesh.job.pieces import Interval, Piece
from remesh.job.requests import Order

_LOG = logging.getLogger("remesh")
_WRITERS_MAX = 1 << 20
LayoutKey = Tuple[bytes, int, bool]  # digest of the structure, capacity of the extras, shared


class Placement:
    """Of the saves of one process, which mostly have one structure: what was found for the last
    save is kept. For the caller's thread."""

    def __init__(self, job: str, rank: int, members: Members, replicas: Optional[int]):
        """replicas: see Core. None: 2 where two hosts hold a box anyway."""
        self._job, self._rank, self._members = job, rank, members
        self._replicas = replicas
        self._writers: Dict[Tuple[storage.Holders, Interval], bool] = {}
        self._layouts: Dict[LayoutKey, storage.Layout] = {}
        self._doubled: Dict[storage.Holders, bool] = {}  # whether two hosts hold each box
        self._warned = False

    def shares_extras(self, saved: Sequence[Piece]) -> bool:
        """Whether a second host keeps a copy of each extra."""
        if len(self._members.hosts) == 1 or self._replicas == 1:
            return False
        if self._replicas:
            return True
        return all(map(self._on_two_hosts, {piece.array.holders for piece in saved}))

    def _on_two_hosts(self, holders: storage.Holders) -> bool:
        if holders not in self._doubled:
            found = storage.boxes.distinct(holders, np.asarray(self._members.host_of))
            self._doubled[holders] = bool(np.bincount(found.pairs[:, 0]).min() > 1)
        return self._doubled[holders]

    def layout(self, saved: Sequence[Piece], key: LayoutKey) -> storage.Layout:
        """Of a save with this key."""
        if key not in self._layouts:
            arrays = [piece.array for piece in saved] + [self._extra_array(*key[1:])]
            layout = storage.stored(
                arrays, self._members.hosts, self._members.host_of, self._replicas
            )
            self._layouts = {key: layout}
            self._warn_once(layout)
        return self._layouts[key]

    def _warn_once(self, layout: storage.Layout) -> None:
        if self._warned:
            return
        self._warned = True
        if layout.shortage():
            _LOG.warning(
                "job %s: only %s hosts hold some of the arrays: the loss of one host costs the "
                "save",
                self._job,
                layout.shortage(),
            )
        elif layout.least == 1:
            _LOG.warning(
                "job %s: each part of a save is on one host: the loss of any host costs the save",
                self._job,
            )

    def _extra_array(self, capacity: int, shared: bool) -> storage.Array:
        size = len(self._members.host_of)
        entries = [
            (process, (row, 0), (row + 1, capacity))
            for row in range(size)
            for process in (self._members.neighbours(row) if shared else [row])
        ]
        return storage.Array(extras.ARRAY, "u8", storage.Holders.of((size, capacity), entries))

    def extra_piece(self, extra: Any, order: Order) -> Piece:
        """The rows of the extras that this process writes."""
        rank, size = self._rank, len(self._members.host_of)
        array = self._extra_array(order.capacity, bool(order.rows))
        boxes = [
            ((row, 0), (row + 1, order.capacity))
            for row in range(size)
            if row == rank or (order.rows and rank in self._members.neighbours(row))
        ]
        encoded = {rank: extras.encode(extra)} if not order.rows else dict(enumerate(order.rows))
        return Piece(array, boxes, lambda box: extras.row(encoded[box[0][0]], order.capacity))

    def writes_here(self, array: storage.Array, box: Interval) -> bool:
        """Whether this process is the first of its host that holds the box."""
        key = (array.holders, box)
        if key not in self._writers:
            if len(self._writers) > _WRITERS_MAX:
                self._writers.clear()
            self._writers[key] = first_on_host(array.holders, box, self._members, self._rank)
        return self._writers[key]


def first_on_host(holders: storage.Holders, box: Interval, members: Members, process: int) -> bool:
    """Whether the process is the first of its host that holds the box."""
    same = np.all(holders.lo == np.array(box[0], np.int64), axis=1) & np.all(
        holders.hi == np.array(box[1], np.int64), axis=1
    )
    host_of = np.asarray(members.host_of)
    owners = holders.processes[same]
    here = owners[host_of[owners] == host_of[process]]
    return bool(len(here)) and int(here.min()) == process
