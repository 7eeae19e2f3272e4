# SPDX-License-Identifier: Apache-2.0
"""What the leaves of a pytree are to remesh.

jax.Array over several processes    the boxes of its sharding
any other array, Python number      whole, on every process
array of PRNG keys                  its key data
"""

from typing import Any, Dict, List, Optional, Sequence, Tuple

import jax
import numpy as np

from remesh import elements, storage
from remesh.job import Piece, pieces
from remesh.job.pieces import Interval, Shards

_SPECIAL = {
    "bool": "pred",
    "bfloat16": "bf16",
    "int4": "s4",
    "uint4": "u4",
    "int2": "s2",
    "uint2": "u2",
    "int1": "s1",
    "uint1": "u1",
}
_KINDS = {"f": "f", "i": "s", "u": "u", "c": "c"}
_PYTHON = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}
_KEY_TYPES = ("threefry2x32", "rbg", "unsafe_rbg")


def flatten(tree: Any) -> Tuple[List[Tuple[str, Any]], Any]:
    """The leaves with their names, and the structure. ValueError for two leaves of one name."""
    with_paths, structure = jax.tree_util.tree_flatten_with_path(tree)
    named = [
        (jax.tree_util.keystr(path, simple=True, separator=".") or "value", leaf)
        for path, leaf in with_paths
    ]
    seen = set()
    for name, _ in named:
        if name in seen:
            raise ValueError(
                f"tree: two leaves have the name {name!r}; keys must not contain dots that make "
                "them equal"
            )
        seen.add(name)
    return named, structure


def size(leaf: Any) -> int:
    """Number of elements. Empty arrays are not stored."""
    return int(
        np.prod(np.shape(leaf) if not hasattr(leaf, "shape") else leaf.shape, dtype=np.int64)
    )


def element_type(name: str, dtype: Any) -> str:
    """XLA's name. TypeError names the leaf."""
    known = np.dtype(dtype)
    if known.name in _SPECIAL:
        return _SPECIAL[known.name]
    if known.name.startswith(("float8", "float6", "float4")):
        return known.name.replace("float", "f").replace("_", "")
    result = f"{_KINDS.get(known.kind, '?')}{known.itemsize * 8}"
    if result not in elements.BIT_WIDTHS:
        raise TypeError(f"{name}: arrays of {known} cannot be saved; pass such values as `extra`")
    return result


class HoldersOf:
    """storage.Holders by sharding and shape: each is made once."""

    def __init__(self, processes: int):
        self._processes = processes
        self._made: Dict[Any, storage.Holders] = {}

    def of(self, sharding: Any, shape: Sequence[int], trailing: Sequence[int]) -> storage.Holders:
        """trailing: dimensions behind those of the sharding, which nothing cuts."""
        key = (sharding if _is_global(sharding) else None, tuple(shape), tuple(trailing))
        if key not in self._made:
            self._made[key] = self._make(*key)
        return self._made[key]

    def _make(
        self, sharding: Any, shape: Tuple[int, ...], trailing: Tuple[int, ...]
    ) -> storage.Holders:
        whole = (*shape, *trailing)
        if sharding is None:
            return storage.Holders.everywhere(whole, self._processes)
        entries = {
            (device.process_index, *_box(index, shape, trailing))
            for device, index in sharding.devices_indices_map(shape).items()
        }
        return storage.Holders.of(whole, sorted(entries))


def array(name: str, leaf: Any, holders: HoldersOf) -> storage.Array:
    """The leaf as an array that remesh stores."""
    _, dtype = _plain(name, leaf)
    trailing = _key_shape(leaf) if _is_key(leaf) else ()
    return storage.Array(
        name,
        element_type(name, dtype),
        holders.of(getattr(leaf, "sharding", None), np.shape(leaf), trailing),
    )


def piece(name: str, leaf: Any, holders: HoldersOf) -> Piece:
    """The leaf, and what of it this process holds."""
    described = array(name, leaf, holders)
    value = jax.random.key_data(leaf) if _is_key(leaf) else leaf
    if isinstance(value, jax.ShapeDtypeStruct):
        raise TypeError(f"{name}: a jax.ShapeDtypeStruct has no values to save")
    held: Dict[Interval, Any] = {}
    if isinstance(value, jax.Array) and _is_global(value.sharding):
        for shard in value.addressable_shards:
            held.setdefault(_box(shard.index, value.shape), shard.data)
    else:
        held[_whole(np.shape(value))] = value
    return Piece(described, list(held), lambda box: _content(held[box], described))


