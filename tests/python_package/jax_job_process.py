# SPDX-License-Identifier: Apache-2.0
"""One process of jax_job_test.py's worlds: trains the example's transformer, saves to remesh and to
Orbax's files, and prints one JSON a line. If there is a save it restores both, and trains both on:
their digests and losses must be equal.
"""

import hashlib
import json
import os
import sys
import time

import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import NamedSharding, PartitionSpec as P

import jax_elastic
import remesh.jax
from remesh.errors import RemeshError

jax_elastic.LAYERS = 1


def digest(tree, mesh):
    """Of the whole state, whatever its sharding."""
    whole = jax.jit(lambda each: each, out_shardings=NamedSharding(mesh, P()))(tree)
    result = hashlib.sha256()
    for leaf in jax.tree.leaves(whole):
        result.update(np.asarray(leaf.addressable_data(0)).tobytes())
    return result.hexdigest()[:16]


def say(**fields):
    """From process 0."""
    if jax.process_index() == 0:
        print(json.dumps(fields), flush=True)


class Unreadable:
    """A leaf that cannot be read on process 0."""

    shape, dtype = (4,), np.dtype(np.float32)

    def __array__(self, *_, **__):
        if jax.process_index() == 0:
            raise OSError("the disk is full")
        return np.zeros(self.shape, self.dtype)


def check_failures(job, state, abstract):
    """Every process raises what process 0 met, in save and in restore, and the job goes on."""
    expect_failure(job, "save", lambda: job.save({**state, "more": Unreadable()}, 1000))
    only_here = (
        object() if job.rank == 0 else np.zeros(4)
    )  # the others have a leaf that can be saved
    expect_failure(job, "leaf", lambda: job.save({**state, "more": only_here}, 1000))
    expect_failure(job, "wanted", lambda: job.restore({**abstract, "more": only_here}))
    moved, job._restorer._moved = job._restorer._moved, fail  # process 0 alone calls it
    expect_failure(job, "restore", lambda: job.restore(abstract))
    job._restorer._moved = moved
    job.save(state, 1001, block=True)
    assert job.restore(abstract).step == 1001


def fail(*_):
    raise OSError("the disk is full")


def expect_failure(job, what, call):
    """AssertionError unless all processes raise the same error."""
    begun = time.monotonic()
    try:
        call()
        error = "nothing was raised"
    except RemeshError as raised:
        error = f"{type(raised).__name__}: {raised}"
    job._group.agree("error", error.encode())
    say(failed=what, error=error, seconds=time.monotonic() - begun)


def main(order, rank):
    """See the module's comment."""
    jax.distributed.initialize(
        order["coordinator"], order["size"], rank, heartbeat_timeout_seconds=60
    )
    mesh = jax.make_mesh(
        (jax.device_count(),), ("devices",), axis_types=(jax.sharding.AxisType.Auto,)
    )
    rows, everywhere = NamedSharding(mesh, P("devices")), NamedSharding(mesh, P())
    abstract = jax.eval_shape(jax_elastic.init, jax.random.key(0))
    cut = lambda x: x.ndim and x.shape[0] % mesh.size == 0 and not order["data_parallel"]
    shardings = jax.tree.map(lambda x: rows if cut(x) else everywhere, abstract)
    abstract = jax.tree.map(
        lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s), abstract, shardings
    )
    options = ocp.CheckpointManagerOptions(save_interval_steps=1, enable_async_checkpointing=False)
    files = ocp.CheckpointManager(order["files"], options=options)
    job = remesh.jax.Job("jax-job", every=order["every"], replicas=order["replicas"])
    found = job.restore(abstract)
    start, states = 0, []
    if found:
        start = found.step
        assert found.extras == [
            {"step": start, "rank": each} for each in range(len(found.extras))
        ], found.extras
        states = [found.tree, files.restore(start, args=ocp.args.StandardRestore(abstract))]
        say(
            restored=start,
            digests=[digest(state, mesh) for state in states],
            saved_by=len(found.extras),
            seconds=found.seconds,
        )
    else:
        states = [jax.jit(jax_elastic.init, out_shardings=shardings)(jax.random.key(0))]
        say(restored=None)
    train = jax.jit(jax_elastic.train, out_shardings=(shardings, None))
    for step in range(start, order["steps"]):
        states, losses = zip(*(train(state, jax_elastic.batch(step, rows)) for state in states))
        say(step=step, losses=[float(loss).hex() for loss in losses])
        if job.should_save(step):
            job.save(states[0], step + 1, extra={"step": step + 1, "rank": rank})
            files.save(step + 1, args=ocp.args.StandardSave(states[0]))
            say(saved=step + 1, digest=digest(states[0], mesh))
    if order["fails"]:
        check_failures(job, states[0], abstract)
    job.close()
    say(ended=True)
    jax.distributed.shutdown()
    os._exit(0)  # Orbax's threads may keep the process for seconds


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), int(sys.argv[2]))
