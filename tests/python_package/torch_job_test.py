# SPDX-License-Identifier: Apache-2.0
"""A torch job of 4 processes (torchrun, FSDP2, shards of uneven sizes) is killed and goes on with
3, then with 6: what is restored, and every later loss, has the bits of a restore from DCP's files
of the same step."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import support

sys.path.insert(0, str(support.MODULES))
from remesh.testing import LocalCluster  # noqa: E402  pylint: disable=wrong-import-position

_HERE = pathlib.Path(__file__).resolve().parent
_EXAMPLES = _HERE.parents[1] / "examples"
_TORCHRUN = support.VENV / "bin" / "torchrun"


class TorchJobTest(unittest.TestCase):

    def setUp(self):
        self.cluster = LocalCluster(support.BIN_DIR, hosts=6, devices_per_host=1).__enter__()
        self.addCleanup(self.cluster.close)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

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

    def check_goes_on(self, before, after, saved_by):
        """The world restored what the one before printed for that step, and both ways to restore it
        go on alike."""
        found = after[0]
        digests = {each["saved"]: each["digest"] for each in before if "saved" in each}
        self.assertIn(found["restored"], digests)
        self.assertEqual(
            found["digests"],
            [digests[found["restored"]]] * 2,
            "not the bits that were saved, and those of the files",
        )
        self.assertEqual(found["saved_by"], saved_by)
        losses = {each["step"]: each["losses"] for each in after if "step" in each}
        self.assertTrue(losses)
        for step, (ours, files) in losses.items():
            self.assertEqual(
                ours, files, f"step {step}: another loss than after a restore from the files"
            )
        print(
            f"restored step {found['restored']} of {saved_by} processes, digest "
            f"{found['digests'][0]}, losses of {len(losses)} steps equal, {found['seconds']}",
            flush=True,
        )

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
        self.cluster.workers[host].kill()
        for path in (self.cluster.buffers / host).iterdir():
            if not path.name.startswith(("agent", "lock")):  # what proves that it is the same host
                shutil.rmtree(path)
        self.cluster.start_worker(host)
        two = self.world(2, steps=6, data_parallel=True, replicas=2)
        self.check_goes_on(four, two, 4)

    def test_the_example_is_short(self):
        self.assertLessEqual(len((_EXAMPLES / "torch_elastic.py").read_text().splitlines()), 60)


if __name__ == "__main__":
    support.main()
