# SPDX-License-Identifier: Apache-2.0
"""Runs the code of docs/training.md as it stands: document_process.py WHICH. See document_test.py."""

import pathlib
import re
import sys
import types

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "training.md"


def code(language, word):
    """The page's block in this language that has the word; of a diff, what it leads to."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (block,) = [each for each in blocks if word in each]
    if language == "diff":
        lines = [line[1:] for line in block.splitlines() if not line.startswith("-")]
        block = "\n".join(lines)
    return compile(block, f"{PAGE.name}: {word}", "exec")


def jax_lines():
    """The five lines of a JAX job, in a loop that is started twice."""
    import jax
    import jax.numpy as jnp

    trained = []

    def train(state, tokens):
        trained.append(tokens)
        return {"w": state["w"] + tokens}, float(state["w"].sum())

    program = code("diff", "remesh.jax.Job")
    names = {
        "init": lambda: {"w": jnp.zeros(8)},
        "abstract": {"w": jax.ShapeDtypeStruct((8,), jnp.float32)},
        "train": train,
        "batch": lambda step: step,
    }
    for steps in (200, 400):
        exec(program, {**names, "STEPS": steps})  # pylint: disable=exec-used
    assert trained == list(range(400)), trained


def accumulation():
    """Saves are of optimizer steps."""
    saved = []
    job = types.SimpleNamespace(
        should_save=lambda step: step % 2 == 1, save=lambda state, step: saved.append((state, step))
    )
    names = {
        "job": job,
        "start": 0,
        "STEPS": 4,
        "ACCUMULATE": 3,
        "state": 0,
        "zeros": lambda: 0,
        "add": lambda a, b: a + b,
        "gradient_of": lambda state, micro_batch: 1,
        "batch": lambda step, micro: (step, micro),
        "update": lambda state, gradients: state + gradients,
    }
    exec(code("python", "ACCUMULATE"), names)  # pylint: disable=exec-used
    assert saved == [(6, 2), (12, 4)], saved


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print(f"{sys.argv[1]}: ran")
