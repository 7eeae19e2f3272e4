# SPDX-License-Identifier: Apache-2.0
"""One of the 16 processes of coordination_texts_test.py: RANK SIZE. Does what each line of its input
asks, and prints the text of the error that it raised, "" if none."""

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


def main():
    """See the module's comment."""
    client, group = remesh.connect(), None
    for line in sys.stdin:
        order = json.loads(line)
        text = ""
        try:
            if "join" in order:
                coordination.use(None)
                if group is not None:
                    group.close()
                place = Place(RANK, SIZE, order["join"])
                group = ServerGroup(
                    "jobs/texts/worlds/all",
                    client.channel,
                    place,
                    deadline=order["deadline"],
                    host=f"host-{RANK}",
                )
                coordination.reached_preemption_sync_point(0, group=group)
            else:
                call(group, order["call"], order["fault"])
        except errors.RemeshError as error:
            text = str(error)
        print(json.dumps(text), flush=True)


if __name__ == "__main__":
    main()
