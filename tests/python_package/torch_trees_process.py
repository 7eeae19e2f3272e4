# SPDX-License-Identifier: Apache-2.0
"""A process of torch_trees_test.py: RANK COUNT PORT STORE. Prints one JSON object a line."""

import io
import json
import os
import pickle
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import remesh.torch

warnings.filterwarnings("ignore")


class Counter:
    """Stateful."""

    def __init__(self, count):
        self.count, self.weight = count, torch.full((3,), float(count))

    def state_dict(self):
        return {"count": self.count, "weight": self.weight}

    def load_state_dict(self, state):
        self.count, self.weight = state["count"], state["weight"]


def values(seed):
    """Whole tensors of every kind, equal on all processes."""
    generator = torch.Generator().manual_seed(seed)
    uneven = torch.randn(7, 5, generator=generator)
    return {
        "uneven": uneven,
        "short": torch.randn(2, 3, generator=generator),  # fewer rows than processes
        "mesh": torch.randn(6, 10, generator=generator).to(torch.bfloat16),
        "whole": torch.randint(0, 99, (4, 2), generator=generator),
        "fp8": torch.randn(8, 4, generator=generator).to(torch.float8_e4m3fn),
        "scalar": torch.tensor(float(seed)),
        "flags": torch.tensor([True, False, True]),
        "complex": torch.randn(3, generator=generator, dtype=torch.complex64),
        "empty": torch.zeros(0, 4),
        "transposed": torch.randn(4, 6, generator=generator),
    }


def state_dict(seed, count, columns=False):
    """The values as this world holds them."""
    whole = values(seed)
    line = init_device_mesh("cpu", (count,))
    dim = 1 if columns else 0
    tree = dict(whole)
    for name in ("uneven", "short"):
        tree[name] = distribute_tensor(whole[name], line, [Shard(dim)])
    if count % 2 == 0:
        square = init_device_mesh("cpu", (2, count // 2))
        placements = [Shard(1), Replicate()] if columns else [Shard(0), Shard(0)]
        tree["mesh"] = distribute_tensor(whole["mesh"], square, placements)
    tree["transposed"] = whole["transposed"].t().contiguous().t()
    assert not tree["transposed"].is_contiguous()
    tree["tied"] = tree["uneven"]
    return {
        "model": tree,
        "groups": [{"lr": 0.1 * seed, "names": ["a", "b"]}],
        "note": f"seed {seed}",
        "counter": Counter(seed),
    }


def check(loaded, seed, what):
    """AssertionError unless the bits are those of the seed."""
    for name, want in values(seed).items():
        have = loaded["model"][name]
        have = have.full_tensor() if hasattr(have, "full_tensor") else have
        same = have.dtype == want.dtype and torch.equal(
            have.contiguous().reshape(-1).view(torch.uint8), want.reshape(-1).view(torch.uint8)
        )
        assert same, f"{what}: {name}: {have} instead of {want}"
    assert loaded["groups"] == [{"lr": 0.1 * seed, "names": ["a", "b"]}], loaded["groups"]
    assert loaded["note"] == f"seed {seed}", loaded["note"]
    assert loaded["counter"].count == seed
    assert torch.equal(loaded["counter"].weight, torch.full((3,), float(seed)))


def caught(call):
    """The error, as users see it."""
    try:
        call()
    except BaseException as error:  # pylint: disable=broad-exception-caught  # as DCP's is
        return f"{type(error).__name__}: {error}"
    return ""


def main():
    """See the module's comment."""
    rank, count, _, store, first = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:6]
    os.environ["REMESH_SOCKET"] = os.environ["SOCKETS"].split(",")[rank]
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=count)
    job = remesh.torch.Job("trees")
    say = lambda **fields: print(json.dumps(fields), flush=True)
    if first == "first":
        assert job.load(state_dict(0, count)) is None
        save = job.save(state_dict(1, count), 1, extra={"rank": rank})
        job.save(state_dict(2, count), 2, extra={"rank": rank}).wait(60)
        say(arrays=[name for name, _, _ in job.newest().arrays], seconds=save.seconds)
    own = state_dict(0, count, columns=True)
    kept = {name: each for name, each in own["model"].items()}
    found = job.load(own)
    check(own, found.step, "load")
    assert all(own["model"][name] is each for name, each in kept.items()), "not in place"
    say(step=found.step, extras=found.extras, save=found.save)
    other = state_dict(0, count, columns=True)
    dcp.load(other, storage_reader=job.reader())
    check(other, found.step, "dcp.load")
    # Names, shapes and types that the save does not have.
    strange = {"model": {"uneven": torch.zeros(7, 5, dtype=torch.int32), "more": torch.zeros(2)}}
    say(mismatch=caught(lambda: job.load(strange)))
    before = strange["model"]["more"]
    job.load({**strange, "note": ""}, strict=False)
    assert strange["model"]["more"] is before and not strange["model"]["uneven"].any()
    say(missing_value=caught(lambda: job.load({**state_dict(0, count), "another": 1})))
    say(
        dcp_missing=caught(
            lambda: dcp.load({"nothing": torch.ones(2)}, storage_reader=job.reader())
        )
    )
    # Of DCP's calls, a save that fails, one without collectives, and one by a thread.
    seed = found.step + 1
    say(
        no_collectives=caught(
            lambda: dcp.save(
                state_dict(seed, count), storage_writer=job.writer(seed), use_collectives=False
            )
        )
    )
    bad = {"bad": torch.eye(3).to_sparse() if rank == 1 else torch.eye(3)}
    say(fails=caught(lambda: job.save(bad, seed)))
    dcp.save(state_dict(seed, count), checkpoint_id="mine", storage_writer=job.writer(seed))
    say(labels=job.newest().labels)
    future = dcp.async_save(state_dict(seed + 1, count), storage_writer=job.writer(seed + 1))
    job.group.barrier("while it runs")
    future.result()
    third = state_dict(0, count)
    dcp.load(third, storage_reader=job.reader())
    check(third, seed + 1, "async_save")
    copy = pickle.load(io.BytesIO(pickle.dumps(job.writer(7))))
    assert copy._job is None and copy._step == 7
    job.close()
    say(closed=caught(lambda: job.save({}, 9)))
    dist.destroy_process_group()
    say(ended=True)


if __name__ == "__main__":
    main()
