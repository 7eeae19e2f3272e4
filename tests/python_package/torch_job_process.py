# SPDX-License-Identifier: Apache-2.0
"""One process of torch_job_test.py's worlds, under torchrun: trains the example's transformer,
saves to remesh and to DCP's files, and prints one JSON a line. If there is a save it restores both,
and trains both on: their digests and losses must be equal.
"""

import hashlib
import json
import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

import remesh.torch
import torch_elastic

warnings.filterwarnings("ignore")


def digest(app):
    """Of the whole state, whatever the world's size."""
    result = hashlib.sha256()
    planner, items = remesh.torch.values.plan_of(app.state_dict())
    for name in sorted({item.index.fqn for item in items}):
        value = planner.state_dict[name]
        value = value.full_tensor() if hasattr(value, "full_tensor") else value
        data = (
            remesh.torch.values.content(value).tobytes()
            if torch.is_tensor(value)
            else repr(value).encode()
        )
        result.update(name.encode() + data)
    return result.hexdigest()[:16]


def main(order):
    """See the module's comment."""
    rank = int(os.environ["RANK"])
    os.environ["REMESH_SOCKET"] = order["sockets"][rank]
    dist.init_process_group("gloo")
    say = lambda **fields: print(json.dumps(fields), flush=True) if rank == 0 else None
    if order["data_parallel"]:
        torch_elastic.fully_shard = lambda module, mesh: (
            torch.distributed._composable.replicate(module)
            if module.__class__ is torch_elastic.Transformer
            else None
        )
    job = remesh.torch.Job("torch-job", every=4, replicas=order["replicas"])
    apps = [torch_elastic.App()]
    found = job.load({"app": apps[0]})
    start = found.step if found else 0
    if found:
        assert found.extras == [
            {"step": start, "rank": each} for each in range(len(found.extras))
        ], found.extras
        apps.append(torch_elastic.App())
        dcp.load({"app": apps[1]}, checkpoint_id=f"{order['files']}/{start}")
        say(
            restored=start,
            digests=[digest(app) for app in apps],
            saved_by=len(found.extras),
            seconds=found.seconds,
        )
    for step in range(start, order["steps"]):
        say(step=step, losses=[app.train(step).hex() for app in apps])
        if job.should_save(step):
            job.save({"app": apps[0]}, step + 1, extra={"step": step + 1, "rank": rank})
            dcp.save({"app": apps[0]}, checkpoint_id=f"{order['files']}/{step + 1}")
            say(saved=step + 1, digest=digest(apps[0]))
    job.close()
    dist.destroy_process_group()
    say(ended=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
