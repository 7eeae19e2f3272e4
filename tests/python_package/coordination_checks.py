# SPDX-License-Identifier: Apache-2.0
"""What group_process.py asks of remesh.coordination, in processes of a framework: bits of every type
arrive as they are. For JAX its own utilities run beside: what they change is returned."""

import inspect
import sys

import numpy as np

from remesh import coordination, trees

# Of each kind bits that sums, casts and canonical NaNs would change.
_NUMBERS = {
    "f64 NaN": np.array([0x7FF4000000000001, 0xFFF8000000000123], np.uint64).view(np.float64),
    "f32 NaN": np.array([0x7F800001, 0xFFC00456], np.uint32).view(np.float32),
    "f32 -0": np.array([-0.0], np.float32),
    "s64": np.array([2**40 + 1, -(2**63)], np.int64),
    "u64": np.array([2**64 - 1], np.uint64),
    "pred": np.array([[True, False]]),
    "c64 -0": np.array([complex(-0.0, -0.0)], np.complex64),
}
_BYTES = np.arange(256, dtype=np.uint8)
_SMALL = ("int4", "uint4", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e8m0fnu")


def numpy_leaves():
    """Of NumPy, with the types that ml_dtypes adds."""
    import ml_dtypes

    leaves = dict(_NUMBERS)
    leaves["bf16 NaN"] = np.array([0x7F81, 0xFFC1, 0x8000], np.uint16).view(ml_dtypes.bfloat16)
    for name in _SMALL:
        dtype = np.dtype(getattr(ml_dtypes, name))
        small = {"int4": np.arange(-8, 8), "uint4": np.arange(16)}.get(name)
        leaves[name] = _BYTES.view(dtype) if small is None else small.astype(dtype)
    return leaves


def torch_leaves():
    """Of torch."""
    import torch

    leaves = {
        name: torch.from_numpy(each.copy()) for name, each in _NUMBERS.items() if name != "u64"
    }
    leaves["bf16 NaN"] = torch.tensor([0x7F81, -63, -(2**15)], dtype=torch.int16).view(
        torch.bfloat16
    )
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        leaves[str(dtype)] = torch.from_numpy(_BYTES.copy()).view(dtype)
    leaves["conjugate"] = torch.tensor([1 + 2j]).conj()
    leaves["number"] = torch.tensor(7.0, requires_grad=True)
    return leaves


def bits(tree):
    """By name: type, shape and bytes."""
    return {leaf.name: (str(leaf), leaf.data.tobytes()) for leaf in trees.of(tree).leaves}


def caught(function):
    """The error that the call raises; "" if none."""
    try:
        function()
    except Exception as error:  # pylint: disable=broad-exception-caught
        return f"{type(error).__name__}: {error}"
    return ""


def run(framework, rank, size):
    """On every process."""
    leaves = torch_leaves() if framework == "torch" else numpy_leaves()
    wanted, last = bits(leaves), size - 1
    blank = trees.of(leaves)
    empty = blank.rebuild(
        [leaf.make(np.zeros(leaf.bytes, np.uint8), leaf.shape) for leaf in blank.leaves]
    )
    received = coordination.broadcast_one_to_all(leaves if rank == last else empty, rank == last)
    stacked = coordination.process_allgather(leaves)
    found = {
        "broadcast": bits(received) == wanted,
        "kinds": sorted({type(each).__module__.split(".")[0] for each in received.values()}),
        "gather": all(
            bits({key: each[at] for key, each in stacked.items()}) == wanted for at in range(size)
        ),
        "equal": caught(lambda: coordination.assert_equal(leaves)),
        "a bit": caught(lambda: coordination.assert_equal({"w": [rank == last, 1]}, "seed")),
        "devices": caught(lambda: coordination._group(None).check_devices([0, 1 + (rank == last)])),
        "axis": coordination.global_axis_size(rank + 1),
        "names": caught(lambda: coordination.barrier("a" if rank else "b")),
        "leaving": coordination.reached_preemption_sync_point(0),
    }
    if framework == "jax":
        found |= {"global": global_arrays(), "signatures": signatures()}
        found["jax changes"] = changed_by_jax(leaves, wanted, rank == last)
    return found


def global_arrays():
    """Arrays over all processes are gathered as they are, replicated ones are sent."""
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = jax.make_mesh((jax.device_count(),), ("all",))
    count = 4 * jax.device_count()
    whole = (
        np.arange(0x7F80, 0x7F80 + count, dtype=np.uint16).view(jax.numpy.bfloat16).reshape(-1, 2)
    )
    spread = {
        spec: jax.make_array_from_callback(
            whole.shape, NamedSharding(mesh, PartitionSpec(*spec)), lambda index: whole[index]
        )
        for spec in ((None, None), ("all", None))
    }
    rows, copies = spread[("all", None)], spread[(None, None)]
    gathered = coordination.process_allgather([rows, 5], True)
    keys = caught(lambda: coordination.assert_equal({"key": jax.random.key(0)}))
    return [
        gathered[0].tobytes() == whole.tobytes(),
        gathered[1].tolist() == [5] * jax.process_count(),
        coordination.broadcast_one_to_all(copies).tobytes() == whole.tobytes(),
        "needs tiled=True" in caught(lambda: coordination.process_allgather(rows)),
        "must be replicated" in caught(lambda: coordination.broadcast_one_to_all(rows)),
        "key: keys have no bits" in keys,
    ]


def signatures():
    """Functions whose first parameters are not JAX's, or whose others are not keyword-only."""
    from jax.experimental import multihost_utils

    differ = []
    for name in (
        *("broadcast_one_to_all", "process_allgather", "assert_equal", "sync_global_devices"),
        "reached_preemption_sync_point",
    ):
        theirs = list(inspect.signature(getattr(multihost_utils, name)).parameters.values())
        ours = list(inspect.signature(getattr(coordination, name)).parameters.values())
        facts = lambda each: [(one.name, one.kind, one.default) for one in each]
        rest = ours[len(theirs) :]
        if facts(ours[: len(theirs)]) != facts(theirs) or any(
            each.kind is not each.KEYWORD_ONLY for each in rest
        ):
            differ.append(name)
    return differ


def changed_by_jax(leaves, wanted, is_source):
    """What becomes of the bits in JAX's own utilities, by leaf."""
    from jax.experimental import multihost_utils

    calls = {
        "broadcast_one_to_all": lambda each: multihost_utils.broadcast_one_to_all(each, is_source),
        "process_allgather": lambda each: multihost_utils.process_allgather(each)[0],
    }
    changes = {}
    for call, function in calls.items():
        for name, leaf in leaves.items():
            try:
                became = bits({name: function(leaf)})[name]
            except Exception as error:  # pylint: disable=broad-exception-caught
                changes[f"{call}: {name}"] = type(error).__name__
                continue
            if became[0] != wanted[name][0]:
                changes[f"{call}: {name}"] = f"{wanted[name][0]} -> {became[0]}"
            elif became[1] != wanted[name][1]:
                changes[f"{call}: {name}"] = f"{wanted[name][1].hex()} -> {became[1].hex()}"[:60]
    return changes


if __name__ == "__main__":
    sys.exit("group_process.py imports this")
