# SPDX-License-Identifier: Apache-2.0
"""Worlds of two processes that train nothing, save, and end: torch_exit_process.py WORLDS FOLDER.
Forks them, as importing torch takes seconds. Prints, as JSON, the status of every exit by how the
process ended, and what stderr has of the first that is not 0.
"""

import collections
import json
import os
import pathlib
import sys
import warnings

import torch
import torch.distributed as dist

import remesh.torch

SIZE = 2
ENDINGS = (
    "close and destroy",
    "close",
    "nothing",
    "destroy before close",
    "while it saves",
    "no job",
)
warnings.filterwarnings("ignore")


def life(ending, world, rank, folder):
    """All of a process but its exit."""
    os.environ["REMESH_SOCKET"] = os.environ["SOCKETS"].split(",")[rank]
    dist.init_process_group("gloo", f"file://{folder}/store-{world}", rank=rank, world_size=SIZE)
    total = torch.ones(1000)
    dist.all_reduce(total)
    if ending == "no job":
        return
    job = remesh.torch.Job("exits")
    state = {"w": torch.zeros(1000)}
    found = job.load(state)
    step = found.step if found else 0
    assert not found or float(state["w"][0]) == step, state
    state["w"] += 1
    job.save(state, step + 1, block=ending != "while it saves")
    if ending == "destroy before close":
        dist.destroy_process_group()
    if ending != "nothing":
        job.close()
    if ending == "close and destroy":
        dist.destroy_process_group()


def main(worlds, folder):
    """See the module's comment."""
    statuses = collections.defaultdict(collections.Counter)
    said = ""
    for world in range(worlds):
        ending = ENDINGS[world % len(ENDINGS)]
        children = []
        for rank in range(SIZE):
            child = os.fork()
            if child == 0:
                with open(f"{folder}/log-{world}-{rank}", "w") as log:
                    os.dup2(log.fileno(), 2)
                life(ending, world, rank, folder)
                sys.exit(0)  # as a program ends: with all that Python and the libraries do then
            children.append(child)
        for rank, child in enumerate(children):
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            statuses[ending][code] += 1
            if code and not said:
                said = pathlib.Path(f"{folder}/log-{world}-{rank}").read_text()[-3000:]
    print(json.dumps({"statuses": statuses, "said": said}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
