# SPDX-License-Identifier: Apache-2.0
"""What is saved and restored in which order, and what each time costs."""

import json
import os
import pathlib
import shutil
import sys
import tempfile

from restart.usage import PeakBytes, processor_seconds
from restart.world import World

HOSTS = 4


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
            processor_seconds(process.popen.pid)
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
