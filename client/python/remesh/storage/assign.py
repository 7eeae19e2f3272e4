# SPDX-License-Identifier: Apache-2.0
"""Which host stores which box, and on which of its worker's devices.

Arrays of one sharding (its *class*) are placed together, so that a layout of a thousand arrays
has a few lists of devices. A class that more hosts hold than store is cut into a few parts first:
otherwise one of two hosts would store all and the other nothing.
"""

import dataclasses
from typing import Dict, List, Optional, Sequence

import numpy as np

from remesh import elements
from remesh.storage.boxes import Array, Distinct, Holders, Host, distinct, is_one_box

_MAX_PARTS = 8
_DEFAULT_REPLICAS = 2


@dataclasses.dataclass(eq=False)
class Unit:
    """Boxes of a part that are stored together: one, or all that the same hosts hold."""

    boxes: np.ndarray
    holders: np.ndarray
    bytes: int
    largest: int  # bytes of the largest box of a single array
    hosts: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))


@dataclasses.dataclass(eq=False)
class Part:
    """Arrays that lie alike. distinct: of each array; entries: what each device stores."""

    arrays: List[Array]
    distinct: List[Distinct]
    units: List[Unit]
    entries: List["Entry"] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, eq=False)
class Entry:
    """A buffer: these boxes of an array, joined to one, on this device."""

    host: int
    device: int
    boxes: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    """parts: every array is in one. least: the fewest hosts that store a box; asked: how many were
    asked for (None: not said). loads: bytes a host."""

    parts: List[Part]
    hosts: Sequence[Host]
    asked: Optional[int]
    least: int
    loads: np.ndarray

    def shortage(self) -> str:
        """ "1 of 2" if a box has fewer holders than replicas were asked for, else ""."""
        return f"{self.least} of {self.asked}" if self.asked and self.least < self.asked else ""


def stored(
    arrays: Sequence[Array],
    hosts: Sequence[Host],
    host_of: Sequence[int],
    replicas: Optional[int] = None,
) -> Layout:
    """Where a save is: each distinct box on `replicas` of the hosts that hold it, or on all of
    them if they are fewer. None: on 2 where two hosts hold it anyway, else on 1.

    host_of: index into hosts of each process. ValueError for replicas < 1."""
    if replicas is not None and replicas < 1:
        raise ValueError(f"replicas: value {replicas} must be at least 1")
    return _layout(
        arrays, hosts, np.asarray(host_of, np.int64), replicas, replicas or _DEFAULT_REPLICAS
    )


def wanted(arrays: Sequence[Array], hosts: Sequence[Host], host_of: Sequence[int]) -> Layout:
    """What a restore asks for: on every host each box that one of its processes needs, once."""
    return _layout(arrays, hosts, np.asarray(host_of, np.int64), None, len(hosts))


def _layout(arrays, hosts, host_of, asked, replicas) -> Layout:
    parts = [part for each in _classes(arrays, host_of) for part in _parts(*each, hosts, replicas)]
    units = [unit for part in parts for unit in part.units]
    loads = _choose_hosts(units, len(hosts), replicas)
    for part in parts:
        part.entries = _entries(part, hosts)
    least = min((len(unit.hosts) for unit in units), default=replicas)
    return Layout(parts, hosts, asked, least, loads)


# The arrays of each class, with the distinct boxes of each array.
def _classes(arrays: Sequence[Array], host_of: np.ndarray):
    found: Dict[Holders, Distinct] = {}
    keys: Dict[tuple, tuple] = {}
    classes: Dict[tuple, tuple] = {}
    for array in arrays:
        if array.holders not in found:
            found[array.holders] = distinct(array.holders, host_of)
        boxes = found[array.holders]
        shared = (array.holders, array.packed)
        if shared not in keys:
            keys[shared] = boxes.key(array.packed)
        members, of_each = classes.setdefault(keys[shared], ([], []))
        members.append(array)
        of_each.append(boxes)
    return list(classes.values())


