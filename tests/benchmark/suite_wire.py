# SPDX-License-Identifier: Apache-2.0
"""The wire's section: moves over real processes of this machine, beside MPI and memcpy, and what
bounds them.

scripts/bench wire [--moves N]. MPI is compared with where `mpicc` and `mpirun` are installed
(openmpi-bin, libopenmpi-dev).
"""

import argparse
import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from moving_state import MovingState
from report import table

TITLE = "Execution"
TARGETS = ["remesh-server", "remesh-worker", "python_proto"]
STATE = "jobs/bench/states/s"
SIDE = 8000
ARRAY_BYTES = 8 * SIDE * SIDE
SMALL_ARRAYS, SMALL_BYTES = 8000, 12 << 10
PHASES = ("reserving", "fetching", "opening", "transferring", "verifying", "verified", "committing")
ROWS_AND_COLUMNS = ("{devices=[4,1]<=[4]}", "{devices=[1,4]<=[4]}")

LEGEND = """`remesh-server`, `remesh-worker`s (default settings) and the caller share this machine's
{cores} cores. Medians of {moves} moves after two that are not counted (best in parentheses): the
first ones make memory that later ones use again. MPI: one `MPI_Alltoallw` of subarrays into memory
that is there, without digests, over shared memory (one host) or `--mca btl tcp,self` (four); best
and median of as many rounds, in the same run. Every byte of ours is hashed where it is read and
where it arrives. If a trainer has the source open, it is hashed once more before the commit; *with
the source open* are {open_moves} more moves during which the caller opens the source's files every
5 ms. *Processor seconds* are the workers', which on a machine that does other things as well say
more than wall time. Load average before: {load}."""

BOUNDS = """What a byte costs, in the order of its way: hashed at its origin; copied from there, in
rows of a page or more, into the socket; out of it into its place; hashed there. Shorter rows are
packed before and unpacked after. A byte inside a host: gathered, hashed and put in its place, 16
KiB at a time."""


@dataclasses.dataclass
class Case:
    title: str
    hosts: int
    devices_per_host: int
    arrays: int
    shape: list
    element_type: str
    shardings: tuple  # HLO text of the layouts that moves go between
    devices: tuple  # ids of each
    mpi: list = None  # flags of mpirun

    @property
    def bytes(self):
        size = {"f64": 8, "u8": 1}[self.element_type]
        for extent in self.shape:
            size *= extent
        return size * self.arrays


CASES = [
    Case(
        "one host, 4 devices, 512 MB, rows ↔ columns",
        1,
        4,
        1,
        [SIDE, SIDE],
        "f64",
        ROWS_AND_COLUMNS,
        (range(4), range(4)),
        [],
    ),
    Case(
        "four hosts on loopback, 512 MB, rows ↔ columns",
        4,
        1,
        1,
        [SIDE, SIDE],
        "f64",
        ROWS_AND_COLUMNS,
        (range(4), range(4)),
        ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"],
    ),
    Case(
        f"two hosts, {SMALL_ARRAYS:,} arrays of 12 KiB to the other",
        2,
        1,
        SMALL_ARRAYS,
        [SMALL_BYTES],
        "u8",
        ("{replicated}",) * 2,
        ([0], [1]),
    ),
]


def measure(build, arguments):
    parser = argparse.ArgumentParser(prog="scripts/bench wire")
    parser.add_argument("--moves", type=int, default=8, help="to measure of each case (default 8)")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(build / "python"))
    load = " ".join(f"{x:.1f}" for x in os.getloadavg())
    lines = [
        LEGEND.format(
            cores=os.cpu_count(), moves=options.moves, open_moves=options.moves // 2, load=load
        ),
        "",
    ]
    with tempfile.TemporaryDirectory() as folder:
        mpi = _build_mpi(pathlib.Path(folder))
        for case in CASES:
            print(f"{case.title}", file=sys.stderr)
            theirs = _run_mpi(mpi, case, options.moves) if mpi and case.mpi is not None else []
            with _cluster(build, case) as cluster:
                moves, open_moves = _run(cluster, case, options.moves)
            theirs += _run_mpi(mpi, case, options.moves) if theirs else []
            lines += [
                f"### {case.title[0].upper()}{case.title[1:]}",
                "",
                *table(["figure", "median (best)"], _figures(case, moves, open_moves, theirs)),
                "",
            ]
    return [*lines, BOUNDS]


