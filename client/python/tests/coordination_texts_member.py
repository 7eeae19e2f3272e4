# SPDX-License-Identifier: Apache-2.0
"""One of the 16 processes of coordination_texts_test.py: RANK SIZE. Each line of its input names calls,
which it makes at the same time, each in its own world. It prints the text of the error that
each raised, "" if none."""

import concurrent.futures
import json
import sys
import time

import numpy as np

import remesh
from remesh import coordination, errors
from remesh.server_group import ServerGroup
from remesh.world_place import Place

RANK, SIZE = int(sys.argv[1]), int(sys.argv[2])


def tree(fault):
    """What this process passes: at fault it has another shape, or another bit."""
    x = np.array([0.0, 1.0], np.float32)
    if fault == "bit":
        x.view(np.uint32)[1] ^= 1
    return {"a": 1, "x": x[:1] if fault == "shape" else x}


def devices(fault):
    """The list of this process."""
    return {"bit": [4, 6], "shape": [4]}.get(fault, [4, 5])


def reached(group):
    """Steps, until it is one to save or a step raises."""
    step = 0
    while not coordination.reached_preemption_sync_point(step, group=group):
        step += 1
        time.sleep(0.01)


def call(group, name, fault):
    """The call of a utility. fault: of this process."""
    if fault == "name":
        return coordination.barrier("another", group=group)
    return {
        "barrier": lambda: coordination.barrier("b", group=group),
        "sync_global_devices": lambda: coordination.sync_global_devices("s", group=group),
        "broadcast_one_to_all": lambda: coordination.broadcast_one_to_all(
            tree(fault), RANK in (2, 11) if fault == "sources" else None, group=group
        ),
        "process_allgather": lambda: coordination.process_allgather(tree(fault), group=group),
        "assert_equal": lambda: coordination.assert_equal(tree(fault), "seed", group=group),
        "global_axis_size": lambda: coordination.global_axis_size(2, group=group),
        "check_devices": lambda: group.check_devices(devices(fault)),
        "reached_preemption_sync_point": lambda: reached(group),
    }[name]()


def text_of(function):
    """Of the error that it raises."""
    try:
        function()
    except errors.RemeshError as error:
        return str(error)
    return ""


def join(client, name, order):
    """The world of a call."""
    place = Place(RANK, SIZE, order["attempt"])
    return ServerGroup(
        f"jobs/texts/worlds/{name}",
        client.channel,
        place,
        deadline=order["deadline"],
        host=f"host-{RANK}",
    )


def main():
    """See the module's comment."""
    client, groups = remesh.connect(), {}
    pool = concurrent.futures.ThreadPoolExecutor(16)
    for line in sys.stdin:
        order = json.loads(line)
        if "join" in order:
            coordination.use(None)
            for group in groups.values():
                group.close()
            groups = {name: join(client, name, order) for name in order["join"]}
            if "reached_preemption_sync_point" in groups:  # the main thread notices SIGTERM
                reached = groups["reached_preemption_sync_point"]
                coordination.reached_preemption_sync_point(0, group=reached)
            said = "joined"
        else:
            made = {
                name: pool.submit(
                    text_of, lambda name=name: call(groups[name], name, order["fault"])
                )
                for name in order["calls"]
            }
            said = {name: each.result() for name, each in made.items()}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
