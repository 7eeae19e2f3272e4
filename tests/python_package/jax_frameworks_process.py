# SPDX-License-Identifier: Apache-2.0
"""Saves a flax.nnx module that trains by optax, with dropout's PRNG keys, from one mesh and
restores it to another, in one process of 8 devices. Prints how many leaves had the same bits, and
the loss of the next step, which a copy that was never saved has too."""

import json
from functools import partial

import flax.nnx as nnx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import remesh.jax
from jax_trees_process import bits

OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2))
RANDOM = np.random.default_rng(0)
INPUTS, WANTED = RANDOM.standard_normal((2, 16, 24)).astype(np.float32)


class Model(nnx.Module):
    """Two layers with dropout and running statistics."""

    def __init__(self, rngs):
        self.up = nnx.Linear(24, 48, rngs=rngs)
        self.norm = nnx.BatchNorm(48, rngs=rngs)
        self.drop = nnx.Dropout(0.2, rngs=rngs)
        self.down = nnx.Linear(48, 24, rngs=rngs, param_dtype=jnp.bfloat16)

    def __call__(self, x):
        return self.down(self.drop(nnx.relu(self.norm(self.up(x)))))


@partial(jax.jit, static_argnums=0)
def trained(graph, state, slots):
    """Model and optimizer after a step, and the loss."""
    model = nnx.merge(graph, state)

    def loss_of(model):
        return jnp.mean((model(INPUTS) - WANTED) ** 2)

    loss, gradients = nnx.value_and_grad(loss_of)(model)
    params = nnx.state(model, nnx.Param)
    updates, slots = OPTIMIZER.update(gradients, slots, params)
    nnx.update(model, optax.apply_updates(params, updates))
    return nnx.state(model), slots, loss


def next_step(graph, tree):
    """The tree after a step, and the loss."""
    model, optimizer, loss = trained(graph, tree["model"], tree["optimizer"])
    return {"model": model, "optimizer": optimizer, "step": tree["step"] + 1}, float(loss)


def placed(tree, count):
    """The tree on a mesh of so many devices: cut into rows where they divide."""
    mesh = jax.make_mesh(
        (count,), ("d",), axis_types=(AxisType.Auto,), devices=jax.devices()[-count:]
    )

    def place(leaf):
        rows = leaf.ndim and leaf.shape[0] % count == 0
        return jax.device_put(leaf, NamedSharding(mesh, P("d") if rows else P()))

    return jax.tree.map(lambda leaf: place(leaf) if isinstance(leaf, jax.Array) else leaf, tree)


def abstract_of(tree):
    """What describes it."""
    describe = lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)
    return jax.tree.map(lambda leaf: describe(leaf) if isinstance(leaf, jax.Array) else leaf, tree)


def main():
    """See the module's comment."""
    graph, first = nnx.split(Model(nnx.Rngs(params=0, dropout=1)))
    params = nnx.state(nnx.merge(graph, first), nnx.Param)
    tree, _ = next_step(graph, {"model": first, "optimizer": OPTIMIZER.init(params), "step": 0})
    leaves = 0
    with remesh.jax.Job("frameworks") as job:
        for saved_on, restored_on in ((4, 8), (8, 3)):
            job.save(placed(tree, saved_on), tree["step"], block=True)
            copy = placed(tree, restored_on)
            restored = job.restore(abstract_of(copy)).tree
            assert jax.tree.structure(restored) == jax.tree.structure(copy), "structure"
            for (path, want), have in zip(
                jax.tree_util.tree_flatten_with_path(copy)[0], jax.tree.leaves(restored)
            ):
                assert bits(have) == bits(
                    want
                ), f"{jax.tree_util.keystr(path)}: {have} is not {want}"
                leaves += 1
            tree, loss = next_step(graph, restored)
            assert (
                loss == next_step(graph, copy)[1]
            ), "the restored keys and statistics train on otherwise"
            assert isinstance(tree["step"], int)
    print(json.dumps({"leaves": leaves, "step": tree["step"], "loss": loss}), flush=True)


if __name__ == "__main__":
    main()
