# SPDX-License-Identifier: Apache-2.0
"""Trees of arrays as bytes, and back, bit by bit: of NumPy, JAX and torch.

A tree is what jax.tree takes, if the process has imported jax; else dicts, lists, tuples, named
tuples and None. No value passes through an array of a framework, which could change it: JAX makes
32-bit numbers of int64, and other NaNs of NaNs.
"""

import dataclasses
import json
import math
import sys
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import numpy as np

Box = Tuple[Tuple[int, ...], Tuple[int, ...]]  # begin and end of each dimension


@dataclasses.dataclass(frozen=True)
class Leaf:
    """An array as this process has it. parts: the boxes that it has to give, each with its bytes
    (uint8, row-major); one, of all, unless the array is spread over several processes. make: an
    array of the same framework and type, from bytes and a shape. wide: of floats and complex
    numbers the values in 64 bits a number, from bytes; None for other types."""

    name: str
    dtype: str
    shape: Tuple[int, ...]
    item_bytes: int
    parts: Sequence[Tuple[Box, np.ndarray]]
    is_global: bool
    make: Callable[[np.ndarray, Sequence[int]], Any]
    wide: Optional[Callable[[np.ndarray], np.ndarray]]

    @property
    def bytes(self) -> int:
        """Of the whole array."""
        return math.prod(self.shape) * self.item_bytes

    @property
    def data(self) -> np.ndarray:
        """The bytes of an array that this process has all of."""
        ((_, data),) = self.parts
        return data

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclasses.dataclass(frozen=True)
class Tree:
    """leaves: in order. structure: equal for trees of equal containers. rebuild: the tree with
    other leaves."""

    leaves: Tuple[Leaf, ...]
    structure: str
    rebuild: Callable[[Sequence[Any]], Any]

    def description(self) -> bytes:
        """What must be equal on all processes: structure, names, types and shapes."""
        leaves = [[leaf.name, str(leaf), leaf.is_global] for leaf in self.leaves]
        return json.dumps([self.structure, leaves]).encode()


def of(tree: Any) -> Tree:
    """TypeError names a leaf that is no array or number."""
    jax = sys.modules.get("jax")
    if jax is not None:
        with_paths, structure = jax.tree_util.tree_flatten_with_path(tree)
        named = [
            (jax.tree_util.keystr(path, simple=True, separator="."), leaf)
            for path, leaf in with_paths
        ]
        text, rebuild = str(structure), structure.unflatten
    else:
        named, text = list(_named(tree, ())), f"PyTreeDef({_structure(tree)})"
        rebuild = lambda leaves: _rebuilt(tree, iter(leaves))
    return Tree(tuple(_leaf(name or "value", value) for name, value in named), text, rebuild)