def _figures(case, moves, open_moves, theirs):
    size = case.bytes

    def row(name, value, form, of=None, lowest=True):
        values = [value(move) for move in (moves if of is None else of)]
        best = min(values) if lowest else max(values)
        return [name, f"{form.format(statistics.median(values))} ({form.format(best)})"]

    yield row("seconds of transfer, with its digests", lambda m: m["transfer_seconds"], "{:.3f}")
    yield row("… with the source open", lambda m: m["transfer_seconds"], "{:.3f}", open_moves)
    yield row("seconds, request to commit", lambda m: m["seconds"], "{:.3f}")
    if theirs:
        yield row("MPI: seconds", lambda m: m[0], "{:.3f}", theirs)
        yield row("MPI: processor seconds a GB", lambda m: m[1] / size * 1e9, "{:.2f}", theirs)
        ours = statistics.median(move["transfer_seconds"] for move in moves)
        yield [
            "**transfer ÷ MPI**",
            f"{ours / statistics.median(m[0] for m in theirs):.2f} "
            f"({min(m['transfer_seconds'] for m in moves) / min(m[0] for m in theirs):.2f})",
        ]
    yield row(
        "request to commit ÷ transfer", lambda m: m["seconds"] / m["transfer_seconds"], "{:.2f}"
    )
    yield row(
        "milliseconds beside the transfer",
        lambda m: 1e3 * (m["seconds"] - m["transfer_seconds"]),
        "{:.0f}",
    )
    yield row(
        "GB/s, request to commit", lambda m: size / m["seconds"] / 1e9, "{:.2f}", lowest=False
    )
    yield row("processor seconds a GB", lambda m: (m["user"] + m["system"]) / size * 1e9, "{:.2f}")
    yield row("of these in the kernel", lambda m: m["system"] / size * 1e9, "{:.2f}")
    yield row("page faults of the workers", lambda m: m["faults"], "{:.0f}")
    for phase in PHASES:
        yield row(
            f"seconds {phase}, mean of the workers",
            lambda m, phase=phase: m["phases"][phase],
            "{:.3f}",
        )
    yield row(
        "memcpy of as much on one core, seconds", lambda m: size / m["memcpy"] / 1e9, "{:.3f}"
    )


def _build_mpi(folder):
    if not shutil.which("mpicc") or not shutil.which("mpirun"):
        print("no mpicc or mpirun: nothing to compare with", file=sys.stderr)
        return None
    binary = folder / "mpi_rows_to_columns"
    subprocess.run(
        ["mpicc", "-O2", "-o", binary, pathlib.Path(__file__).with_name("mpi_rows_to_columns.c")],
        check=True,
    )
    return binary


def _run_mpi(binary, case, rounds):
    """(seconds, processor seconds) of each round but the first."""
    command = [
        "mpirun",
        "--allow-run-as-root",
        "--oversubscribe",
        *case.mpi,
        "-n",
        "4",
        str(binary),
        str(SIDE),
        str(rounds + 1),
    ]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [tuple(float(word) for word in line.split()) for line in output.splitlines()][1:]


def _cluster(build, case):
    from remesh.testing import LocalCluster  # built by TARGETS

    return LocalCluster(
        build / "bin",
        case.hosts,
        devices_per_host=case.devices_per_host,
        buffer_bytes=3 * case.bytes,
    )


def _run(cluster, case, count):
    from remesh.trainer import Trainer

    trainers = [
        Trainer(cluster.server_address, cluster.worker_socket(host)) for host in cluster.host_names
    ]
    arrays = [(f"w{array}", case.shape, case.element_type) for array in range(case.arrays)]
    state = MovingState(STATE, arrays, case.shardings, case.devices)
    state.create(trainers, cluster, 12.5e9, 60)
    moves = []
    for generation in range(1, 2 + count + count // 2 + 1):
        before, phases_before = _usage(cluster), _phases(cluster)
        with (
            _open_now_and_then(trainers, generation)
            if generation > 2 + count
            else contextlib.nullcontext()
        ):
            move = _move(state, trainers[0], generation)
        after, phases_after = _usage(cluster), _phases(cluster)
        move |= {key: after[key] - before[key] for key in after}
        move["phases"] = {
            phase: (phases_after[phase] - phases_before[phase]) / case.hosts for phase in PHASES
        }
        move["memcpy"] = _memcpy_gigabytes_a_second()
        print(f"move {generation}: {json.dumps(move)}", file=sys.stderr)
        moves.append(move)
    return moves[2 : 2 + count], moves[2 + count :]


@contextlib.contextmanager
def _open_now_and_then(trainers, generation):
    """Opens the files of a generation every 5 ms, for a moment: a file that is open when it retires
    is not recycled."""
    paths = {shard.info.path for trainer in trainers for shard in trainer.read(STATE, generation)}
    over = threading.Event()

    def run():
        while not over.wait(0.005):
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    os.close(os.open(path, os.O_RDWR))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _move(state, trainer, generation):
    ended, seconds, transfer_seconds = state.move(trainer, generation)
    return {"seconds": seconds, "transfer_seconds": transfer_seconds, "windows": ended.windows}


def _usage(cluster):
    """Processor seconds and page faults of all workers so far."""
    total = collections.Counter()
    ticks = os.sysconf("SC_CLK_TCK")
    for worker in cluster.workers.values():
        fields = (
            pathlib.Path(f"/proc/{worker.popen.pid}/stat").read_text().rsplit(")", 1)[1].split()
        )
        total += {
            "user": int(fields[11]) / ticks,
            "system": int(fields[12]) / ticks,
            "faults": int(fields[7]),
        }
    return total


def _phases(cluster):
    """Seconds that attempts spent in each phase, summed over the workers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    total = collections.Counter()
    for host in cluster.host_names:
        port = re.search(r"metrics_port: (\d+)", (cluster.root / f"{host}.ports").read_text())[1]
        text = opener.open(f"http://127.0.0.1:{port}/metrics", timeout=30).read().decode()
        for phase, seconds in re.findall(
            r'remesh_worker_phase_seconds_sum\{phase="(\w+)"\} (\S+)', text
        ):
            total[phase] += float(seconds)
    return total


def _memcpy_gigabytes_a_second():
    import numpy

    source, target = numpy.ones(1 << 27, numpy.uint8), numpy.zeros(1 << 27, numpy.uint8)
    numpy.copyto(target, source)
    started = time.process_time()
    numpy.copyto(target, source)
    return len(source) / (time.process_time() - started) / 1e9
