# SPDX-License-Identifier: Apache-2.0
"""Layouts: how an array is spread over devices. Frozen values, equal if they are written alike,
that make messages by proto().

    hlo("{devices=[4,1]<=[4]}", range(4))              XLA's text
    named({"data": 2, "model": 4}, (None, "model"), range(8))
                                                       a mesh of named axes and what cuts each
                                                       dimension, as in JAX
    dtensor((2, 4), (replicate(), shard(0)), range(8))  torch's DTensor
    leading_axis(range(8))                             as jax.pmap: a part for each device
    boxes({0: [Box((0,), (4,))], 5: [Box((4,), (8,))]})  which boxes each device holds
    replicated(range(4))                               all of it on each device

Device ids are those of Host.devices, or of the state's topology if it has one. memory_kind: "" or
"device", "pinned_host", "unpinned_host". All functions are pure and may be called by any thread;
they raise ValueError, naming the field, for a value that cannot be written.
"""

import collections
import dataclasses
import math
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from remesh.elements import byte_count
from remesh.v1 import reshard_pb2, sharding_pb2, state_pb2, topology_pb2
from remesh.xla import xla_data_pb2

MEMORY_KINDS = ("", "device", "pinned_host", "unpinned_host")


class Box(NamedTuple):
    """A half-open range of indices: dimension d spans [lo[d], hi[d])."""

    lo: Tuple[int, ...]
    hi: Tuple[int, ...]

    @staticmethod
    def whole(shape: Sequence[int]) -> "Box":
        """All of an array."""
        return Box((0,) * len(shape), tuple(shape))

    @staticmethod
    def of(message: sharding_pb2.Box) -> "Box":
        """The value of a message."""
        return Box(tuple(message.lo), tuple(message.hi))

    @property
    def shape(self) -> Tuple[int, ...]:
        """Extent of each dimension."""
        return tuple(hi - lo for lo, hi in zip(self.lo, self.hi))

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def slices(self) -> Tuple[slice, ...]:
        """The index of a NumPy array that selects the box."""
        return tuple(slice(lo, hi) for lo, hi in zip(self.lo, self.hi))

    def proto(self) -> sharding_pb2.Box:
        """The message."""
        return sharding_pb2.Box(lo=self.lo, hi=self.hi)


@dataclasses.dataclass(frozen=True)
class Hlo:
    """See hlo()."""

    text: str
    devices: Tuple[int, ...]
    memory_kind: str = ""

    def proto(self, rank: Optional[int] = None) -> sharding_pb2.Sharding:
        """The message; `rank` makes no difference."""
        del rank
        return sharding_pb2.Sharding(
            hlo_text=self.text, devices=device_list(self.devices), memory_kind=self.memory_kind
        )


@dataclasses.dataclass(frozen=True)
class Named:
    """See named()."""

    axes: Tuple[Tuple[str, int], ...]
    spec: Tuple[Tuple[str, ...], ...]  # for each dimension: the axes that cut it
    devices: Tuple[int, ...]
    memory_kind: str = ""

    def proto(self, rank: Optional[int] = None) -> sharding_pb2.Sharding:
        """The message for an array of `rank` dimensions; None: as many as the spec names."""
        index = {name: at for at, (name, _) in enumerate(self.axes)}
        cuts = (*self.spec, *((),) * ((rank or 0) - len(self.spec)))
        message = xla_data_pb2.NamedShardingProto()
        for name, size in self.axes:
            message.mesh.axes.add(name=name, size=size)
        for cut in cuts:
            dimension = message.dim_shardings.add(is_closed=True)
            for axis in cut:
                dimension.axes.add(mesh_axis_index=index[axis])
        return sharding_pb2.Sharding(
            named=message, devices=device_list(self.devices), memory_kind=self.memory_kind
        )


@dataclasses.dataclass(frozen=True)
class Placement:
    """What a DTensor does along one dimension of its mesh: see shard(), replicate() and
    strided_shard()."""

    kind: str
    dim: int = 0
    split_factor: int = 1

    def proto(self) -> sharding_pb2.Placement:
        """The message."""
        if self.kind == "replicate":
            return sharding_pb2.Placement(replicate=sharding_pb2.Placement.Replicate())
        if self.kind == "shard":
            return sharding_pb2.Placement(shard=sharding_pb2.Placement.Shard(dim=self.dim))
        strided = sharding_pb2.Placement.StridedShard(dim=self.dim, split_factor=self.split_factor)
        return sharding_pb2.Placement(strided_shard=strided)


@dataclasses.dataclass(frozen=True)
class DTensor:
    """See dtensor()."""

    mesh: Tuple[int, ...]
    placements: Tuple[Placement, ...]
    devices: Tuple[int, ...]
    memory_kind: str = ""

    def proto(self, rank: Optional[int] = None) -> sharding_pb2.Sharding:
        """The message; `rank` makes no difference."""
        del rank
        form = sharding_pb2.DTensorSharding(
            mesh_shape=self.mesh, placements=[each.proto() for each in self.placements]
        )
        return sharding_pb2.Sharding(
            dtensor=form, devices=device_list(self.devices), memory_kind=self.memory_kind
        )


