# SPDX-License-Identifier: Apache-2.0
"""The restart's section: what saves and restores of jobs cost, beside Orbax, DCP and memcpy.

scripts/bench restart [--mib N] [--rounds N] [--sides NAMES]. This file alone prints the section
instead (a trial: --mib 24 --rounds 1).
"""

import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from report import ROOT, table

TITLE = "Save and restart"
TARGETS = ["remesh-server", "remesh-worker", "python_proto"]
SOURCE = pathlib.Path(__file__).resolve().parent
HOSTS = 4
ARRAYS = 16  # as in restart_process.py
BUSY_LOAD = 1.0


@dataclasses.dataclass(frozen=True)
class Side:
    """A framework, and the ways to save that are measured, remesh's first."""

    name: str
    title: str
    venv: str
    ways: tuple
    settings: dict

    @property
    def restores(self):
        """Ways that are restored: how they were saved makes no difference to a restore."""
        return tuple(way for way in self.ways if way != "remesh cold" and not way.endswith("async"))

    def python(self):
        return ROOT / "build" / self.venv / "bin" / "python"


COLD = {"remesh cold": {"reserve": False}}
SIDES = [
    Side(
        "jax",
        "JAX",
        "venv",
        ("remesh", "remesh cold", "orbax tmpfs", "orbax tmpfs async", "orbax disk"),
        COLD,
    ),
    Side(
        "torch",
        "PyTorch",
        "venv",
        ("remesh", "remesh cold", "dcp tmpfs", "dcp tmpfs async", "dcp disk"),
        COLD,
    ),
]

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


# ---- processes ----


