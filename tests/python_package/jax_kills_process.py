# SPDX-License-Identifier: Apache-2.0
"""The keeper of jax_kills_test.py: the worlds of client/python/tests/job/job_kills.py, whose
processes are a JAX job.

JAX's own coordinator is a process of its own: otherwise JAX would end all processes when process 0
dies, before they can say what remesh told them."""

import contextlib
import os
import pathlib
import signal
import sys
import time

import jax
import numpy as np
from jax._src.lib import _jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import remesh
import remesh.jax
import support
from remesh.jax.notice import JaxNotice

_TESTS = pathlib.Path(__file__).resolve().parents[2] / "client" / "python" / "tests"
sys.path[:0] = [str(_TESTS / "job"), str(_TESTS)]
import job_kills  # noqa: E402  pylint: disable=wrong-import-position


def values(step):
    """Of a type that JAX has without a setting."""
    return {name: value.astype(np.int32) for name, value in job_kills.values(step).items()}


def shardings(size):
    """`whole` is on every device, of which each process has one; the others are cut into rows."""
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    assert mesh.size == size, mesh
    rows, whole = NamedSharding(mesh, PartitionSpec("rows")), NamedSharding(mesh, PartitionSpec())
    return {name: whole if name == "whole" else rows for name in values(0)}


def tree(step, size):
    """The whole state at a step: no two steps have an element in common."""
    at = shardings(size)
    return {
        name: jax.make_array_from_callback(value.shape, at[name], lambda box, v=value: v[box])
        for name, value in values(step).items()
    }


def abstract(size):
    """What a world restores."""
    return {
        name: jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=shardings(size)[name])
        for name, value in values(0).items()
    }


def check(found, size):
    """AssertionError unless every element and extra is of the step that the save claims."""
    for name, value in values(found.step).items():
        for shard in found.tree[name].addressable_shards:
            assert np.array_equal(shard.data, value[shard.index]), f"{name}: {shard.data}"
    assert found.extras == [{"rank": rank, "step": found.step} for rank in range(size)]


def run(order, rank, _):
    """One process of a world: see job_kills.run()."""
    if order.get("bug"):
        job_kills.plant(order["bug"])
    size = len(order["sockets"])
    _jax.get_distributed_runtime_service = lambda *_, **__: None  # it runs already
    jax.distributed.initialize(order["coordinator"], size, rank, local_device_ids=[0])
    client = remesh.connect(order["sockets"][rank], order["server"])
    job = remesh.jax.Job(
        order["job"], client=client, patience=20.0, commit_seconds=20.0, reserve=order["reserve"]
    )
    found = job.restore(abstract(size))
    if found:
        check(found, size)

    def save(step):
        job.save(tree(step, size), step, extra={"rank": rank, "step": step}, block=True)

    calls = {
        "restore": lambda: job.restore(abstract(size)),
        "leaving": lambda: job_kills.leave(job),
    }
    return job_kills.live(order, rank, job, found.step if found else None, save, calls)


@contextlib.contextmanager
def coordinator(order):
    """Runs JAX's coordinator of a world, and names its address."""
    size, keeper = len(order["sockets"]), os.getpid()
    with support.reserved_port() as port:
        order["coordinator"] = f"127.0.0.1:{port}"
        child = os.fork()
        if child == 0:
            service = _jax.get_distributed_runtime_service(f"[::]:{port}", size)
            while os.getppid() == keeper:
                time.sleep(0.5)
            del service
            os._exit(0)
        try:
            yield
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


if __name__ == "__main__":
    job_kills.CALL_PHASES["leaving"] = (JaxNotice, "due", "before")
    job_kills.run, job_kills.surroundings = run, coordinator
    job_kills.keeper()
