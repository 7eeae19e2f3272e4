# SPDX-License-Identifier: Apache-2.0
"""remesh launch with real jobs. The README's terminal: 4 processes, one is killed, 3 go on, one is
asked to leave, 6 go on. And SIGTERM to one of 6, after which 3 go on as if nothing had been."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import support

sys.path.insert(0, str(support.MODULES))
from remesh.testing import LocalCluster  # noqa: E402  pylint: disable=wrong-import-position

_HERE = pathlib.Path(__file__).resolve().parent
_EXAMPLE = support.ROOT / "examples" / "jax_elastic.py"
_TORCH_EXAMPLE = support.ROOT / "examples" / "torch_elastic.py"
_SMALL = _HERE / "launch_process.py"
_PYTHON = str(support.VENV / "bin" / "python")


class LaunchTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.errors = pathlib.Path(folder.name) / "err"
        self.cluster = LocalCluster(support.BIN_DIR, hosts=1).__enter__()
        self.addCleanup(self.cluster.close)

    # Lines of all ranks; the launcher's own go to a file, as do the ranks' errors.
    def start(self, *arguments):
        environment = {
            **os.environ,
            "REMESH_SOCKET": self.cluster.worker_socket("host-0"),
            "JAX_PLATFORMS": "cpu",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(support.MODULES),
        }
        with open(self.errors, "w") as errors:
            self.launcher = subprocess.Popen(
                [_PYTHON, "-m", "remesh", "launch", *map(str, arguments)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.addCleanup(self.launcher.stdout.close)
        self.addCleanup(self.launcher.wait)
        self.addCleanup(self.launcher.kill)

    # Process ids of the ranks that run, in their order.
    def ranks(self):
        pid = self.launcher.pid
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        commands = {
            int(each): pathlib.Path(f"/proc/{each}/cmdline").read_bytes() for each in children
        }
        return [each for each, command in sorted(commands.items()) if b".py" in command]

    def said(self):
        """Of the launcher."""
        lines = self.errors.read_text().splitlines()
        return [line for line in lines if line.startswith("remesh launch: ")]

    def end(self):
        code = self.launcher.wait()
        self.assertEqual(code, 0, self.errors.read_text()[-3000:])

    # Of the README's terminal: (step, loss, processes) as the example prints it.
    def steps(self):
        for line in self.launcher.stdout:
            found = re.fullmatch(r"step (\d+) loss ([\d.]+) on (\d+) processes\n", line)
            if found:
                yield int(found[1]), float(found[2]), int(found[3])

    def test_4_then_3_then_6_as_the_readme_shows(self):
        self.start("-n", 4, "--next-size", 6, "--", _PYTHON, _EXAMPLE, 60)
        worlds = {4: {}, 3: {}, 6: {}}
        killed, first = None, None
        for step, loss, processes in self.steps():
            worlds[processes][step] = loss
            if processes == 4 and step == 13:
                killed = time.monotonic()
                os.kill(self.ranks()[2], signal.SIGKILL)
            if processes == 3 and first is None:
                first = time.monotonic()
            if processes == 3 and step == 23:
                os.kill(self.ranks()[1], signal.SIGTERM)
        self.end()
        self.assertIn(min(worlds[3]), (0, 10, 20))  # a save that was not committed is not restored
        self.assertEqual(min(worlds[6]), max(worlds[3]) + 1)
        self.assertEqual(max(worlds[6]), 59)
        self.assertLess(worlds[6][59], worlds[4][0] - 0.5)
        for step in set(worlds[3]).intersection(worlds[4]):
            self.assertAlmostEqual(worlds[3][step], worlds[4][step], delta=0.001)
        lines = self.said()
        self.assertRegex(lines[0], r"rank 2 \(pid \d+\) died: SIGKILL; the others are killed$")
        self.assertEqual(
            lines[1:],
            [
                "remesh launch: world 2 begins with 3 processes",
                "remesh launch: world 3 begins with 6 processes",
            ],
        )
        print(f"kill to the first step of the next world: {first - killed:.1f} s", flush=True)

    def test_the_example_is_short(self):
        self.assertLessEqual(len(_EXAMPLE.read_text().splitlines()), 60)

    # Losses by step of a world, and what its ranks said beside.
    def small_world(self, size):
        losses, told = {}, []
        for line in self.launcher.stdout:
            if not line.startswith("{"):
                continue  # gloo says something, too
            fields = json.loads(line)
            if "loss" in fields:
                losses.setdefault(fields["step"], set()).add(fields["loss"])
            else:
                told.append(fields)
            yield losses, told
            if sum("left" in each or "ended" in each for each in told) == size:
                return

    @unittest.skipUnless(
        os.environ.get("REMESH_NIGHTLY"), "takes a minute: scripts/nightly runs it"
    )
    def test_told_one_of_6_and_3_go_on_as_if_nothing_had_been(self):
        self.check_told_one_of_6("jax")

    @unittest.skipUnless(
        os.environ.get("REMESH_NIGHTLY"), "takes a minute: scripts/nightly runs it"
    )
    def test_told_one_of_6_of_torch_and_3_go_on_as_if_nothing_had_been(self):
        self.check_told_one_of_6("torch")

    def check_told_one_of_6(self, kind):
        self.start("-n", 6, "--next-size", 3, "--", _PYTHON, _SMALL, kind, 40, 0.05)
        told_to_go = False
        for losses, said in self.small_world(6):
            if not told_to_go and max(losses, default=0) >= 3:
                os.kill(self.ranks()[4], signal.SIGTERM)
                told_to_go = True
        (saved,) = {each["saved"] for each in said if "saved" in each}
        self.assertEqual({each["left"] for each in said if "left" in each}, {saved - 1})
        for later, said in self.small_world(3):
            pass
        self.assertEqual({each["start"] for each in said if "start" in each}, {saved})
        self.end()
        self.cluster.close()
        self.cluster = LocalCluster(support.BIN_DIR, hosts=1).__enter__()
        self.addCleanup(self.cluster.close)
        self.start("-n", 1, "--", _PYTHON, _SMALL, kind, 40, 0)
        for whole, _ in self.small_world(1):
            pass
        self.end()
        self.assertEqual([*losses, *later], list(whole))
        worst = max(
            abs(loss / one - 1)
            for step, (one,) in whole.items()
            for loss in {**losses, **later}[step]
        )
        print(
            f"{kind}: 6 processes saved step {saved}, 3 went on: worst loss differs by {worst:.1e}",
            flush=True,
        )
        self.assertLessEqual(worst, 1e-6)

    @unittest.skipUnless(
        os.environ.get("REMESH_NIGHTLY"), "takes a minute: scripts/nightly runs it"
    )
    def test_torch_goes_on_with_2_of_3(self):
        self.start("-n", 3, "--", _PYTHON, _TORCH_EXAMPLE, 30)
        seen = {3: [], 2: []}
        for step, _, processes in self.steps():
            seen[processes].append(step)
            if processes == 3 and step == 13:
                os.kill(self.ranks()[0], signal.SIGKILL)
        self.end()
        self.assertIn(seen[2][0], (0, 10))
        self.assertEqual(seen[2][-1], 29)


if __name__ == "__main__":
    support.main()
