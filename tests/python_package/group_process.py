# SPDX-License-Identifier: Apache-2.0
"""A process of group_test.py: RANK COUNT PORT FRAMEWORK MEETING-POINT (a file, a server's address).
Prints one JSON object a line."""

import json
import os
import signal
import sys
import time

import coordination_checks
from remesh import coordination, errors
from remesh.group import exchange, together

NOT_A_NUMBER = (
    bytes.fromhex("7fc00123ffc00456") + (2**40 + 1).to_bytes(8, "little") + b"\x80\x00"
)  # what sums and casts would change


def caught(function) -> str:
    """The error that the call raises, as users see it."""
    try:
        function()
    except Exception as error:  # pylint: disable=broad-exception-caught
        return f"{type(error).__name__}: {error}"
    return ""


def fail_on_one(group) -> None:
    with together(group, "work"):
        if group.rank == 1:
            raise ValueError("the disk is full")


def refuse_on_last(group) -> None:
    outcome = (
        errors.NoRoom("no room", metadata={"host": "b", "needed_bytes": "7"})
        if group.rank == group.size - 1
        else b"fine"
    )
    exchange(group, "save", outcome)


def jax_group(rank: int, count: int, port: int):
    import jax
    from remesh.jax_group import JaxGroup

    jax.distributed.initialize(f"127.0.0.1:{port}", count, rank)
    return JaxGroup()


def torch_group(rank: int, count: int, _port: int, deadline: float = 60.0):
    import torch.distributed as dist
    from remesh.torch_group import TorchGroup

    if not dist.is_initialized():
        dist.init_process_group("gloo", f"file://{sys.argv[5]}", rank=rank, world_size=count)
    return TorchGroup(deadline)


def leave_torch(group) -> None:
    """Regression: a process ended with the default group open, and was aborted by a thread of
    torch's that ran while the interpreter was taken down ("terminate called without an active
    exception")."""
    import torch.distributed as dist

    group.close()
    dist.destroy_process_group()


def server_group(rank: int, count: int, _port: int):
    import grpc
    from remesh.server_group import ServerGroup
    from remesh.world_place import Place

    channel = grpc.insecure_channel(sys.argv[5])
    group = ServerGroup(
        "jobs/suite/worlds/main", lambda: channel, Place(rank, count), host=f"host-{rank}"
    )
    coordination.use(group)
    return group


def lose_one(rank: int, count: int, port: int) -> None:
    """The last process stops in one group, and dies in another."""
    short, other = torch_group(rank, count, port, 1.0), torch_group(rank, count, port)
    lost = rank == count - 1
    begun = time.monotonic()
    stopped = "" if lost else caught(lambda: short.barrier("stopped"))
    again = "" if lost else caught(lambda: short.barrier("again"))
    seconds = time.monotonic() - begun
    if lost:
        time.sleep(2.5)
        os.kill(os.getpid(), signal.SIGKILL)
    begun = time.monotonic()
    killed = caught(lambda: other.barrier("killed"))
    print(
        json.dumps(
            {
                "stopped": stopped,
                "again": again,
                "seconds": seconds,
                "killed": killed,
                "killed_seconds": time.monotonic() - begun,
            }
        ),
        flush=True,
    )
    for each in (short, other):
        each.close()
        each.close()
    os._exit(0)


def main() -> None:
    rank, count, port = map(int, sys.argv[1:4])
    framework = sys.argv[4]
    if framework == "lose":
        lose_one(rank, count, port)
    group = {"jax": jax_group, "torch": torch_group, "server": server_group}[framework](
        rank, count, port
    )
    group.barrier("start")
    begun = time.monotonic()
    group.barrier("again")
    barrier_seconds = time.monotonic() - begun
    long_one = bytes([group.rank]) * (1000 + group.rank)
    begun = time.monotonic()
    failure = caught(lambda: fail_on_one(group))
    print(
        json.dumps(
            {
                "rank": [group.rank, group.size],
                "gathered": [
                    each.hex()
                    for each in group.gather("bits", NOT_A_NUMBER + bytes([group.rank])) or []
                ],
                "long": [
                    [each[0], len(each)] for each in group.gather("long", long_one, to=2) or []
                ],
                "short": group.broadcast(
                    "short", NOT_A_NUMBER if group.rank == 2 else b"ignored", root=2
                ).hex(),
                "broadcast": len(
                    group.broadcast("wide", b"x" * 70_000 if group.rank == 0 else b"")
                ),
                "agreed": caught(lambda: group.agree("same", b"1")),
                "differ": caught(lambda: group.agree("step", str(group.rank // 2).encode())),
                "failure": failure,
                "seconds": time.monotonic() - begun,
                "barrier_seconds": barrier_seconds,
                "refusal": caught(lambda: refuse_on_last(group)),
                "decided": exchange(
                    group,
                    "sum",
                    bytes([group.rank]),
                    lambda each: bytes([sum(one[0] for one in each)]),
                ).hex(),
                "coordination": coordination_checks.run(framework, group.rank, group.size),
                "names": caught(lambda: group.barrier("a" if group.rank == 0 else "b")),
            }
        ),
        flush=True,
    )
    if framework == "torch":
        leave_torch(group)


if __name__ == "__main__":
    main()