@dataclasses.dataclass(frozen=True)
class Boxes:
    """See boxes()."""

    by_device: Tuple[Tuple[int, Tuple[Box, ...]], ...]
    memory_kind: str = ""

    @property
    def devices(self) -> Tuple[int, ...]:
        """The devices that have an entry."""
        return tuple(device for device, _ in self.by_device)

    def proto(self, rank: Optional[int] = None) -> sharding_pb2.Sharding:
        """The message; `rank` makes no difference."""
        del rank
        form = sharding_pb2.BoxSharding()
        for device, held in self.by_device:
            form.devices.add(device=device, boxes=[box.proto() for box in held])
        return sharding_pb2.Sharding(boxes=form, memory_kind=self.memory_kind)


@dataclasses.dataclass(frozen=True)
class Written:
    """A layout that came in a message, in whatever form it has there."""

    data: bytes

    def proto(self, rank: Optional[int] = None) -> sharding_pb2.Sharding:
        """The message."""
        del rank
        return sharding_pb2.Sharding.FromString(self.data)


Layout = Union[Hlo, Named, DTensor, Boxes, Written]


def hlo(text: str, devices: Iterable[int], memory_kind: str = "") -> Hlo:
    """XLA's text form of a sharding, whose positions are `devices` in their order."""
    return Hlo(text, _ids(devices), _memory_kind(memory_kind))


def replicated(devices: Iterable[int], memory_kind: str = "") -> Hlo:
    """All of the array on each device."""
    return hlo("{replicated}", devices, memory_kind)


def named(
    axes: Mapping[str, int],
    spec: Sequence[Union[None, str, Sequence[str]]],
    devices: Iterable[int],
    memory_kind: str = "",
) -> Named:
    """A mesh of named axes, row-major over `devices`. spec: for each dimension of the array the
    axis or axes that cut it, or None; dimensions beyond it are not cut."""
    cuts = tuple(_axes_of(cut) for cut in spec)
    used = [axis for cut in cuts for axis in cut]
    for axis in used:
        if axis not in axes:
            raise ValueError(f"spec: value {axis!r} must be an axis of the mesh: {', '.join(axes)}")
        if used.count(axis) > 1:
            raise ValueError(f"spec: value {axis!r} must not cut twice")
    ids = _ids(devices)
    if math.prod(axes.values()) != len(ids):
        product = f"{math.prod(axes.values())}, the product of the axes {dict(axes)}"
        raise ValueError(f"devices: {len(ids)} ids must be {product}")
    return Named(tuple(axes.items()), cuts, ids, _memory_kind(memory_kind))


def leading_axis(devices: Iterable[int], memory_kind: str = "") -> Named:
    """The leading dimension of the array is cut into equal parts, one for each device in its order,
    as jax.pmap lays out its arguments and results."""
    ids = _ids(devices)
    return named({"leading": len(ids)}, ("leading",), ids, memory_kind)


def dtensor(
    mesh: Sequence[int],
    placements: Sequence[Placement],
    devices: Iterable[int],
    memory_kind: str = "",
) -> DTensor:
    """torch's DTensor: a mesh of that shape, row-major over `devices`, with a placement for each of
    its dimensions."""
    ids = _ids(devices)
    if len(mesh) != len(placements):
        raise ValueError(
            f"placements: {len(placements)} must be {len(mesh)}, one for each dimension of the mesh"
        )
    if math.prod(mesh) != len(ids):
        raise ValueError(
            f"devices: {len(ids)} ids must be {math.prod(mesh)}, the size of the mesh {tuple(mesh)}"
        )
    return DTensor(tuple(mesh), tuple(placements), ids, _memory_kind(memory_kind))


def shard(dim: int) -> Placement:
    """Cuts dimension `dim` of the array as torch.chunk does."""
    return Placement("shard", dim)


def replicate() -> Placement:
    """The same data on every device along the mesh's dimension."""
    return Placement("replicate")


def strided_shard(dim: int, split_factor: int) -> Placement:
    """torch's _StridedShard: a later dimension of the mesh has cut `dim` into split_factor
    parts."""
    return Placement("strided_shard", dim, split_factor)


def boxes(by_device: Mapping[int, Iterable[Box]], memory_kind: str = "") -> Boxes:
    """The boxes that each device holds: disjoint on a device, in any order. Equal maps make equal
    layouts, whatever their order."""
    entries = sorted(
        (int(device), tuple(Box(tuple(box.lo), tuple(box.hi)) for box in held))
        for device, held in by_device.items()
    )
    return Boxes(tuple(entries), _memory_kind(memory_kind))


def of_proto(message: sharding_pb2.Sharding) -> Written:
    """The layout in a message that refers to nothing outside of it."""
    return Written(message.SerializeToString(deterministic=True))


