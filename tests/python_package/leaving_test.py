# SPDX-License-Identifier: Apache-2.0
"""SIGTERM to one of 4 processes, of JAX and of torch: all save the same step and exit with 143, and
3 processes go on with the losses of a run that was never asked to leave."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

import support

_LAWS = support.ROOT / "client" / "python" / "tests"
sys.path[:0] = [str(support.MODULES), str(_LAWS)]
import notice_laws  # noqa: E402  pylint: disable=wrong-import-position
from remesh.job import Reason  # noqa: E402  pylint: disable=wrong-import-position
from remesh.testing import LocalCluster  # noqa: E402  pylint: disable=wrong-import-position

_PROGRAM = pathlib.Path(__file__).resolve().parent / "leaving_process.py"
_ENDLESS = 100000
_AWAY = 4.0  # seconds


class LeavingTest(unittest.TestCase):

    server_dies = False  # before the signal

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.worlds = 0

    # Runs a world, and sends SIGTERM to process `victim` once process 0 has said
    # step `at`. Returns the exit statuses, and what each process said.
    def world(self, kind, size, steps, victim=None, at=3):
        with support.reserved_port() as port:
            return self.world_at(port, kind, size, steps, victim, at)

    def world_at(self, port, kind, size, steps, victim, at):
        self.worlds += 1
        order = {
            "coordinator": f"127.0.0.1:{port}",
            "store": f"file://{self.folder}/store.{self.worlds}",
            "size": size,
            "away": _AWAY if self.server_dies else 120.0,
            "steps": steps,
            "pause": 0 if victim is None else 0.05,
        }
        processes = [self._start(kind, order, rank) for rank in range(size)]
        for process in processes:
            self.addCleanup(process.kill)
        said = [[] for _ in processes]
        for line in processes[0].stdout:
            if line.startswith("{"):
                said[0].append(json.loads(line))
                if victim is not None and said[0][-1].get("step") == at:
                    if self.server_dies:
                        self.cluster.kill_server()
                    processes[victim].send_signal(signal.SIGTERM)
        codes = [process.wait() for process in processes]
        processes[0].stdout.close()
        for rank in range(1, size):
            lines = (self.folder / f"{rank}.out").read_text().splitlines()
            said[rank] = [json.loads(line) for line in lines if line.startswith("{")]
        return codes, said

    def _start(self, kind, order, rank):
        environment = {
            **os.environ,
            "REMESH_SOCKET": self.cluster.worker_socket(self.cluster.host_names[rank]),
            "JAX_PLATFORMS": "cpu",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(support.MODULES),
        }
        command = [
            str(support.VENV / "bin" / "python"),
            _PROGRAM,
            kind,
            json.dumps(order),
            str(rank),
        ]
        with open(self.folder / f"{rank}.err", "w") as err, open(
            self.folder / f"{rank}.out", "w"
        ) as out:
            stdout = subprocess.PIPE if rank == 0 else out
            return subprocess.Popen(command, env=environment, text=True, stdout=stdout, stderr=err)

    def logs(self):
        return "".join(path.read_text()[-1500:] for path in sorted(self.folder.glob("*.err")))

    def check(self, kind, victim):
        with LocalCluster(support.BIN_DIR, hosts=4, devices_per_host=1) as self.cluster:
            codes, told = self.world(kind, 4, _ENDLESS, victim)
            self.assertEqual(codes, [143] * 4, self.logs())
            saved = {line["saved"] for lines in told for line in lines if "saved" in line}
            left = [line["left"] for lines in told for line in lines if "left" in line]
            self.assertEqual((len(saved), len(left)), (1, 4))
            self.assertEqual(saved, {step + 1 for step in left})
            (step,) = saved
            codes, after = self.world(kind, 3, step + 4)
            self.assertEqual(codes, [0] * 3, self.logs())
            self.assertEqual([lines[0]["start"] for lines in after], [step] * 3)
        with LocalCluster(support.BIN_DIR, hosts=4, devices_per_host=1) as self.cluster:
            codes, whole = self.world(kind, 1, step + 4)
            self.assertEqual(codes, [0], self.logs())
        losses = {line["step"]: line["loss"] for line in told[0] + after[0] if "step" in line}
        wanted = {line["step"]: line["loss"] for line in whole[0] if "step" in line}
        self.assertEqual(list(losses), list(wanted))
        worst = max(abs(losses[each] / wanted[each] - 1) for each in wanted)
        print(
            f"{kind}: process {victim} told at step 3, all saved step {step}; "
            f"of {len(wanted)} losses the worst differs by {worst:.1e}",
            flush=True,
        )
        self.assertLessEqual(worst, 1e-6)

    def test_jax(self):
        self.check("jax", 2)

    # JAX takes SIGTERM for a notice, so it does not end a process.
    def test_jax_ends_although_the_server_stays_away(self):
        self.server_dies = True
        with LocalCluster(support.BIN_DIR, hosts=2, devices_per_host=1) as self.cluster:
            codes, told = self.world("jax", 2, _ENDLESS, victim=1)
        self.assertEqual(codes, [1, 1], self.logs())
        for path in sorted(self.folder.glob("*.err")):
            text = "ServerAway: UNAVAILABLE: job: leaving: the server has sent nothing for "
            self.assertIn(text, path.read_text())
        self.assertFalse(any("saved" in line for lines in told for line in lines))

    # JAX takes one more than the highest step that it was asked about for the
    # safe one. Before the first step of a job that was restored, that is 1.
    def test_jax_keeps_the_laws_of_notices(self):
        path = f"{support.MODULES}{os.pathsep}{_LAWS}"
        for how, reason in (("early", Reason.TOLD_TO_GO), ("resize", Reason.RESIZED)):
            program = _PROGRAM.with_name("jax_notice_process.py")
            records = []
            for done in support.run_processes(program, 2, [how], PYTHONPATH=path):
                self.assertEqual(done["code"], 0, done["err"][-2000:])
                answers, told = json.loads(done["out"].splitlines()[-1])
                records.append(
                    notice_laws.Record(
                        {step: each and Reason(each) for step, each in answers},
                        {step: Reason(each) for step, each in told},
                    )
                )
            safe = notice_laws.check(records, within=1900)
            self.assertEqual(records[0].answers[safe], reason)
            print(f"jax, told {how}: all leave at step {safe}", flush=True)

    def test_torch(self):
        self.check("torch", 0)


if __name__ == "__main__":
    support.main()