def as_bytes(array: np.ndarray) -> np.ndarray:
    """The array's bytes, row-major; without a copy if they lie so."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _leaf(name: str, value: Any) -> Leaf:
    jax, torch = sys.modules.get("jax"), sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _of_torch(name, value, torch)
    if jax is not None and isinstance(value, jax.Array):
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            raise TypeError(f"{name}: keys have no bits of their own: pass jax.random.key_data()")
        if not value.is_fully_addressable and not value.is_fully_replicated:
            return _of_global(name, value)
        if not value.is_fully_addressable:
            value = value.addressable_data(0)
    array = np.asarray(value)
    box = ((0,) * array.ndim, array.shape)
    return _of_numpy(name, array.dtype, array.shape, [(box, as_bytes(_checked(name, array)))])


def _of_numpy(
    name: str, dtype: np.dtype, shape: Sequence[int], parts: Sequence, is_global: bool = False
) -> Leaf:
    def make(data: np.ndarray, made: Sequence[int]) -> np.ndarray:
        return data.copy().view(dtype).reshape(tuple(made))

    def wide(data: np.ndarray) -> np.ndarray:
        return data.copy().view(dtype).astype(np.complex128 if dtype.kind == "c" else np.float64)

    is_inexact = dtype.kind in "fc" or "float" in dtype.name
    return Leaf(
        name,
        str(dtype),
        tuple(shape),
        dtype.itemsize,
        parts,
        is_global,
        make,
        wide if is_inexact else None,
    )


def _of_global(name: str, value: Any) -> Leaf:
    parts = []
    for shard in value.addressable_shards:
        if shard.replica_id == 0:
            spans = [part.indices(extent)[:2] for part, extent in zip(shard.index, value.shape)]
            box = (tuple(lo for lo, _ in spans), tuple(hi for _, hi in spans))
            parts.append((box, as_bytes(_checked(name, np.asarray(shard.data)))))
    return _of_numpy(name, np.dtype(value.dtype), value.shape, parts, True)


def _of_torch(name: str, value: Any, torch: Any) -> Leaf:
    if value.layout != torch.strided or value.is_quantized or type(value).__name__ == "DTensor":
        raise TypeError(f"{name}: value must be a dense tensor of this process alone")
    host = value.detach().resolve_conj().resolve_neg().cpu().contiguous()
    data, dtype = host.reshape(-1).view(torch.uint8).numpy(), value.dtype

    def make(found: np.ndarray, shape: Sequence[int]) -> Any:
        return torch.from_numpy(found.copy()).view(dtype).reshape(tuple(shape))

    def wide(found: np.ndarray) -> np.ndarray:
        return (
            make(found, (-1,)).to(torch.complex128 if dtype.is_complex else torch.float64).numpy()
        )

    shape = tuple(value.shape)
    parts = [(((0,) * len(shape), shape), data)]
    is_inexact = dtype.is_floating_point or dtype.is_complex
    return Leaf(
        name,
        str(dtype),
        shape,
        value.element_size(),
        parts,
        False,
        make,
        wide if is_inexact else None,
    )


# Structured and raw types, text and objects are none; wide floats have bytes
# without a meaning.
def _checked(name: str, array: np.ndarray) -> np.ndarray:
    dtype = array.dtype
    widest = {"f": 8, "c": 16}.get(dtype.kind, 8)
    plain = dtype.kind in "biufc" or (dtype.kind == "V" and dtype.type is not np.void)
    if not plain or dtype.itemsize > widest or not dtype.isnative:
        raise TypeError(f"{name}: value of {dtype} must be an array of numbers")
    return array


# Containers without jax, as jax.tree sees them.


def _items(tree: Any) -> List[Tuple[str, Any]]:
    if isinstance(tree, dict):
        return [(str(key), tree[key]) for key in sorted(tree)]
    fields = getattr(tree, "_fields", None)
    return list(zip(fields or map(str, range(len(tree))), tree))


def _is_container(tree: Any) -> bool:
    return isinstance(tree, (dict, list, tuple))


def _named(tree: Any, path: Tuple[str, ...]) -> Iterator[Tuple[str, Any]]:
    if _is_container(tree):
        for key, value in _items(tree):
            yield from _named(value, (*path, key))
    elif tree is not None:
        yield ".".join(path), tree


def _structure(tree: Any) -> str:
    if not _is_container(tree):
        return "None" if tree is None else "*"
    parts = [(key, _structure(value)) for key, value in _items(tree)]
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{key!r}: {part}" for key, part in parts) + "}"
    inner = ", ".join(part for _, part in parts)
    if isinstance(tree, list):
        return f"[{inner}]"
    if hasattr(tree, "_fields"):
        return f"CustomNode(namedtuple[{type(tree).__name__}], [{inner}])"
    return f"({inner},)" if len(parts) == 1 else f"({inner})"


def _rebuilt(tree: Any, leaves: Iterator[Any]) -> Any:
    if not _is_container(tree):
        return None if tree is None else next(leaves)
    if isinstance(tree, dict):
        found = tree.copy()  # of its class, and its order
        found.update({key: _rebuilt(tree[key], leaves) for key in sorted(tree)})
        return found
    parts = [_rebuilt(value, leaves) for value in tree]
    return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