class Reader:
    """Makes leaves of shards."""

    def __init__(self, shards: Shards, alias: bool):
        self._shards, self._alias = shards, alias
        self._read: Dict[Tuple[str, Interval], np.ndarray] = {}

    def leaf(self, name: str, leaf: Any) -> Any:
        """The value of the leaf, in the form that `leaf` has; `leaf` itself if the save does not
        have it."""
        if size(leaf) and not self._shards.of(name):
            return leaf
        shape, dtype = _plain(name, leaf)
        if type(leaf) in _PYTHON:
            return type(leaf)(self._values(name, _whole(shape), dtype)[()])
        if isinstance(leaf, (np.ndarray, np.generic)):
            copy = np.array(self._values(name, _whole(shape), dtype))
            return copy if isinstance(leaf, np.ndarray) else copy[()]
        made = self._jax_array(name, leaf, shape, dtype)
        return jax.random.wrap_key_data(made, impl=_key_type(leaf)) if _is_key(leaf) else made

    def _jax_array(self, name: str, leaf: Any, shape: Tuple[int, ...], dtype: Any) -> jax.Array:
        sharding = getattr(leaf, "sharding", None)
        if sharding is None:
            return jax.device_put(self._values(name, _whole(shape), dtype))
        logical = tuple(leaf.shape)
        singles = []
        for device, index in sharding.addressable_devices_indices_map(logical).items():
            box = _box(index, logical, shape[len(logical) :])
            singles.append(jax.device_put(self._values(name, box, dtype), device))
        if _is_key(leaf) and isinstance(leaf, jax.Array):
            sharding = jax.random.key_data(leaf).sharding
        return jax.make_array_from_single_device_arrays(shape, sharding, singles)

    # The elements of a box: a read-only view where it is possible and wanted.
    def _values(self, name: str, box: Interval, dtype: Any) -> np.ndarray:
        if (name, box) not in self._read:
            self._read[(name, box)] = self._fetch(name, box, np.dtype(dtype))
        return self._read[(name, box)]

    def _fetch(self, name: str, box: Interval, dtype: np.dtype) -> np.ndarray:
        extents = [hi - lo for lo, hi in zip(*box)]
        if 0 in extents:
            return np.zeros(extents, dtype)
        data = pieces.read(self._shards.with_box(name, box)[0], box)
        bits = elements.bit_width(element_type(name, dtype))
        if bits < 8:
            return _unpacked(data, bits, dtype, int(np.prod(extents))).reshape(extents)
        values = data.view(dtype).reshape(extents)
        return values if self._alias else np.array(values)


def _is_key(leaf: Any) -> bool:
    return jax.dtypes.issubdtype(getattr(leaf, "dtype", np.dtype(bool)), jax.dtypes.prng_key)


# Over more than this process, or all there is.
def _is_global(sharding: Any) -> bool:
    return sharding is not None and (jax.process_count() == 1 or not sharding.is_fully_addressable)


# Dimensions that key data has behind those of the keys.
def _key_shape(leaf: Any) -> Tuple[int, ...]:
    data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(leaf.shape, leaf.dtype))
    return data.shape[len(leaf.shape) :]


# The type of keys by the name that JAX's public functions take.
def _key_type(leaf: Any) -> Optional[str]:
    for name in _KEY_TYPES:
        if jax.eval_shape(lambda each=name: jax.random.key(0, impl=each)).dtype == leaf.dtype:
            return name
    raise TypeError(f"keys of {leaf.dtype} cannot be restored; must be of {', '.join(_KEY_TYPES)}")


# Shape and type of what is stored.
def _plain(name: str, leaf: Any) -> Tuple[Tuple[int, ...], Any]:
    if type(leaf) in _PYTHON:
        return (), _PYTHON[type(leaf)]
    if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
        raise TypeError(
            f"{name}: value of {type(leaf).__name__} cannot be saved; pass such values as `extra`"
        )
    if _is_key(leaf):
        return (*leaf.shape, *_key_shape(leaf)), np.uint32
    return tuple(leaf.shape), leaf.dtype


def _whole(shape: Sequence[int]) -> Interval:
    return (0,) * len(shape), tuple(shape)


# The box of an index of slices, which may lack dimensions.
def _box(index: Sequence[slice], shape: Sequence[int], trailing: Sequence[int] = ()) -> Interval:
    spans = [part.indices(extent)[:2] for part, extent in zip(index, shape)]
    spans += [(0, extent) for extent in trailing]
    return tuple(lo for lo, _ in spans), tuple(hi for _, hi in spans)


# A box's elements as the worker's buffers hold them.
def _content(value: Any, described: storage.Array) -> np.ndarray:
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        raise ValueError(
            f"{described.name}: value {value} must fit into 64 bits; pass it as `extra`"
        )
    plain = np.ascontiguousarray(np.asarray(value, _PYTHON.get(type(value))))
    bits = elements.bit_width(described.element_type)
    return plain if bits >= 8 else _packed(plain, bits)


# Several elements a byte, low bits first.
def _packed(values: np.ndarray, bits: int) -> np.ndarray:
    each = 8 // bits
    plain = values.reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    padded = np.zeros(-(-len(plain) // each) * each, np.uint8)
    padded[: len(plain)] = plain
    shifts = np.arange(each, dtype=np.uint8) * bits
    return np.bitwise_or.reduce(padded.reshape(-1, each) << shifts, axis=1).astype(np.uint8)


def _unpacked(data: np.ndarray, bits: int, dtype: np.dtype, count: int) -> np.ndarray:
    each = 8 // bits
    shifts = np.arange(each, dtype=np.uint8) * bits
    plain = (
        ((data[:, np.newaxis] >> shifts) & ((1 << bits) - 1)).astype(np.uint8).reshape(-1)[:count]
    )
    if dtype.name.startswith("int"):
        sign = np.uint8(1 << (bits - 1))
        plain = (plain ^ sign) - sign
    return plain.view(dtype)
