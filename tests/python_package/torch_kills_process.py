# SPDX-License-Identifier: Apache-2.0
"""The keeper of torch_kills_test.py: the worlds of client/python/tests/job/job_kills.py, whose
processes are a torch job."""

import contextlib
import pathlib
import sys
import tempfile
import warnings

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

import remesh
import remesh.torch

_TESTS = pathlib.Path(__file__).resolve().parents[2] / "client" / "python" / "tests"
sys.path[:0] = [str(_TESTS / "job"), str(_TESTS)]
import job_kills  # noqa: E402  pylint: disable=wrong-import-position

warnings.filterwarnings("ignore")


def state_dict(step, size):
    """The whole state at a step: no two steps have an element in common."""
    mesh = init_device_mesh("cpu", (size,))
    whole = {name: torch.from_numpy(value) for name, value in job_kills.values(step).items()}
    cut = {
        name: distribute_tensor(value, mesh, [Shard(0)], src_data_rank=None)
        for name, value in whole.items()
        if name != "whole"
    }
    return {"tensors": {**whole, **cut, "tied": cut["rows"]}, "step": step}


def check(state, found, size):
    """AssertionError unless every element, value and extra is of the step that the save claims."""
    want = state_dict(found.step, size)
    assert state["step"] == found.step, (state["step"], found.step)
    for name, value in want["tensors"].items():
        have, value = (
            each.to_local() if hasattr(each, "to_local") else each
            for each in (state["tensors"][name], value)
        )
        assert torch.equal(have, value), f"{name}: {have} instead of {value}"
    assert found.extras == [
        {"rank": rank, "step": found.step} for rank in range(size)
    ], found.extras


def run(order, rank, _):
    """One process of a world: see job_kills.run()."""
    if order.get("bug"):
        job_kills.plant(order["bug"])
    size = len(order["sockets"])
    dist.init_process_group(
        "gloo", f"file://{order['folder']}/rendezvous", rank=rank, world_size=size
    )
    client = remesh.connect(order["sockets"][rank], order["server"])
    job = remesh.torch.Job(
        order["job"], client=client, patience=20.0, commit_seconds=20.0, reserve=order["reserve"]
    )
    state = state_dict(0, size)
    found = job.load(state)
    if found:
        check(state, found, size)
    save = lambda step: job.save(
        state_dict(step, size), step, extra={"rank": rank, "step": step}, block=True
    )
    calls = {"restore": lambda: job.load(state), "leaving": lambda: job_kills.leave(job)}
    return job_kills.live(order, rank, job, found.step if found else None, save, calls)


@contextlib.contextmanager
def surroundings(order):
    """A folder of each world's own. A rendezvous file named by process ids, which are used again in
    a long run, may be an earlier world's, and names ports that are closed."""
    with tempfile.TemporaryDirectory(prefix="torch-kills-") as order["folder"]:
        yield


if __name__ == "__main__":
    job_kills.run = run
    job_kills.surroundings = surroundings
    job_kills.keeper()
