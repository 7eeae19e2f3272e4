# SPDX-License-Identifier: Apache-2.0
"""A torch job of 4 processes (torchrun, FSDP2, shards of uneven sizes) is killed and goes on with
3, then with 6: what is restored, and every later loss, has the bits of a restore from DCP's files
of the same step."""

import json
import os
import pathlib
import signal
import subprocess
import unittest

import support
from framework_job import FrameworkJobCase

_HERE = pathlib.Path(__file__).resolve().parent
_EXAMPLES = _HERE.parents[1] / "examples"
_TORCHRUN = support.VENV / "bin" / "torchrun"


class TorchJobTest(FrameworkJobCase):
    def torchrun(self, size, *program, log, **environment):
        """Started in a session of its own. Its processes meet at a port that the kernel chooses."""
        env = {
            **os.environ,
            "PYTHONPATH": f"{_EXAMPLES}{os.pathsep}{support.MODULES}",
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
            **environment,
        }
        return subprocess.Popen(
            [_TORCHRUN, "--standalone", "--nproc-per-node", str(size), *map(str, program)],
            env=env,
            text=True,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=log,
        )

    def world(self, size, kill=None, **order):
        """What process 0 printed. Kills all once it has printed step `kill`."""
        sockets = [self.cluster.worker_socket(host) for host in self.cluster.host_names[:size]]
        order = {
            "replicas": None,
            "data_parallel": False,
            "files": str(self.folder / "files"),
            "sockets": sockets,
            **order,
        }
        log = self.folder / f"{size}.log"
        said = []
        with open(log, "w") as file, self.torchrun(
            size, _HERE / "torch_job_process.py", json.dumps(order), log=file
        ) as started:
            try:
                for line in started.stdout:
                    if line.startswith("{"):
                        said.append(json.loads(line))
                        if kill is not None and said[-1].get("step") == kill:
                            self.kill_processes(started)
            finally:
                if started.poll() is None and not said:
                    os.killpg(started.pid, signal.SIGKILL)
        self.assertEqual(started.returncode == 0, kill is None, log.read_text()[-3000:])
        return said

    # kill -9 of one: torchrun ends the others.
    def kill_processes(self, started):
        children = (
            pathlib.Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
        )
        os.kill(int(children[-1]), signal.SIGKILL)

    def test_goes_on_with_3_and_then_6_processes(self):
        four = self.world(4, kill=6, steps=100)
        three = self.world(3, steps=9)
        self.check_goes_on(four, three, 4)
        six = self.world(6, steps=10)
        self.check_goes_on(three, six, 3)
        self.assertEqual(six[0]["restored"], 8)

    @unittest.skipUnless(os.environ.get("REMESH_NIGHTLY"), "takes minutes: scripts/nightly runs it")
    def test_data_parallel_state_survives_a_host_that_lost_its_memory(self):
        four = self.world(4, kill=6, steps=100, data_parallel=True, replicas=2)
        host = self.cluster.host_names[1]
        self.cluster.lose_shards(host)
        self.cluster.start_worker(host)
        two = self.world(2, steps=6, data_parallel=True, replicas=2)
        self.check_goes_on(four, two, 4)

    def test_the_example_is_short(self):
        self.assertLessEqual(len((_EXAMPLES / "torch_elastic.py").read_text().splitlines()), 60)


if __name__ == "__main__":
    support.main()
