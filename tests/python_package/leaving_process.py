# SPDX-License-Identifier: Apache-2.0
"""A process of leaving_test.py: KIND ORDER RANK. Trains a small linear model, saves only when it is
asked to leave, and prints one JSON object a line."""

import json
import sys
import time

import numpy as np

ROWS, COLUMNS, BATCH, RATE = 24, 5, 16, 0.05


def batch(step):
    """Inputs and wanted outputs of a step."""
    random = np.random.default_rng(step)
    inputs = random.standard_normal((BATCH, ROWS)).astype(np.float32)
    return inputs, np.sin(inputs[:, :COLUMNS]) + inputs[:, COLUMNS : 2 * COLUMNS]


def say(**fields):
    """From every process: a step's loss is worth a line of process 0 only."""
    print(json.dumps(fields), flush=True)


class JaxModel:
    """`w` is cut into rows over all devices."""

    def __init__(self, order, rank):
        import jax
        import jax.numpy as jnp
        from jax.sharding import NamedSharding, PartitionSpec

        import remesh.jax

        jax.distributed.initialize(order["coordinator"], order["size"], rank)
        self.job = remesh.jax.Job("leaving", away=order["away"])
        mesh = jax.make_mesh(
            (jax.device_count(),), ("rows",), axis_types=(jax.sharding.AxisType.Auto,)
        )
        rows, whole = NamedSharding(mesh, PartitionSpec("rows")), NamedSharding(
            mesh, PartitionSpec()
        )
        wanted = {"w": jax.ShapeDtypeStruct((ROWS, COLUMNS), np.float32, sharding=rows)}
        found = self.job.restore(wanted)
        self.start = found.step if found else 0
        zeros = jax.jit(lambda: jnp.zeros((ROWS, COLUMNS), np.float32), out_shardings=rows)
        self.state = found.tree if found else {"w": zeros()}

        def train(w, inputs, outputs):
            loss = lambda w: jnp.mean((inputs @ w - outputs) ** 2)
            value, gradient = jax.value_and_grad(loss)(w)
            return w - RATE * gradient, value

        train = jax.jit(train, out_shardings=(rows, whole))

        def step(number):
            self.state["w"], loss = train(self.state["w"], *batch(number))
            return float(loss)

        self.step = step


class TorchModel:
    """`w` is a DTensor, uneven over 5 processes and more."""

    def __init__(self, order, rank):
        import torch
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard, distribute_tensor

        import remesh.torch

        dist.init_process_group("gloo", order["store"], rank=rank, world_size=order["size"])
        self.job = remesh.torch.Job("leaving")
        mesh = init_device_mesh("cpu", (order["size"],))
        self.state = {"w": distribute_tensor(torch.zeros(ROWS, COLUMNS), mesh, [Shard(0)])}
        found = self.job.load(self.state)
        self.start = found.step if found else 0

        def step(number):
            inputs, outputs = map(torch.from_numpy, batch(number))
            w = self.state["w"].full_tensor()
            difference = inputs @ w - outputs
            gradient = 2 / difference.numel() * inputs.T @ difference
            cut = distribute_tensor(gradient, mesh, [Shard(0)], src_data_rank=None)
            self.state["w"].to_local().sub_(RATE * cut.to_local())
            return float((difference**2).mean())

        self.step = step


def main(kind, order, rank):
    """See the module's comment."""
    model = {"jax": JaxModel, "torch": TorchModel}[kind](order, rank)
    job = model.job
    say(start=model.start)
    for step in range(model.start, order["steps"]):
        say(step=step, loss=model.step(step))
        if job.should_save(step):
            job.save(model.state, step + 1)
            say(saved=step + 1)
        if job.leaving(step):
            say(left=step)
            break
        time.sleep(order["pause"])
    job.close()
    say(ended=True)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]))
