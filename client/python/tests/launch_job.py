# SPDX-License-Identifier: Apache-2.0
"""A rank of launch_resize_test.py: launch_job.py FOLDER [never]. A job that saves only when it
leaves; with `never` one that saves now and then, and never asks whether it leaves. Prints one JSON
object a line; ends when the folder has the file `ended`."""

import json
import os
import pathlib
import sys
import time

import numpy as np

from remesh import job, storage

SIZE = 1 << 10


def say(**fields):
    """A line of this rank."""
    os.write(1, json.dumps(fields).encode() + b"\n")


def ends(core, step, ended, never):
    """Whether this step is the last one."""
    if not never:
        return core.leaving(step) or ended.exists()
    members = core._group  # pylint: disable=protected-access
    return members.broadcast(f"step {step}", b"ended" if ended.exists() else b"") != b""


def main(folder, never):
    """See the module's comment."""
    core = job.Core("resized", reserve=False, every=5 if never else None)
    array = storage.Array("w", "f32", storage.Holders.everywhere((SIZE,), core.size))
    found = core.restore_arrays([array])
    start = found.step if found else 0
    for step in range(start, 1 << 30):
        if step == start + 1:  # all have asked about a step
            say(pid=os.getpid(), rank=core.rank, size=core.size, start=start)
        if core.should_save(step):
            content = lambda _: np.full((SIZE,), step + 1, np.float32)
            core.save_pieces([job.Piece(array, [((0,), (SIZE,))], content)], step + 1)
            say(saved=step + 1)
        if ends(core, step, folder / "ended", never):
            break
        time.sleep(0.02)
    core.close()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:] == ["never"])
