# SPDX-License-Identifier: Apache-2.0
"""A process of JAX for scripts/bench restart: remesh.jax.Job beside Orbax's CheckpointManager."""

import logging
import os
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec as P

import remesh.jax
from process import ARRAYS, ROWS, Processes, Way, columns, join_commits, serve


def local(array):
    """What this process holds of it, without a copy."""
    return np.asarray(array.addressable_data(0))


class Remesh(Way):
    def __init__(self, name, abstract, **settings):
        self._abstract = abstract
        self._job = remesh.jax.Job(name, **settings)

    def save(self, state, step):
        save = self._job.save(state, step)
        return lambda: save.wait().seconds

    def prepare(self):
        join_commits()

    def restore(self, step):
        found = self._job.restore(self._abstract, step=step)
        self.restored = [local(leaf) for leaf in jax.tree.leaves(found.tree)]
        return found.seconds

    def close(self):
        self._job.close()


class Orbax(Way):
    def __init__(self, folder, abstract, asynchronous):
        self._abstract = abstract
        options = ocp.CheckpointManagerOptions(
            max_to_keep=1, enable_async_checkpointing=asynchronous
        )
        self._manager = ocp.CheckpointManager(folder, options=options)

    def save(self, state, step):
        self._manager.save(step, args=ocp.args.StandardSave(state))
        return self._finished

    def _finished(self):
        self._manager.wait_until_finished()
        return {}

    def restore(self, step):
        tree = self._manager.restore(step, args=ocp.args.StandardRestore(self._abstract))
        self.restored = [local(leaf) for leaf in jax.tree.leaves(jax.block_until_ready(tree))]
        return {}

    def close(self):
        self._manager.close()


class Side(Processes):
    def __init__(self, order, rank):
        super().__init__(order, rank)
        jax.distributed.initialize(
            order["coordinator"], order["size"], rank, heartbeat_timeout_seconds=600
        )
        mesh = jax.make_mesh(
            (jax.device_count(),), ("devices",), axis_types=(jax.sharding.AxisType.Auto,)
        )
        rows = NamedSharding(mesh, P("devices"))
        shape = (ROWS, columns(order["mib"]))
        self._abstract = {
            f"w{i}": jax.ShapeDtypeStruct(shape, jnp.float32, sharding=rows) for i in range(ARRAYS)
        }
        fill = lambda index, i: np.random.default_rng([i, index[0].start or 0]).random(
            (index[0].indices(ROWS)[1] - index[0].indices(ROWS)[0], shape[1]), np.float32
        )
        if order["saves"]:
            self.state = {
                f"w{i}": jax.make_array_from_callback(
                    shape, rows, lambda index, i=i: fill(index, i)
                )
                for i in range(ARRAYS)
            }

    def barrier(self):
        multihost_utils.sync_global_devices("bench")

    def local_arrays(self):
        return [local(leaf) for leaf in jax.tree.leaves(self.state)]

    def make_way(self, way):
        if way.startswith("remesh"):
            return Remesh(
                way.replace(" ", "-"), self._abstract, **self.order["settings"].get(way, {})
            )
        where, asynchronous = way.split()[1], way.endswith("async")
        return Orbax(
            pathlib.Path(self.order[where]) / way.replace(" ", "-"), self._abstract, asynchronous
        )


if __name__ == "__main__":
    logging.getLogger("absl").setLevel(logging.ERROR)
    serve(Side)
    os._exit(0)  # Orbax's threads may keep the process for seconds
