# SPDX-License-Identifier: Apache-2.0
"""A JAX job of 4 processes is killed and goes on with 3, then with 6: what is restored, and every
later loss, has the bits of a restore from Orbax's files of the same step."""

import json
import os
import pathlib
import subprocess
import unittest

import support
from framework_job import FrameworkJobCase

_HERE = pathlib.Path(__file__).resolve().parent
_EXAMPLES = _HERE.parents[1] / "examples"


class JaxJobTest(FrameworkJobCase):
    # Runs a world of `size` processes and returns what process 0 printed. Kills
    # all once it has printed step `kill`, the last one first.
    def world(self, size, kill=None, **order):
        with support.reserved_port() as port:
            return self._world(port, size, kill, **order)

    def _world(self, port, size, kill, **order):
        order = {
            "coordinator": f"127.0.0.1:{port}",
            "size": size,
            "every": 4,
            "replicas": None,
            "data_parallel": False,
            "fails": False,
            "files": str(self.folder / "files"),
            **order,
        }
        processes = [self._start(rank, order) for rank in range(size)]
        for process in processes:
            self.addCleanup(process.kill)
        said = []
        for line in processes[0].stdout:
            if line.startswith("{"):
                said.append(json.loads(line))
                if kill is not None and said[-1].get("step") == kill:
                    for process in reversed(processes):
                        process.kill()
        codes = [process.wait() for process in processes]
        processes[0].stdout.close()
        if kill is None:
            logs = "".join(
                (self.folder / f"{rank}.log").read_text()[-1500:]
                for rank, code in enumerate(codes)
                if code
            )
            self.assertEqual(set(codes), {0}, logs)
        return said

    def _start(self, rank, order):
        environment = {
            **os.environ,
            "REMESH_SOCKET": self.cluster.worker_socket(self.cluster.host_names[rank]),
            "JAX_PLATFORMS": "cpu",
            "PYTHONPATH": f"{_EXAMPLES}{os.pathsep}{support.MODULES}",
        }
        with open(self.folder / f"{rank}.log", "w") as log:
            return subprocess.Popen(
                [
                    str(support.VENV / "bin" / "python"),
                    _HERE / "jax_job_process.py",
                    json.dumps(order),
                    str(rank),
                ],
                env=environment,
                text=True,
                stdout=subprocess.PIPE if rank == 0 else log,
                stderr=log,
            )

    # What process 0 met was raised by every process: each compared it with what
    # the others raised.
    def check_fails(self, said):
        failures = [each for each in said if "failed" in each]
        self.assertEqual(
            [each["failed"] for each in failures], ["save", "leaf", "wanted", "restore"]
        )
        for each in failures:
            self.assertRegex(
                each["error"],
                "^ProcessFailed: process 0: .*(the disk is full|more: value of object cannot be "
                "saved)",
            )
            print(f"{each['failed']}: raised by all after {each['seconds']:.3f} s", flush=True)

    def test_goes_on_with_3_and_then_6_processes(self):
        four = self.world(4, kill=10, steps=100)
        three = self.world(3, steps=13)
        self.check_goes_on(four, three, 4)
        six = self.world(6, steps=15, fails=True)
        self.check_goes_on(three, six, 3)
        self.assertEqual(six[0]["restored"], 12)
        self.check_fails(six)

    @unittest.skipUnless(os.environ.get("REMESH_NIGHTLY"), "takes minutes: scripts/nightly runs it")
    def test_data_parallel_state_survives_a_host_that_lost_its_memory(self):
        four = self.world(4, kill=6, steps=100, data_parallel=True, replicas=2)
        host = self.cluster.host_names[1]
        self.cluster.lose_shards(host)
        self.cluster.kill_server()
        self.cluster.start_server()
        self.cluster.start_worker(host)
        two = self.world(2, steps=6, data_parallel=True, replicas=2)
        self.check_goes_on(four, two, 4)


if __name__ == "__main__":
    support.main()
