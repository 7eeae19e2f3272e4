# SPDX-License-Identifier: Apache-2.0
"""A rank of launch_test.py: launch_rank.py FOLDER [BEHAVIOUR]. Prints one JSON object a line.

It runs until it is told to end. SIGTERM to any rank makes all ranks of the world leave, as a job
does that calls leaving(), but for those with the behaviour "deaf", or "deaf:RANK", of the first
world."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time


def say(**fields):
    """A line of this rank."""
    os.write(1, json.dumps({"rank": RANK, **fields}).encode() + b"\n")  # in a handler, too


def leave(folder, behaviour):
    """Waits until a rank of this world is asked to leave; the exit status."""
    told = folder / f"told.{os.environ['REMESH_ATTEMPT']}"
    ended = folder / "ended"  # by the test: the job is done
    deaf = behaviour == "deaf" or behaviour == f"deaf:{RANK}" and FIRST_WORLD
    if deaf:
        signal.signal(signal.SIGTERM, lambda *_: say(told=True))
    else:
        signal.signal(signal.SIGTERM, lambda *_: told.touch())
    say(
        pid=os.getpid(),
        size=int(os.environ["REMESH_WORLD_SIZE"]),
        environment={each: os.environ.get(each, "") for each in VARIABLES},
    )
    while not ended.exists():
        if told.exists() and not deaf:
            say(saved=True)
            return 75 if behaviour.startswith("resize") else 143
        time.sleep(0.01)
    return 0


VARIABLES = (
    *("REMESH_RANK", "REMESH_WORLD_SIZE", "REMESH_ATTEMPT", "REMESH_COORDINATOR", "REMESH_SOCKET"),
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
)
RANK = int(os.environ["REMESH_RANK"])
FIRST_WORLD = os.environ["REMESH_ATTEMPT"].endswith(".0")

if __name__ == "__main__":
    where, how = pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    if how == "child":  # one that does not end with its parent by itself
        child = subprocess.Popen(["sleep", "1000"])
        say(child=child.pid)
    status = leave(where, how)
    if how.startswith("resize:") and RANK == 1:
        from remesh.job.leaving import ask_for_size

        ask_for_size(int(how.split(":")[1]))
    sys.exit(status)
