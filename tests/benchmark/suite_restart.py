# SPDX-License-Identifier: Apache-2.0
"""The restart's section: what saves and restores of jobs cost, beside Orbax, DCP and memcpy.

scripts/bench restart [--mib N] [--rounds N] [--sides NAMES]. This file alone prints the section
instead (a trial: --mib 24 --rounds 1).
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from report import ROOT, table
from restart.process import ARRAYS
from restart.rounds import HOSTS, Run
from restart.sides import SIDES
from restart.usage import OtherPrograms

TITLE = "Save and restart"
TARGETS = ["remesh-server", "remesh-worker", "python_proto"]
BUSY_LOAD = 1.0

LEGEND = """`remesh-server`, {hosts} `remesh-worker`s (default settings) and the processes share
this machine's {cores} cores. The state is {arrays} arrays of f32, {mib} MiB together, cut by rows
over one device a process. {rounds} rounds after one that is not counted; in each, every way in
turn, in the other direction in every second round. A figure is the median (least–most). A ratio is
taken in each round; its median is given. A phase is from the call to its return on the slowest
process, exchanges between processes included.

*blocks*: until the arrays may be written again. *committed*: until the save is whole and the one
before it is deleted. *memcpy*: as many bytes, on all processes at once, into memory that is there.
*remesh*: the memory of each save is reserved in the background after the save before; *cold*: it is
not (`reserve=False`). *disk*: files that stay in the page cache: nothing waits for the disk, and
restores read memory. Between two measurements everything is written back. *restored*: the call.
*and read*: until each page was read once, too, for remesh maps pages, which costs when they are
first read. *processors*: seconds of the processes + of server and workers, those of reserving the
next save's memory among them. *peak tmpfs*: of two saves, one after the other, from nothing.

Load average before: {load}; during it other programs used {others:.2f} cores.{busy}"""


def measure(build, arguments):
    parser = argparse.ArgumentParser(prog="scripts/bench restart")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--sides", default=",".join(side.name for side in SIDES))
    arguments = parser.parse_args(arguments)
    subprocess.run([ROOT / "scripts" / "python-environment"], check=True)
    sys.path.insert(0, str(build / "python"))
    load, others = os.getloadavg()[0], OtherPrograms()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-restart-", dir=ROOT / "build"))
    try:
        runs = [
            Run(build, side, arguments, folder).measure()
            for side in SIDES
            if side.name in arguments.sides.split(",")
        ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return section(runs, arguments, load, others.cores(0))


def section(runs, arguments, load, others):
    """Its lines."""
    busy = load > BUSY_LOAD
    mark = " **Busy**: the load was above 1.0, so take times and ratios as orders." if busy else ""
    lines = [
        LEGEND.format(
            hosts=HOSTS,
            cores=os.cpu_count(),
            arrays=ARRAYS,
            mib=f"{arguments.mib:,}",
            rounds=arguments.rounds,
            load=f"{load:.1f}",
            others=others,
            busy=mark,
        )
    ]
    for run in runs:
        lines += ["", f"### {run.side.title}: 2 processes save" + " (busy)" * busy, "", *saves(run)]
        lines += ["", f"### {run.side.title}: restores" + " (busy)" * busy, "", *restores(run)]
        lines += ["", *phases(run)]
    return lines


def saves(run):
    floor = run.results["memcpy"]["seconds"]
    rows = [["memcpy", spread(floor), "", "1", "", "", ""]]
    for way in run.side.ways:
        found = run.results[way]
        peak = f"{run.peaks[way] / 2**20:,.0f} MiB" if way in run.peaks else ""
        rows.append(
            [
                way,
                spread(found["blocks"]),
                spread(found["committed"]),
                ratio(found["blocks"], floor),
                ratio(run.results["remesh"]["blocks"], found["blocks"]) if way != "remesh" else "",
                processors(found, "save_"),
                peak,
            ]
        )
    return table(
        [
            "save",
            "blocks",
            "committed",
            "blocks ÷ memcpy",
            "remesh ÷ it, blocks",
            "processors",
            "peak tmpfs",
        ],
        rows,
    )


def restores(run):
    rows = []
    for prefix, title in [("equal ", "2 → 2"), ("4 to 3 ", "4 → 3")]:
        for way in run.side.restores:
            found, ours = run.results[way], run.results["remesh"]
            against = (
                ratio(ours[prefix + "restored"], found[prefix + "restored"])
                if way != "remesh"
                else ""
            )
            read = ratio(ours[prefix + "read"], found[prefix + "read"]) if way != "remesh" else ""
            rows.append(
                [
                    f"{title}: {way}",
                    spread(found[prefix + "restored"]),
                    spread(found[prefix + "read"]),
                    against,
                    read,
                    processors(found, prefix),
                ]
            )
    head = ["restore", "restored", "and read", "remesh ÷ it", "and read", "processors"]
    return table(head, rows)


def processors(found, prefix):
    """Of the processes, and of the server and the workers."""
    both = (statistics.median(found[prefix + what]) for what in ("processors", "workers"))
    return " + ".join(f"{seconds:.2f}" for seconds in both) + " s"


def phases(run):
    """remesh's, in words."""
    for title, what in [
        ("A save", "save_phases"),
        ("A restore 2 → 2", "equal phases"),
        ("A restore 4 → 3", "4 to 3 phases"),
    ]:
        found = run.results["remesh"][what]
        parts = ", ".join(
            f"{phase} {spread([each[phase] for each in found])}" for phase in found[0]
        )
        yield f"- {title} by remesh, the slowest process of each phase: {parts}."


def spread(values):
    return f"{statistics.median(values):.3f} s ({min(values):.3f}–{max(values):.3f})"


def ratio(ours, theirs):
    each = [a / b for a, b in zip(ours, theirs)]
    return f"{statistics.median(each):.2f} ({min(each):.2f}–{max(each):.2f})"


if __name__ == "__main__":
    print("\n".join(measure(ROOT / "build" / "release", sys.argv[1:])))
