#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train.py of the examples beside it: the part of a training loop that talks to remesh, without a
framework. One such process on each node, or several (torchrun), of which the first writes.

A job of JAX or PyTorch calls remesh.jax.Job or remesh.torch.Job instead, which save and restore by
themselves: trainer-jax.yaml, docs/training.md. Both need the Python package (build/release/dist),
and from the pod REMESH_SERVER, REMESH_SOCKET, with TLS also REMESH_TLS_CA, REMESH_TLS_CERT and
REMESH_TLS_KEY. This one needs DEVICES, of all nodes, and which of the processes it is.
"""

import os

import numpy as np

import remesh
from remesh import buffers, errors, layout

STATE = "jobs/llama/states/parameters"
DEVICES = int(os.environ.get("DEVICES", "16"))
# Set by an indexed Job, which JobSet makes, or by torchrun and PyTorchJob.
RANK = int(os.environ.get("JOB_COMPLETION_INDEX") or os.environ.get("RANK") or 0)
FIRST_HERE = os.environ.get("LOCAL_RANK", "0") == "0"  # of this node's processes
SECONDS = 600.0


def state_of(client: remesh.Client, arrays) -> remesh.State:
    """Every process makes the same calls: the first one creates the state."""
    try:
        return client.create(STATE, arrays)
    except errors.AlreadyExists:
        return client.state(STATE)


def write(state: remesh.State) -> None:
    """This node's shards: each element is the first row of its shard."""
    shards = state.local.allocate(wait=SECONDS)
    buffers.write(
        (shard, np.full(shard.box.shape, shard.box.lo[0], np.float32)) for shard in shards
    )
    state.local.seal()


def main() -> None:
    rows = layout.named({"x": DEVICES}, ("x",), range(DEVICES))
    columns = layout.named({"x": DEVICES}, (None, "x"), range(DEVICES))
    with remesh.connect() as client:
        state = state_of(client, {"weight": remesh.Array((1024, 1024), "f32", rows)})
        if FIRST_HERE:
            write(state)
        state = state.wait_ready(SECONDS)
        generation = state.generation
        if (
            generation == 1
        ):  # no process has moved it; of those that do now, one request id makes one move
            move = state.reshard({"weight": columns}, request_id="to columns")
            generation = move.wait(SECONDS).generation
        step = 1024 // DEVICES
        for shard in state.local.read(generation, wait=SECONDS):
            values = (
                shard.values()
            )  # jax.device_put(values, device) or torch.from_numpy(values) takes them
            assert values.shape == (1024, step)
            assert all((values[row] == row // step * step).all() for row in range(1024))
        print(f"process {RANK}: generation {generation} is here", flush=True)


if __name__ == "__main__":
    main()
