# SPDX-License-Identifier: Apache-2.0
"""A layout as the shardings of a StateSpec or of Targets, in few bytes.

Where every device stores at most one box of an array, the boxes are the tiles of a grid and each
tile is on equally many devices, a list of devices says it all. Otherwise the boxes are listed.
"""

import math
import re
from typing import Dict, List, Tuple, Union

import numpy as np

from remesh import errors
from remesh.storage.assign import Entry, Layout, Part
from remesh.storage.boxes import Array, Distinct, grid_of
from remesh.v1 import reshard_pb2, sharding_pb2, state_pb2

# Of a StateSpec or Targets. The server keeps the spec of each state in its journal.
MAX_BYTES = 1 << 20
_BOX_BYTES = 8  # at least


class LayoutTooLarge(errors.BadArgument):
    """A layout that can only be described box by box, with too many boxes."""

    reasons = ("LAYOUT_TOO_LARGE",)

    @staticmethod
    def of(boxes: int, arrays: int) -> "LayoutTooLarge":
        """With the counts."""
        message = (
            f"layout: {boxes} boxes of {arrays} arrays have to be listed, which takes more than "
            f"{MAX_BYTES} bytes: use even shardings, or give each worker as many devices as its "
            "trainers have"
        )
        return LayoutTooLarge(message, metadata={"boxes": str(boxes), "arrays": str(arrays)})


def spec(layout: Layout) -> state_pb2.StateSpec:
    """The spec of such a state. LayoutTooLarge."""
    message = state_pb2.StateSpec()
    writer = _Writer(layout, message)
    for part, array, key in writer.arrays():
        message.arrays.add(
            name=array.name,
            shape=array.shape,
            element_type=array.element_type,
            sharding=sharding_pb2.Sharding(ref=key),
        )
    return writer.checked()


def targets(layout: Layout) -> reshard_pb2.Targets:
    """The targets of a move to there. LayoutTooLarge."""
    message = reshard_pb2.Targets()
    writer = _Writer(layout, message)
    for part, array, key in writer.arrays():
        message.arrays.add(name=array.name, sharding=sharding_pb2.Sharding(ref=key))
    return writer.checked()


class _Writer:
    """Writes shardings and lists of devices into the message, equal ones once."""

    def __init__(self, layout: Layout, message: Union[state_pb2.StateSpec, reshard_pb2.Targets]):
        self._layout, self._message = layout, message
        self._kind = "unpinned_host" if any(host.has_gpus for host in layout.hosts) else ""
        self._keys: Dict[tuple, str] = {}
        self._listed = self._listed_arrays = 0

    def arrays(self):
        """Yields (part, array, key of its sharding)."""
        for part in self._layout.parts:
            keys: Dict[tuple, str] = {}
            for array, boxes in zip(part.arrays, part.distinct):
                shared = (id(boxes), array.shape)
                if shared not in keys:
                    keys[shared] = self._sharding(part, array, boxes)
                yield part, array, keys[shared]

    def checked(self):
        size = self._message.ByteSize()
        if size > MAX_BYTES:
            raise LayoutTooLarge.of(self._listed, self._listed_arrays)
        return self._message

    def _sharding(self, part: Part, array: Array, boxes: Distinct) -> str:
        lo, hi = _joined(part.entries, boxes)
        devices = np.array([entry.device for entry in part.entries], np.int64)
        tiled = _tiled(array.shape, lo, hi, devices)
        if tiled is None:
            return self._listed_sharding(devices, lo, hi)
        text, order = tiled
        return self._shared(
            (text, order),
            lambda: sharding_pb2.Sharding(
                hlo_text=text,
                memory_kind=self._kind,
                devices=sharding_pb2.DeviceList(ref=self._device_list(order)),
            ),
        )

    def _listed_sharding(self, devices: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> str:
        self._listed += len(devices)
        self._listed_arrays += 1
        if self._listed * _BOX_BYTES > MAX_BYTES:
            raise LayoutTooLarge.of(self._listed, self._listed_arrays)
        return self._shared(
            (devices.tobytes(), lo.tobytes(), hi.tobytes()),
            lambda: sharding_pb2.Sharding(
                boxes=_box_sharding(devices, lo, hi), memory_kind=self._kind
            ),
        )

    def _shared(self, what: tuple, make) -> str:
        key = self._keys.get(what)
        if key is None:
            key = self._keys[what] = f"s{len(self._message.shardings)}"
            self._message.shardings[key].CopyFrom(make())
        return key

    def _device_list(self, ids: tuple) -> str:
        key = self._keys.get(ids)
        if key is None:
            key = self._keys[ids] = f"d{len(self._message.device_lists)}"
            self._message.device_lists[key].ids.extend(ids)
        return key


# The box of each entry.
def _joined(entries: List[Entry], boxes: Distinct):
    parts = [entry.boxes for entry in entries]
    index = np.concatenate(parts)
    starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])[:-1]])
    return np.minimum.reduceat(boxes.lo[index], starts), np.maximum.reduceat(
        boxes.hi[index], starts
    )


# XLA's text and the order of devices if the boxes are tiles, each on as many
# devices; else None.
def _tiled(shape, lo: np.ndarray, hi: np.ndarray, devices: np.ndarray):
    if len(np.unique(devices)) < len(devices):
        return None
    if len(shape) == 0:
        return "{replicated}", tuple(devices.tolist())
    order = np.lexsort(lo.T[::-1])  # stable: the hosts of a tile keep their order
    lo, hi, devices = lo[order], hi[order], devices[order]
    tiles, copies = np.unique(np.concatenate([lo, hi], axis=1), axis=0, return_counts=True)
    if copies.min() < copies.max():
        return None
    grid = grid_of(shape, tiles[:, : len(shape)], tiles[:, len(shape) :])
    if grid is None:
        return None
    return _text(grid, int(copies[0])), tuple(devices.tolist())


def _text(grid, copies: int) -> str:
    count = math.prod(grid)
    if count == 1:
        return "{replicated}"
    sizes = ",".join(map(str, grid))
    if copies == 1:
        return f"{{devices=[{sizes}]<=[{count}]}}"
    return f"{{devices=[{sizes},{copies}]<=[{count * copies}] last_tile_dim_replicate}}"


def grid_of_text(text: str, dimensions: int) -> Tuple[int, ...]:
    """The tiles a dimension of a text that this module wrote."""
    found = re.match(r"\{devices=\[([\d,]+)\]", text)
    return tuple(map(int, found[1].split(",")))[:dimensions] if found else (1,) * dimensions


def _box_sharding(devices: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> sharding_pb2.BoxSharding:
    message = sharding_pb2.BoxSharding()
    for device in np.unique(devices):
        of_device = message.devices.add(device=int(device))
        for i in np.flatnonzero(devices == device):
            of_device.boxes.add(lo=lo[i].tolist(), hi=hi[i].tolist())
    return message