class World:
    """Processes that obey the same commands."""

    def __init__(self, build, side, cluster, folder, size, order):
        self.size = size
        self._log = folder / f"{side.name}-{size}.log"
        order = {
            **order,
            "size": size,
            "coordinator": f"127.0.0.1:{_free_port()}",
            "settings": side.settings,
        }
        self._processes = [self._start(build, side, cluster, rank, order) for rank in range(size)]
        self._answers()

    def _start(self, build, side, cluster, rank, order):
        environment = {
            **os.environ,
            "REMESH_SOCKET": cluster.worker_socket(cluster.host_names[rank]),
            "JAX_PLATFORMS": "cpu",
            "PYTHONPATH": f"{build / 'python'}{os.pathsep}{SOURCE}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        with open(self._log, "a", encoding="utf8") as log:
            return subprocess.Popen(
                [side.python(), SOURCE / f"restart_{side.name}.py", json.dumps(order), str(rank)],
                env=environment,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )

    def ask(self, do, **arguments):
        """What each process answers."""
        for process in self._processes:
            process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            process.stdin.flush()
        return self._answers()

    def _answers(self):
        answers = [self._answer(process) for process in self._processes]
        failed = [answer["error"] for answer in answers if "error" in answer]
        if failed:
            self.kill()
            sys.exit(f"{len(failed)} processes failed, the first one by:\n{failed[0]}")
        return answers

    def _answer(self, process):
        for line in process.stdout:
            if line.startswith("answer "):
                return json.loads(line[7:])
        self.kill()
        sys.exit(f"a process ended while it was measured:\n{self._log.read_text()[-3000:]}")

    def close(self):
        for process in self._processes:
            process.stdin.close()
        for process in self._processes:
            process.wait(60)

    def kill(self):
        for process in self._processes:
            process.kill()
            process.wait()


def _free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


# ---- rounds ----


class Run:
    """Measures one side. results: way -> what -> one value a round."""

    def __init__(self, build, side, arguments, folder):
        self.side, self.results, self.peaks = side, {}, {}
        self._build, self._arguments, self._folder = build, arguments, folder
        self._tmpfs = pathlib.Path(tempfile.mkdtemp(prefix="remesh-bench-", dir="/dev/shm"))
        self._order = {
            "mib": arguments.mib,
            "tmpfs": str(self._tmpfs),
            "disk": str(folder / "files"),
            "saves": True,
        }
        self._step, self._saved, self._digests = 0, {}, {}

    def measure(self):
        from remesh.testing import LocalCluster  # built by TARGETS

        room = 6 * self._arguments.mib << 20
        try:
            with LocalCluster(
                self._build / "bin", HOSTS, devices_per_host=1, buffer_bytes=room
            ) as self._cluster:
                self._saves_and_equal_restores()
                self._restores_elsewhere()
                self._peak_memory()
        finally:
            shutil.rmtree(self._tmpfs, ignore_errors=True)
        return self

    def _world(self, size, **order):
        return World(
            self._build, self.side, self._cluster, self._folder, size, {**self._order, **order}
        )

    # Two processes save, and then restore what they saved last. Not in turn: a restore frees the
    # memory that remesh has reserved for the next save.
    def _saves_and_equal_restores(self):
        two = self._world(2)
        for way in self.side.ways:
            two.ask("open", way=way)
        for number, ways in self._rounds(self.side.ways):
            self._note(number, "memcpy", seconds=_slowest(two.ask("memcpy"), "seconds"))
            for way in ways:
                self._save(two, way, number)
        for number, ways in self._rounds(self.side.restores):
            for way in ways:
                self._restore(two, way, number, "equal ")
        for way in self.side.ways:
            two.ask("close", way=way)
        two.close()

    # Four processes save, three restore. Both are new worlds of the job in each round.
    def _restores_elsewhere(self):
        four, three = self._world(4), self._world(3, saves=False)
        for number, ways in self._rounds(self.side.restores):
            for way in ways:
                four.ask("open", way=way)
                four.ask("save", way=way, step=self._next_step(way))
                four.ask("close", way=way)
                three.ask("open", way=way)
                self._restore(three, way, number, "4 to 3 ")
                three.ask("close", way=way)
        four.close()
        three.close()

    # Apart from the rounds, for looking at files takes time.
    def _peak_memory(self):
        two = self._world(2)
        for way in self.side.ways:
            if way.endswith("disk"):
                continue
            self._remove_saves()
            with PeakBytes([self._tmpfs, self._cluster.buffers]) as peak:
                two.ask("open", way=way)
                for _ in range(2):
                    two.ask("save", way=way, step=self._next_step(way))
                    two.ask("prepare", way=way)
                two.ask("close", way=way)
            self.peaks[way] = peak.most
        two.close()

    def _rounds(self, ways):
        for number in range(self._arguments.rounds + 1):
            yield number, ways if number % 2 else ways[::-1]

    def _next_step(self, way):
        self._step += 1
        self._saved[way] = self._step
        return self._step

    def _save(self, world, way, number):
        os.sync()  # so that files of another way are not written back while this one runs
        before = self._processor_seconds()
        answers = world.ask("save", way=way, step=self._next_step(way))
        reserved = sum(each["processor"] for each in world.ask("prepare", way=way))
        workers = self._processor_seconds() - before
        self._note(
            number,
            way,
            blocks=_slowest(answers, "blocks"),
            committed=_slowest(answers, "committed"),
            save_processors=sum(each["processor"] for each in answers) + reserved,
            save_workers=workers,
            save_phases=_slowest_phases(answers),
        )

    def _restore(self, world, way, number, prefix):
        os.sync()  # so that files of another way are not written back while this one runs
        before = self._processor_seconds()
        answers = world.ask("restore", way=way, step=self._saved[way])
        workers = self._processor_seconds() - before
        self._check_digest(way, prefix, sum(each["digest"] for each in answers))
        self._note(
            number,
            way,
            **{
                prefix + "restored": _slowest(answers, "seconds"),
                prefix + "read": _slowest(answers, "touched"),
                prefix + "processors": sum(each["processor"] for each in answers),
                prefix + "workers": workers,
                prefix + "phases": _slowest_phases(answers),
            },
        )

    # All ways restored the same bits.
    def _check_digest(self, way, prefix, digest):
        expected = self._digests.setdefault(prefix, digest)
        if digest != expected or not digest:
            sys.exit(f"{way} restored other values than the way before it: {digest}, {expected}")

    # The first round is not counted.
    def _note(self, number, way, **values):
        print(f"{self.side.name} round {number} {way}: {json.dumps(values)}", file=sys.stderr)
        if number > 0:
            for what, value in values.items():
                self.results.setdefault(way, {}).setdefault(what, []).append(value)

    def _processor_seconds(self):
        """Of the server and the workers, so far."""
        return sum(
            _processor_seconds(process.popen.pid)
            for process in [self._cluster.server, *self._cluster.workers.values()]
        )

    def _remove_saves(self):
        """Of all ways."""
        import remesh

        with remesh.connect(
            self._cluster.worker_socket("host-0"), self._cluster.server_address
        ) as client:
            for job in {
                way.replace(" ", "-") for way in self.side.ways if way.startswith("remesh")
            }:
                for state in list(client.states(f"jobs/{job}")):
                    state.delete(wait=30)
        for folder in self._tmpfs.iterdir():
            shutil.rmtree(folder)


def _slowest(answers, what):
    return max(each[what] for each in answers)


def _slowest_phases(answers):
    return {
        phase: max(each["phases"].get(phase, 0) for each in answers)
        for phase in answers[0]["phases"]
    }


def _processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class PeakBytes:
    """The most that files below some folders took at once, looked at every 20 ms."""

    def __init__(self, folders):
        self.most = 0
        self._folders, self._over = folders, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        while not self._over.wait(0.02):
            self.most = max(self.most, sum(map(_allocated, self._folders)))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()


def _allocated(folder):
    total = 0
    for path, _, files in os.walk(folder):
        for file in files:
            try:
                total += 512 * os.stat(os.path.join(path, file)).st_blocks
            except FileNotFoundError:
                pass
    return total


class OtherPrograms:
    """Cores that programs other than this one and its children used."""

    def __init__(self):
        self._begin, self._busy, self._own = time.monotonic(), _busy_seconds(), sum(os.times()[:4])

    def cores(self, children):
        """children: processor seconds of those that still run."""
        own = sum(os.times()[:4]) + children - self._own
        return max(_busy_seconds() - self._busy - own, 0) / (time.monotonic() - self._begin)


def _busy_seconds():
    user, nice, system = (int(word) for word in pathlib.Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


# ---- the section ----


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
