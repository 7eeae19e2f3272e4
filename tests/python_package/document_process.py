# SPDX-License-Identifier: Apache-2.0
"""Runs the code of docs/training.md as it stands: document_process.py WHICH. See
document_test.py."""

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


def torch_lines():
    """The lines of a PyTorch job and its object of model and optimizer, started twice."""
    import torch

    names = {}
    exec(code("python", "class App"), names)  # pylint: disable=exec-used
    program = code("diff", "remesh.torch.Job")
    trained = []
    for steps in (200, 400):
        torch.manual_seed(steps)  # the second start begins with other weights
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

        def train(step, model=model, optimizer=optimizer):
            trained.append((step, model.weight.detach().clone()))
            model(torch.ones(3, 2)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            moments = optimizer.state[model.weight]
            assert int(moments["step"]) == step + 1, moments

        app = names["App"](model, optimizer)
        exec(program, {"app": app, "train": train, "STEPS": steps})  # pylint: disable=exec-used
        trained.append((-1, model.weight.detach().clone()))
    assert [step for step, _ in trained] == [*range(200), -1, *range(200, 400), -1]
    assert torch.equal(trained[200][1], trained[201][1]), "other weights than those saved"


class Trainer:
    """What transformers.Trainer does with a callback, as its documentation says: the hooks, their
    order and their arguments, and that it stops at max_steps or when it is told to."""

    def __init__(self, callback, max_steps, accumulate):
        import torch

        torch.manual_seed(0)
        self.callback, self.accumulate = callback, accumulate
        self.model = torch.nn.Linear(4, 2)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.lr_scheduler = torch.optim.lr_scheduler.LinearLR(self.optimizer, total_iters=8)
        self.state = types.SimpleNamespace(global_step=0, max_steps=max_steps)
        self.control = types.SimpleNamespace(should_training_stop=False)

    def call(self, hook):
        """A hook, with what a Trainer hands to each."""
        objects = {
            "model": self.model,
            "optimizer": self.optimizer,
            "lr_scheduler": self.lr_scheduler,
            "train_dataloader": [],
        }
        getattr(self.callback, hook)(None, self.state, self.control, **objects)

    def train(self):
        """Until max_steps."""
        import torch

        self.call("on_train_begin")
        while (
            self.state.global_step < self.state.max_steps and not self.control.should_training_stop
        ):
            self.call("on_step_begin")
            generator = torch.Generator().manual_seed(self.state.global_step)
            for micro in range(self.accumulate):
                self.model(torch.randn(3, 4, generator=generator)).square().mean().backward()
                if micro < self.accumulate - 1:
                    self.call("on_substep_end")
            self.optimizer.step()
            self.lr_scheduler.step()
            self.optimizer.zero_grad()
            self.state.global_step += 1
            self.call("on_step_end")
        self.call("on_train_end")
        return self.model.weight.detach().clone()


class TrainerCallback:
    """Its documented hooks that Trainer calls: each does nothing."""

    def on_train_begin(self, args, state, control, **kwargs):
        """Before the first step."""

    def on_step_begin(self, args, state, control, **kwargs):
        """Before each optimizer step's first micro-batch."""

    def on_substep_end(self, args, state, control, **kwargs):
        """After a micro-batch that is not the last of its optimizer step."""

    def on_step_end(self, args, state, control, **kwargs):
        """After an optimizer step."""

    def on_train_end(self, args, state, control, **kwargs):
        """After the last step."""


def callback():
    """A training that stops half way and is started again ends where an uninterrupted one ends."""
    import torch

    import remesh.torch

    stand_in = types.ModuleType("transformers")
    stand_in.TrainerCallback = TrainerCallback
    sys.modules["transformers"] = stand_in
    names = {}
    exec(code("python", "TrainerCallback"), names)  # pylint: disable=exec-used
    make = lambda name: names["RemeshCallback"](remesh.torch.Job(name, every=3))
    whole = Trainer(make("whole"), 8, 2).train()
    Trainer(make("halves"), 5, 2).train()  # the save of step 3 is its last one
    second = Trainer(make("halves"), 8, 2)
    second.call("on_train_begin")
    assert second.state.global_step == 3, second.state
    second.callback.job.close()
    resumed = Trainer(make("halves"), 8, 2).train()
    assert torch.equal(whole, resumed), (whole, resumed)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print(f"{sys.argv[1]}: ran")