# Cuts a class into parts of about equal bytes, if there is a choice of hosts.
def _parts(arrays, of_each, hosts, replicas) -> List[Part]:
    holders = np.bincount(of_each[0].pairs[:, 0]).max(initial=0)
    count = max(1, min(_MAX_PARTS, len(arrays), -(-int(holders) // replicas)))
    sizes = np.array([_bytes(array, boxes).sum() for array, boxes in zip(arrays, of_each)])
    part_of, loads = np.zeros(len(arrays), np.int64), np.zeros(count)
    for index in np.argsort(-sizes, kind="stable"):
        part_of[index] = np.argmin(loads)
        loads[part_of[index]] += sizes[index]
    members = [np.flatnonzero(part_of == part) for part in range(count)]
    groups = _groups(arrays[0], of_each[0], hosts)
    return [
        _part([arrays[i] for i in chosen], [of_each[i] for i in chosen], groups)
        for chosen in members
        if len(chosen)
    ]


def _part(arrays, of_each, groups) -> Part:
    each = [_bytes(array, boxes) for array, boxes in zip(arrays, of_each)]
    total, largest = np.sum(each, axis=0), np.max(each, axis=0)
    units = [
        Unit(boxes, holders, int(total[boxes].sum()), int(largest[boxes].max()))
        for boxes, holders in groups
    ]
    return Part(arrays, of_each, units)


# Bytes of each distinct box.
def _bytes(array: Array, boxes: Distinct) -> np.ndarray:
    return (boxes.volumes * elements.bit_width(array.element_type) + 7) // 8


# Which boxes are stored together, and who holds them: each box alone if every
# host has a device for each box that it holds. Otherwise the boxes that the
# same hosts hold, if they join to one.
def _groups(array: Array, boxes: Distinct, hosts: Sequence[Host]):
    count = len(boxes.lo)
    starts = np.searchsorted(boxes.pairs[:, 0], np.arange(count + 1))
    holders = [boxes.pairs[starts[i] : starts[i + 1], 1] for i in range(count)]
    held = np.bincount(boxes.pairs[:, 1], minlength=len(hosts))
    alone = [(np.array([i]), holders[i]) for i in range(count)]
    if array.packed or all(n <= len(host.devices) for n, host in zip(held, hosts)):
        return alone
    together: Dict[bytes, List[int]] = {}
    for i in range(count):
        together.setdefault(holders[i].tobytes(), []).append(i)
    groups = []
    for members in together.values():
        if is_one_box(boxes.lo[members], boxes.hi[members]):
            groups.append((np.array(members), holders[members[0]]))
        else:
            groups += [alone[i] for i in members]
    return groups


# Sets the hosts of each unit, and returns the bytes of each host.
def _choose_hosts(units: Sequence[Unit], hosts: int, replicas: int) -> np.ndarray:
    loads = np.zeros(hosts, np.int64)
    free = [unit for unit in units if len(unit.holders) > replicas]
    for unit in units:
        if len(unit.holders) <= replicas:
            unit.hosts = unit.holders
            loads[unit.hosts] += unit.bytes
    for unit in sorted(free, key=lambda unit: -unit.bytes):
        unit.hosts = unit.holders[np.argsort(loads[unit.holders], kind="stable")[:replicas]]
        loads[unit.hosts] += unit.bytes
    while any([_improve(unit, loads) for unit in free]):
        pass
    for unit in free:
        unit.hosts = np.sort(unit.hosts)
    return loads


# Moves the unit from its busiest host to its idlest other holder, if that
# lowers the larger load of the two by more than one box.
def _improve(unit: Unit, loads: np.ndarray) -> bool:
    others = np.setdiff1d(unit.holders, unit.hosts)
    at = np.argmax(loads[unit.hosts])
    busiest, idlest = unit.hosts[at], others[np.argmin(loads[others])]
    after = max(loads[busiest] - unit.bytes, loads[idlest] + unit.bytes)
    if max(loads[busiest], loads[idlest]) - after <= unit.largest:
        return False
    unit.hosts = unit.hosts.copy()
    unit.hosts[at] = idlest
    loads[busiest] -= unit.bytes
    loads[idlest] += unit.bytes
    return True


# What each device stores of the part's arrays.
def _entries(part: Part, hosts: Sequence[Host]) -> List[Entry]:
    boxes_of: Dict[int, List[np.ndarray]] = {}
    for unit in part.units:
        for host in unit.hosts:
            boxes_of.setdefault(int(host), []).append(unit.boxes)
    entries = []
    for host in sorted(boxes_of):
        boxes = np.sort(np.concatenate(boxes_of[host]))
        entries += _place(host, hosts[host].devices, boxes, part)
    return entries


# The devices of a host's boxes. Looks only at the set of boxes: see the
# package's comment.
def _place(host: int, devices: Sequence[int], boxes: np.ndarray, part: Part) -> List[Entry]:
    if len(boxes) <= len(devices):
        return [
            Entry(host, device, boxes[i : i + 1]) for i, device in enumerate(devices[: len(boxes)])
        ]
    first = part.distinct[0]
    if not part.arrays[0].packed and is_one_box(first.lo[boxes], first.hi[boxes]):
        return [Entry(host, devices[0], boxes)]
    return [Entry(host, devices[i % len(devices)], boxes[i : i + 1]) for i in range(len(boxes))]
