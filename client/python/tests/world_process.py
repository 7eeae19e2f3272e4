# SPDX-License-Identifier: Apache-2.0
"""A process of world_test.py: MODE. RANK and WORLD_SIZE say which of them it is. Prints one JSON
object a line."""

import json
import os
import signal
import sys
import time

import numpy as np

import remesh
from remesh import buffers, job, storage
from remesh.group import exchange, together
from remesh.job.committing import Commit
from remesh.server_group import ServerGroup

SIZE = 1 << 16
_LATE = 2.0  # the deadline of a round to which process 0 comes too late


def say(**fields):
    print(json.dumps(fields), flush=True)


def caught(function):
    """The error that the call raises, as users see it."""
    try:
        function()
    except Exception as error:  # pylint: disable=broad-exception-caught
        return f"{type(error).__name__}: {error}"
    return ""


def piece(value, size=1):
    array = storage.Array("w", "f32", storage.Holders.everywhere((SIZE,), size))
    return job.Piece(array, [((0,), (SIZE,))], lambda _: np.full((SIZE,), value, np.float32))


def wait_line():
    return sys.stdin.readline()


def rounds(client):
    """Every kind of round, what fails in it, and its text."""
    with ServerGroup(
        "jobs/rounds/worlds/main", client.channel, deadline=60, host=f"host-{os.environ['RANK']}"
    ) as group:

        def fail():
            with together(group, "work"):
                if group.rank == 1:
                    raise ValueError("the disk is full")

        say(
            rank=[group.rank, group.size],
            members=[each.host for each in group.members],
            gathered=[
                each.hex()
                for each in group.gather("bits", b"\x7f\xc0" + bytes([group.rank]), to=1) or []
            ],
            broadcast=len(
                group.broadcast("wide", bytes(9 << 20) if group.rank == 2 else b"", root=2)
            ),
            agreed=caught(lambda: group.agree("same", b"1")),
            differ=caught(lambda: group.agree("step", str(group.rank // 2).encode())),
            structure=caught(
                lambda: group.agree_on("tree", b"dict" if group.rank else b"list", [b"1"])
            ),
            names=caught(lambda: group.barrier("a" if group.rank == 0 else "b")),
            late=caught(
                lambda: (
                    group.barrier("late", deadline=_LATE) if group.rank else time.sleep(2 * _LATE)
                )
            ),
            # Whoever was absent is answered so when it comes.
            told=caught(lambda: group.barrier("late", deadline=_LATE) if group.rank == 0 else None),
            failure=caught(fail),
            decided=exchange(
                group, "sum", bytes([group.rank]), lambda each: bytes([sum(one[0] for one in each)])
            ).hex(),
        )


def lose(client):
    """Process 1 dies while the others wait for it."""
    group = ServerGroup(
        "jobs/lose/worlds/main", client.channel, deadline=60, host=f"host-{os.environ['RANK']}"
    )
    group.barrier("begun")
    if group.rank == 1:
        say(pid=os.getpid())
        signal.pause()
    error = caught(lambda: group.barrier("never"))
    say(error=error, again=caught(lambda: group.barrier("later")), at=time.time())
    group.close()


def restarts(client):
    """Rounds over restarts of the server."""
    with ServerGroup("jobs/restarts/worlds/main", client.channel, deadline=60) as group:
        results = []
        for number in range(60):
            results.append(
                [
                    each.decode()
                    for each in group.gather_all(f"round {number}", b"%d.%d" % (group.rank, number))
                ]
            )
            if group.rank == 0:
                say(round=number)
            time.sleep(0.02)
        say(results=results, epoch=group.epoch)


def leave_steps(core):
    """Steps, each a moment long, until the job leaves or a step raises."""
    for step in range(100000):
        if core.leaving(step):
            return
        time.sleep(0.01)


def save(client):
    """A job whose process 1 dies: in a save, in a restore, in leaving()."""
    core = job.Core("dies", client=client, every=1)
    core.save_pieces([piece(1, core.size)], 1, block=True)
    call = {
        "save": lambda: core.save_pieces([piece(2, core.size)], 2, block=True),
        "restore": lambda: core.restore_arrays([piece(0, core.size).array]),
        "leaving": lambda: leave_steps(core),
    }[os.environ["CALL"]]
    if core.rank == 1:
        say(pid=os.getpid())
        signal.pause()
    say(error=caught(call), at=time.time())
    os._exit(0)


def stop_soon():
    """Stops this process. Returns after it was woken up."""
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(0.5)  # another thread may have taken the signal: this one stops soon


def zombie(client):
    """Stops itself between UpdateState and Seal, or in the middle of its writes (CALL=pwrite).
    Woken up, it tries all that it may not do any more."""
    core = job.Core("z", client=client)
    core.save_pieces([piece(1)], 1, block=True)
    stops = {"seal": stop_before_seal, "pwrite": stop_amid_writes}[os.environ["CALL"]]
    stops()
    saved = []
    committed = caught(lambda: saved.append(core.save_pieces([piece(666)], 2)) or saved[0].wait(60))
    newest = next(
        each for each in client.states("jobs/z") if each.phase == "READY" and "save" in each.name
    )
    fenced = core._client.state(newest.name)  # pylint: disable=protected-access
    say(
        committed=committed,
        delete=caught(fenced.delete),
        update=caught(lambda: fenced.update(step=9)),
        create=caught(
            lambda: core._client.create("jobs/z/states/mine", {})
        ),  # pylint: disable=protected-access
        move=caught(lambda: fenced.reshard({})),
        next=caught(lambda: core.save_pieces([piece(3)], 3)),
    )
    os._exit(0)


def stop_before_seal():
    seal = Commit.seal

    def stops(self):
        stop_soon()
        seal(self)

    Commit.seal = stops


def stop_amid_writes():
    """Half of the bytes are written by a process that stopped in pwrite()."""
    pwrite = buffers._pwrite

    def stops(descriptor, offset, content):
        half = content.nbytes // 2
        pwrite(descriptor, offset, content[:half])
        if content.nbytes == 4 * SIZE:  # not the extras
            stop_soon()
        pwrite(descriptor, offset + half, content[half:])

    buffers._pwrite = stops


def successor(client):
    """Restores and saves, and says what the job's saves hold once the zombie has done its worst."""
    core = job.Core("z", client=client)

    def restored():
        found = core.restore_arrays([piece(0).array])
        return {"restored": found.step, "values": contents(found.shards.of("w"))}

    say(**restored())
    core.save_pieces([piece(4)], 4, block=True)
    core.save_pieces([piece(5)], 5, block=True)
    say(saved=5)
    wait_line()
    ready = [each for each in client.states("jobs/z") if each.phase == "READY"]
    held = [shard for each in ready for shard in client.local(each.name).read(each.generation)]
    say(**restored(), ready=contents(each for each in held if each.info.array == "w"))
    core.close()


def contents(shards):
    """The values that are in the shards."""
    return sorted({float(value) for each in shards for value in np.unique(each.values())})


if __name__ == "__main__":
    with remesh.connect() as connected:
        globals()[sys.argv[1]](connected)
