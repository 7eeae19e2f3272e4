# SPDX-License-Identifier: Apache-2.0
"""The network's section: four hosts in network namespaces of this machine, between which 1 Gbit/s
goes each way.

scripts/bench netns [--moves N]. Needs root, `ip` and `tc`: without them it says SKIP and writes
nothing.
"""

import argparse
import dataclasses
import json
import os
import statistics
import sys

import namespaces
from moving_state import MovingState
from report import table

TITLE = "Four hosts at 1 Gbit/s"
TARGETS = ["remesh-server", "remesh-worker", "python_proto"]
STATE = "jobs/bench/states/s"
HOSTS = 4
ROWS, COLUMNS = 32768, 32768  # bf16: 2 GiB
BITS_PER_SECOND = 1_000_000_000
LEAST = 0.95

LEGEND = """Four workers with one device each, every one in a network namespace of its own behind a
veth pair of MTU 9000 with `tbf` of 1 Gbit/s in either direction; the server beside them. A state of
2 GiB, `bf16[32768,32768]`. *LB* is the plan's lower bound: no plan is faster over NICs of
125,000,000 bytes a second; Ethernet's, IP's and TCP's headers, 0.8 %, are in the wall time.
*Transfer* is from the first grant to the last host that verified: it includes all hashing. Medians
of {moves} moves after one that is not counted. All workers share this machine's {cores} cores. Load
average before: {load}."""


@dataclasses.dataclass
class Case:
    title: str
    shardings: tuple  # HLO text of the layouts that moves go between
    devices: tuple  # ids of each


CASES = [
    Case("rows ↔ columns", ("{devices=[4,1]<=[4]}", "{devices=[1,4]<=[4]}"), (range(4), range(4))),
    Case(
        "rows over four ↔ rows over two",
        ("{devices=[4,1]<=[4]}", "{devices=[2,1]<=[2]}"),
        (range(4), range(2)),
    ),
    Case(
        "rows over four ↔ halves of the columns, two copies",
        ("{devices=[4,1]<=[4]}", "{devices=[1,2,2]<=[4] last_tile_dim_replicate}"),
        (range(4), range(4)),
    ),
]


def measure(build, arguments):
    parser = argparse.ArgumentParser(prog="scripts/bench netns")
    parser.add_argument("--moves", type=int, default=4, help="to measure of each case (default 4)")
    options = parser.parse_args(arguments)
    namespaces.skip_unless_possible()
    sys.path.insert(0, str(build / "python"))
    load = " ".join(f"{x:.1f}" for x in os.getloadavg())
    rows = []
    with namespaces.network(HOSTS, BITS_PER_SECOND) as names:
        for case in CASES:
            rows += _rows(case, _run(build, names, case, options.moves))
    header = [
        "move",
        "LB s",
        "transfer s",
        "request to commit s",
        "LB ÷ transfer",
        "limit",
        "holds",
        "LB ÷ request to commit",
    ]
    return [
        LEGEND.format(moves=options.moves, cores=os.cpu_count(), load=load),
        "",
        *table(header, rows),
    ]


def _rows(case, moves):
    """A row a direction: they have bounds of their own."""
    for way, name in enumerate(["there", "back"]):
        ours = [move for move in moves if move["generation"] % 2 == (way + 1) % 2]
        bound, transfer, whole = (
            statistics.median(move[key] for move in ours)
            for key in ["bound_seconds", "transfer_seconds", "seconds"]
        )
        yield [
            f"{case.title}, {name}",
            f"{bound:.3f}",
            f"{transfer:.3f}",
            f"{whole:.3f}",
            f"{bound / transfer:.3f}",
            f"≥ {LEAST}",
            "yes" if bound / transfer >= LEAST else "**no**",
            f"{bound / whole:.3f}",
        ]


# ---- the moves ----


def _run(build, names, case, count):
    from remesh.trainer import Trainer

    with namespaces.cluster(
        build,
        names,
        devices_per_host=1,
        buffer_bytes=9 << 30,
        nic_bytes_per_second=BITS_PER_SECOND / 8,
    ) as cluster:
        trainers = [
            Trainer(cluster.server_address, cluster.worker_socket(host))
            for host in cluster.host_names
        ]
        state = MovingState(STATE, [("w", [ROWS, COLUMNS], "bf16")], case.shardings, case.devices)
        state.create(trainers, cluster, BITS_PER_SECOND / 8, 120)
        moves = []
        for generation in range(1, 2 * ((count + 1) // 2) + 2):
            moves.append(_move(state, trainers[0], generation))
            print(f"{case.title}: {json.dumps(moves[-1])}", file=sys.stderr)
        return moves[1:]


def _move(state, trainer, generation):
    ended, seconds, transfer_seconds = state.move(trainer, generation)
    return {
        "generation": generation,
        "bound_seconds": ended.summary.lower_bound_seconds,
        "seconds": seconds,
        "transfer_seconds": transfer_seconds,
        "windows": ended.windows,
    }
