# SPDX-License-Identifier: Apache-2.0
"""Trains a small transformer on data it makes, over several processes that may die: remesh launch -n 4 -- python jax_elastic.py [STEPS].
Kill any of them: the loss goes on where the last save was, with 3. SIGTERM to one: all save, and leave to go on with another number."""
import os, sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
import remesh.jax

LAYERS, WIDTH, HEADS, WORDS, LENGTH, BATCH, RATE = 2, 96, 4, 48, 32, 24, 3e-3

def init(key):
    keys = iter(jax.random.split(key, 3 + 4 * LAYERS))
    weight = lambda *shape: jax.random.normal(next(keys), shape) / np.sqrt(shape[0])
    layer = lambda: {"qkv": weight(WIDTH, 3 * WIDTH), "out": weight(WIDTH, WIDTH), "up": weight(WIDTH, 4 * WIDTH), "down": weight(4 * WIDTH, WIDTH)}
    params = {"words": weight(WORDS, WIDTH), "places": weight(LENGTH, WIDTH), "layers": [layer() for _ in range(LAYERS)], "head": weight(WIDTH, WORDS)}
    return {"params": params, "mean": jax.tree.map(jnp.zeros_like, params), "square": jax.tree.map(jnp.zeros_like, params), "step": jnp.int32(0)}

def loss_of(params, tokens):
    x = params["words"][tokens[:, :-1]] + params["places"][:tokens.shape[1] - 1]
    norm = lambda x: x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
    for layer in params["layers"]:
        heads = (norm(x) @ layer["qkv"]).reshape(*x.shape[:2], 3, HEADS, WIDTH // HEADS)
        x += jax.nn.dot_product_attention(*jnp.moveaxis(heads, 2, 0), is_causal=True).reshape(x.shape) @ layer["out"]
        x += jax.nn.gelu(norm(x) @ layer["up"]) @ layer["down"]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(norm(x) @ params["head"]), tokens[:, 1:, None], -1))

def train(state, tokens):  # Adam
    loss, gradient = jax.value_and_grad(loss_of)(state["params"], tokens)
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], gradient)
    square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, state["square"], gradient)
    params = jax.tree.map(lambda p, m, s: p - RATE * m / (jnp.sqrt(s) + 1e-8), state["params"], mean, square)
    return {"params": params, "mean": mean, "square": square, "step": state["step"] + 1}, loss

def batch(step, sharding):  # each line counts upwards from a random word by a random stride
    random = np.random.default_rng(step)
    lines = (random.integers(WORDS, size=(BATCH, 1)) + random.integers(1, 6, (BATCH, 1)) * np.arange(LENGTH + 1)) % WORDS
    return jax.make_array_from_callback(lines.shape, sharding, lambda index: lines[index].astype(np.int32))

def main(steps=300):
    processes, rank = (int(os.environ[name]) for name in ("REMESH_WORLD_SIZE", "REMESH_RANK"))
    jax.distributed.initialize(os.environ["REMESH_COORDINATOR"], processes, rank)
    mesh = jax.make_mesh((jax.device_count(),), ("devices",), axis_types=(jax.sharding.AxisType.Auto,))
    rows, whole = NamedSharding(mesh, P("devices")), NamedSharding(mesh, P())
    shapes = jax.eval_shape(init, jax.random.key(0))
    shardings = jax.tree.map(lambda x: rows if x.ndim and x.shape[0] % mesh.size == 0 else whole, shapes)
    job = remesh.jax.Job("jax-elastic", every=10)
    abstract = jax.tree.map(lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s), shapes, shardings)
    state, start, _ = job.restore(abstract) or (jax.jit(init, out_shardings=shardings)(jax.random.key(0)), 0, [])
    step_function = jax.jit(train, donate_argnums=0, out_shardings=(shardings, None))
    for step in range(start, steps):
        state, loss = step_function(state, batch(step, rows))
        print(f"step {step} loss {float(loss):.4f} on {processes} processes", flush=True) if rank == 0 else float(loss)
        if job.should_save(step): job.save(state, step + 1)
        if job.leaving(step): break
    job.close()  # if told to leave, this exits

if __name__ == "__main__": main(*map(int, sys.argv[1:]))
