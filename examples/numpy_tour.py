#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The life of a state, with NumPy alone: create, write, seal, move, read, delete.

On the host of a worker: REMESH_SOCKET=/run/remesh/worker.sock examples/numpy_tour.py
Without REMESH_SOCKET it starts a server and a worker of its own (REMESH_BIN_DIR or PATH)."""
import contextlib
import os

import numpy as np

import remesh
from remesh import buffers, layout
from remesh.testing import LocalCluster

WEIGHTS = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)


def tour(client: remesh.Client) -> None:
    devices = client.host.device_ids
    by_rows = layout.named({"x": len(devices)}, ("x",), devices)
    by_columns = layout.named({"x": len(devices)}, (None, "x"), devices)
    state = client.create("jobs/tour/states/weights", {"w": remesh.Array(WEIGHTS.shape, "f32", by_rows)})
    buffers.write((shard, WEIGHTS[shard.box.slices]) for shard in state.allocate())
    state.seal()
    state = state.wait_ready()
    moved = state.reshard({"w": by_columns}).wait()
    for shard in state.read(moved.generation):
        assert np.array_equal(shard.values(), WEIGHTS[shard.box.slices])
        print(f"device {shard.info.device} holds w{list(shard.box.lo)} to {list(shard.box.hi)}")
    state.delete(wait=10)


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        socket = os.environ.get("REMESH_SOCKET")
        if not socket:
            socket = stack.enter_context(LocalCluster(devices_per_host=4)).worker_socket("host-0")
        tour(stack.enter_context(remesh.connect(socket)))
