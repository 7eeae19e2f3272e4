# SPDX-License-Identifier: Apache-2.0
"""Worlds of real processes that exchange over a server: exchange_test.py uses it.

A keeper process has imported everything and forks the members of each world. It reads one order a
line (JSON). Members print one JSON object a line; {"all_ended": true} follows the last one of a
world. At SIGUSR1 a process writes the stacks of its threads to stderr.
"""

import faulthandler
import json
import os
import random
import signal
import sys
import time
import traceback

from remesh import calls, errors
from remesh.connection import ServerConnection
from remesh.server_group import ServerGroup
from remesh.world_place import Place

VICTIM = 5
MODES = ("barrier", "agree", "broadcast", "gather", "gather_all")
STOPPED_SECONDS = 4.0  # the deadline of a round that lacks a stopped member
LATE_SECONDS = 3.0  # the deadline of a round to which one comes too late
DEADLINE = 60.0


def say(**fields):
    """One write, so that lines of several members do not mix."""
    os.write(1, json.dumps(fields).encode() + b"\n")


def caught(call):
    """What a call returns or raises, as text, and the error."""
    try:
        result = call()
        if isinstance(result, list):
            result = b",".join(result)
        return f"OK {(result or b'').decode()}", None
    except errors.RemeshError as error:
        reason = "SERVER_AWAY" if isinstance(error, errors.ServerAway) else error.reason
        return f"{reason}: {error.message}", error


def join(order, rank):
    """The member of this process."""
    channel = ServerConnection(order["server"], calls.CHANNEL_OPTIONS).channel()
    place = Place(rank, order["size"], order.get("attempt", ""))
    return ServerGroup(
        order["scope"], lambda: channel, place, deadline=DEADLINE, host=f"host-{rank}"
    )


def contribute(group, mode, case):
    """One round of a mode, in which the victim is different."""
    odd = group.rank == VICTIM
    name = "other" if odd and case == "name" else "same"
    structure, value = (odd and case == each for each in ("structure", "value"))
    payload = b"odd" if value else b"v"
    if mode == "barrier":
        return group.agree(name, b"") if structure else group.barrier(name)
    if mode == "agree":
        return group.agree_on(name, b"list" if structure else b"dict", [payload])
    root = 1 if structure else 0
    if mode == "broadcast":
        return group.broadcast(name, payload, root)
    if mode == "gather" or structure:
        return group.gather(name, payload, root)
    return group.gather_all(name, payload)


def table(order, rank):
    """A member that comes to the order's cases one after the other, and says what it was told."""
    group = join(order, rank)
    for case in order["cases"]:
        group.barrier(f"before {case}")
        if case == "stopped":
            group._deadline = STOPPED_SECONDS
        if rank == VICTIM and case in ("killed", "stopped", "silent"):
            say(victim=os.getpid(), case=case, at=time.monotonic())
            os.kill(os.getpid(), signal.SIGKILL if case == "killed" else signal.SIGSTOP)
            time.sleep(0.1)  # another thread may have taken the signal: this one stops soon
        begin = time.monotonic()
        told, _ = caught(lambda case=case: contribute(group, order["mode"], case))
        say(rank=rank, case=case, told=told, begin=begin, end=time.monotonic())
        group._deadline = DEADLINE
    group.close()


def mixed(order, rank):
    """A member that exchanges a number of rounds of all kinds, whatever happens to the server. When
    its world is over it joins the next one."""
    number, worlds = 0, 0
    while number < order["rounds"]:
        group = join(order, rank)
        worlds += 1
        told, error = caught(lambda: group.gather_all("from", b"%d" % number))
        say(rank=rank, epoch=group.epoch, round=-1, told=told)
        if error is None:
            number = max(map(int, told[3:].split(",")))
        while error is None and number < order["rounds"]:
            told, error = caught(lambda: one_round(group, number))
            say(rank=rank, epoch=group.epoch, round=number, told=told)
            number += 1
            if error is not None and group.failure() is None:
                error = None  # of that round alone
        group.close()
    say(rank=rank, ended=True, worlds=worlds)


def one_round(group, number):
    """The kind of a round, by its number, and what each brings: see expected()."""
    kind, odd = kind_of(number, group.size)
    mine = b"%d.%d" % (group.rank, number)
    is_odd = group.rank == odd
    if kind == "barrier":
        return group.barrier("b")
    if kind == "name":
        return group.barrier("other" if is_odd else "b")
    if kind == "agree":
        return group.agree("a", b"1")
    if kind == "value":
        return group.agree("a", b"odd" if is_odd else b"1")
    if kind == "gather":
        return group.gather("g", mine, odd)
    if kind == "gather_all":
        return group.gather_all("g", mine)
    if kind == "late" and is_odd:
        time.sleep(2 * LATE_SECONDS)
    if kind == "late":
        return group.barrier("l", LATE_SECONDS)
    return group.broadcast("r", mine, odd)


def kind_of(number, size):
    """The kind of a round, and the member that differs or is its root."""
    draw = random.Random(number)
    kinds = ("barrier", "name", "agree", "value", "gather", "gather_all", "broadcast")
    return "late" if number % 100 == 50 else draw.choice(kinds), draw.randrange(size)


def expected(number, rank, size):
    """What a member is told of the round, unless its world ends."""
    kind, odd = kind_of(number, size)
    all_named = [f"{each}@host-{each}" for each in range(size)]
    others = [each for each in range(size) if each != odd]
    groups = [others, [odd]] if odd else [[odd], others]
    named = [", ".join(all_named[each] for each in ranks) for ranks in groups]
    if kind in ("gather", "gather_all"):
        told = ",".join(f"{each}.{number}" for each in range(size))
        return f"OK {told if kind == 'gather_all' or rank == odd else ''}"
    if kind == "broadcast":
        return f"OK {odd}.{number}"
    if kind == "value":
        parties = " | ".join(named)
        return f"VALUES_DIFFER: a: values differ in group 0 of leaves; equal ones at {parties}"
    if kind == "name":
        names = ["other" if odd in ranks else "b" for ranks in groups]
        at = [f'{who} at barrier "{name}"' for who, name in zip(named, names)]
        return f"NAME_MISMATCH: members are at different calls: {'; '.join(at)}"
    if kind == "late":
        return f"BARRIER_TIMEOUT: l: not all members came in time; absent: {all_named[odd]}"
    return "OK "


def main():
    """See the module's comment."""
    faulthandler.register(signal.SIGUSR1)
    for line in sys.stdin:
        order = json.loads(line)
        children = []
        for rank in range(order["size"]):
            child = os.fork()
            if child == 0:
                try:
                    {"table": table, "mixed": mixed}[order["program"]](order, rank)
                except BaseException:  # pylint: disable=broad-except
                    say(rank=rank, error=traceback.format_exc()[-1500:])
                os._exit(0)
            children.append(child)
        say(pids=children)
        for _ in children:
            child, status = os.wait()
            if status not in (0, signal.SIGKILL):
                why = os.waitstatus_to_exitcode(status)
                say(rank=children.index(child), error=f"the process ended with {why}")
        say(all_ended=True)


if __name__ == "__main__":
    main()
