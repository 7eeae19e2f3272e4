# SPDX-License-Identifier: Apache-2.0
"""Saves random pytrees from random meshes and restores them to others, in one process of 8 devices:
jax_trees_process.py COUNT. Prints how many had the same bits, types and structure."""

import json
import random
import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P, SingleDeviceSharding

import remesh.jax

jax.config.update("jax_enable_x64", True)
TYPES = [
    jnp.float32,
    jnp.bfloat16,
    jnp.float64,
    jnp.int32,
    jnp.int64,
    jnp.uint8,
    jnp.bool_,
    jnp.complex64,
    jnp.float16,
    jnp.float8_e4m3fn,
    jnp.float8_e5m2,
    jnp.int4,
    jnp.uint4,
]
EXTENTS = [1, 2, 3, 4, 6, 8, 24, 48]


class Pair(NamedTuple):
    """A node that is neither a dict nor a list."""

    left: Any
    right: Any


class Trees:
    """Random trees of one seed."""

    def __init__(self, seed):
        self._pick = random.Random(seed)
        self._bits = np.random.default_rng(seed)

    def mesh(self):
        """Of some of the devices, in any order."""
        pick = self._pick
        shape = pick.choice([(1,), (2,), (3,), (4,), (6,), (8,), (2, 2), (2, 4), (4, 2), (3, 2)])
        devices = pick.sample(jax.devices(), int(np.prod(shape)))
        names = ("a", "b")[: len(shape)]
        return jax.sharding.Mesh(
            np.array(devices).reshape(shape), names, axis_types=(AxisType.Auto,) * len(shape)
        )

    def tree(self, depth=0):
        """NumPy arrays and other leaves."""
        kind = self._pick.random()
        if depth < 3 and kind < 0.25 + 0.5 * (depth == 0):
            return {f"k{i}": self.tree(depth + 1) for i in range(self._pick.randint(1, 4))}
        if depth < 3 and kind < 0.35:
            return [self.tree(depth + 1) for _ in range(self._pick.randint(1, 3))]
        if depth < 3 and kind < 0.4:
            return Pair(self.tree(depth + 1), self.tree(depth + 1))
        return self._leaf()

    def _leaf(self):
        pick = self._pick
        kind = pick.random()
        if kind < 0.05:
            return None
        if kind < 0.2:
            return pick.choice([True, False, -5, 2**40, 0.1, float("inf"), 1 + 2j])
        shape = tuple(pick.choice(EXTENTS) for _ in range(pick.randint(0, 3)))
        if kind < 0.3:
            return (
                jax.random.split(
                    jax.random.key(pick.randrange(99), impl=pick.choice(["threefry2x32", "rbg"])),
                    shape,
                )
                if shape
                else jax.random.key(3)
            )
        if kind < 0.35:
            shape = (*shape, 0)
        dtype = np.dtype(pick.choice(TYPES))
        bits = self._bits.integers(0, 256, (*shape, dtype.itemsize), np.uint8)
        if dtype == bool:
            bits &= 1
        if dtype.name in ("int4", "uint4"):
            return np.asarray(jnp.asarray(bits[..., 0] & 7).astype(dtype))
        value = bits.view(dtype)[..., 0] if shape else bits.view(dtype)[0]
        return np.array(value) if kind < 0.45 else _Sharded(np.asarray(value))

    def sharding(self, mesh, shape):
        """Any that divides the shape."""
        free, spec = list(mesh.axis_names), []
        for extent in shape:
            names = self._pick.sample(free, self._pick.randint(0, len(free)))
            size = int(np.prod([mesh.shape[name] for name in names]))
            spec.append(tuple(names) if names and extent % size == 0 and extent else None)
            free = [name for name in free if spec[-1] is None or name not in spec[-1]]
        return (
            NamedSharding(mesh, P(*spec))
            if self._pick.random() < 0.95
            else SingleDeviceSharding(self._pick.choice(jax.devices()))
        )


class _Sharded:
    """A leaf that becomes a jax.Array."""

    def __init__(self, value):
        self.value = value


def _is_key(leaf):
    return hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def placed(trees, tree, mesh, abstract):
    """The tree on the mesh, or what describes it there."""

    def place(leaf):
        if _is_key(leaf):
            if not abstract:
                return leaf
            return jax.ShapeDtypeStruct(
                leaf.shape, leaf.dtype, sharding=trees.sharding(mesh, leaf.shape)
            )
        if not isinstance(leaf, _Sharded):
            return (
                leaf
                if not abstract
                else (
                    type(leaf)(0)
                    if isinstance(leaf, (bool, int, float, complex))
                    else np.zeros_like(leaf)
                )
            )
        sharding = trees.sharding(mesh, leaf.value.shape)
        if abstract:
            return jax.ShapeDtypeStruct(leaf.value.shape, leaf.value.dtype, sharding=sharding)
        return jax.device_put(leaf.value, sharding)

    return jax.tree.map(place, tree, is_leaf=lambda each: isinstance(each, _Sharded))


def bits(leaf):
    """Type and bytes."""
    if isinstance(leaf, (bool, int, float, complex)):
        return type(leaf), repr(leaf)
    data = jax.random.key_data(leaf) if _is_key(leaf) else leaf
    return (
        isinstance(leaf, jax.Array),
        str(leaf.dtype),
        leaf.shape,
        np.ascontiguousarray(np.asarray(data)).tobytes(),
    )


def check(job, seed):
    """AssertionError unless what is restored is what was saved."""
    trees = Trees(seed)
    tree = {"root": trees.tree()}
    saved = placed(trees, tree, trees.mesh(), False)
    job.save(saved, seed, extra={"seed": seed}, block=True)
    abstract = placed(trees, tree, trees.mesh(), True)
    restored = job.restore(abstract, alias=trees._pick.choice([None, False]))
    assert (restored.step, restored.extras) == (seed, [{"seed": seed}])
    assert jax.tree.structure(restored.tree) == jax.tree.structure(saved), "structure"
    for (path, want), have, described in zip(
        jax.tree_util.tree_flatten_with_path(saved)[0],
        jax.tree.leaves(restored.tree),
        jax.tree.leaves(abstract),
    ):
        assert bits(have) == bits(
            want
        ), f"seed {seed}, {jax.tree_util.keystr(path)}: {have} is not {want}"
        if isinstance(described, jax.ShapeDtypeStruct):
            assert have.sharding.is_equivalent_to(
                described.sharding, have.ndim
            ), f"seed {seed}: {have.sharding}"
    return len(jax.tree.leaves(saved))


def main(count):
    """See the module's comment."""
    with remesh.jax.Job("trees") as job:
        leaves = sum(check(job, seed) for seed in range(count))
    print(json.dumps({"trees": count, "leaves": leaves}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