@dataclasses.dataclass(frozen=True)
class Array:
    """An array of a state. element_type: XLA's lower-case name, such as "bf16"
    (remesh.elements)."""

    shape: Tuple[int, ...]
    element_type: str
    layout: Layout

    def __post_init__(self):
        object.__setattr__(self, "shape", tuple(int(extent) for extent in self.shape))

    @property
    def bytes(self) -> int:
        """Of one whole copy."""
        return byte_count(self.element_type, math.prod(self.shape))


def spec_of(
    arrays: Mapping[str, Array], topology: Optional[topology_pb2.Topology] = None
) -> state_pb2.StateSpec:
    """The spec of a state with these arrays. A layout or a list of devices that is used twice is
    written once."""
    spec = state_pb2.StateSpec(topology=topology)
    shared = _Shared(
        spec.shardings, spec.device_lists, [(one.layout, len(one.shape)) for one in arrays.values()]
    )
    for name, one in arrays.items():
        spec.arrays.add(
            name=name,
            shape=one.shape,
            element_type=one.element_type,
            sharding=shared.sharding(one.layout, len(one.shape)),
        )
    return spec


def targets_of(
    layouts: Mapping[str, Layout],
    ranks: Mapping[str, int],
    topology: Optional[topology_pb2.Topology] = None,
) -> reshard_pb2.Targets:
    """Targets that name these arrays. ranks: the number of dimensions of each. Shares what is used
    twice, as spec_of()."""
    targets = reshard_pb2.Targets(topology=topology)
    shared = _Shared(
        targets.shardings,
        targets.device_lists,
        [(each, ranks[name]) for name, each in layouts.items()],
    )
    for name, each in layouts.items():
        targets.arrays.add(name=name, sharding=shared.sharding(each, ranks[name]))
    return targets


def arrays_of(spec: state_pb2.StateSpec) -> Dict[str, Array]:
    """The arrays of a spec by name, in its order."""
    return {
        one.name: Array(tuple(one.shape), one.element_type, of_proto(_resolved(one.sharding, spec)))
        for one in spec.arrays
    }


def device_list(ids: Sequence[int]) -> sharding_pb2.DeviceList:
    """The shortest message of these ids."""
    if len(ids) > 2 and all(after == before + 1 for before, after in zip(ids, ids[1:])):
        return sharding_pb2.DeviceList(
            range=sharding_pb2.DeviceList.Range(start=ids[0], count=len(ids))
        )
    return sharding_pb2.DeviceList(ids=ids)


class _Shared:
    """Writes the layouts of a request: those that are used more than once, and long lists of
    devices, under keys."""

    _LONG_LIST = 8

    def __init__(self, shardings: Any, device_lists: Any, uses: List[Tuple[Layout, int]]) -> None:
        self._device_lists = device_lists
        self._keys: Dict[Tuple[Layout, int], str] = {}
        self._lists: Dict[bytes, str] = {}
        for use, count in collections.Counter(uses).items():
            message = self._written(*use)
            if count > 1:
                self._keys[use] = f"s{len(self._keys)}"
                shardings[self._keys[use]].CopyFrom(message)

    def sharding(self, layout: Layout, rank: int) -> sharding_pb2.Sharding:
        """The message that stands in an array."""
        key = self._keys.get((layout, rank))
        return sharding_pb2.Sharding(ref=key) if key else self._written(layout, rank)

    def _written(self, layout: Layout, rank: int) -> sharding_pb2.Sharding:
        """The layout, with a long list of devices replaced by its key."""
        message = layout.proto(rank)
        if len(message.devices.ids) > self._LONG_LIST:
            data = message.devices.SerializeToString()
            key = self._lists.setdefault(data, f"d{len(self._lists)}")
            self._device_lists[key].CopyFrom(message.devices)
            message.devices.CopyFrom(sharding_pb2.DeviceList(ref=key))
        return message


def _resolved(sharding: sharding_pb2.Sharding, spec: state_pb2.StateSpec) -> sharding_pb2.Sharding:
    """The sharding with what it refers to in its place."""
    found = sharding_pb2.Sharding()
    found.CopyFrom(
        spec.shardings[sharding.ref] if sharding.WhichOneof("form") == "ref" else sharding
    )
    if found.devices.WhichOneof("form") == "ref":
        found.devices.CopyFrom(spec.device_lists[found.devices.ref])
    return found


def _axes_of(cut: Union[None, str, Sequence[str]]) -> Tuple[str, ...]:
    if cut is None:
        return ()
    return (cut,) if isinstance(cut, str) else tuple(cut)


def _ids(devices: Iterable[int]) -> Tuple[int, ...]:
    ids = tuple(int(device) for device in devices)
    if not ids:
        raise ValueError("devices: value () must name at least one device")
    if len(set(ids)) != len(ids):
        raise ValueError(f"devices: value {ids} must not name a device twice")
    return ids


def _memory_kind(value: str) -> str:
    if value not in MEMORY_KINDS:
        raise ValueError(
            f"memory_kind: value {value!r} must be one of {', '.join(map(repr, MEMORY_KINDS))}"
        )
    return value
