# SPDX-License-Identifier: Apache-2.0
"""remeshctl jobs resize, with real processes that remesh launch started: a size, two at once, one
while the job leaves, one that is too large, and one for a job that has ended. And a server that is
away when the job begins."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

from launch_case import LaunchCase
from waiting import wait_until

from remesh.testing import LocalCluster

_BIN = os.environ.get("REMESH_BIN_DIR", "build/release/bin")
_JOB = pathlib.Path(__file__).with_name("launch_job.py")


@contextlib.contextmanager
def stopped(pid):
    """The process stands still inside the block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class ResizeTest(LaunchCase):

    def setUp(self):
        super().setUp()
        self.cluster = LocalCluster(_BIN, 1, 1).__enter__()
        self.addCleanup(self.cluster.close)

    def start(self, *options):
        program = [sys.executable, str(_JOB), str(self.folder)]
        socket = self.cluster.worker_socket("host-0")
        self.launch(*options, "--", *program, REMESH_SOCKET=socket)

    # What the ranks of the next world said first, by rank, and the steps that the
    # world before saved.
    def world(self, size):
        found, saved = {}, set()
        while len(found) < size:
            line = self.launcher.stdout.readline()
            self.assertTrue(line, self.said())
            fields = json.loads(line)
            if "saved" in fields:
                saved.add(fields["saved"])
            else:
                self.assertEqual(fields["size"], size, self.said())
                found[fields["rank"]] = fields
        return found, saved

    # The next world, which goes on where all of the one before saved.
    def next_world(self, size):
        found, saved = self.world(size)
        self.assertEqual({each["start"] for each in found.values()}, saved)
        self.assertEqual(len(saved), 1)
        return found

    def resize(self, size, job="resized"):
        command = [f"{_BIN}/remeshctl", "jobs", "resize", job, "-n", str(size)]
        command += ["--server", self.cluster.server_address]
        return subprocess.run(command, text=True, capture_output=True, check=False)

    def test_a_job_is_resized(self):
        self.start("-n", "2", "--min", "2", "--max", "4")
        self.world(2)
        self.assertEqual(self.resize(3).returncode, 0)
        world = self.next_world(3)
        # Twice, before all have agreed on a step: the last holds.
        with stopped(world[1]["pid"]):
            self.assertEqual(self.resize(4).returncode, 0)
            self.assertEqual(self.resize(2).returncode, 0)
        world = self.next_world(2)
        # While one process has SIGTERM.
        with stopped(world[0]["pid"]):
            os.kill(world[1]["pid"], signal.SIGTERM)
            self.assertEqual(self.resize(3).returncode, 0)
        self.next_world(3)
        # More than the launcher may start.
        self.assertEqual(self.resize(99).returncode, 0)
        self.next_world(4)
        self.assertIn("99 processes were asked for: --min is 2, --max is 4\n", self.said())
        self.assertNotIn("died", self.said())
        self.assertEqual(self.resize(3, "another").returncode, 1)
        self.assertEqual(self.finish(), 0, self.said())
        late = self.resize(3)
        self.assertEqual(late.returncode, 1)
        self.assertIn("its world is over and has no members", late.stderr)

    # Regression: nothing was said for minutes.
    def test_a_job_says_that_it_waits_for_the_server(self):
        self.cluster.kill_server()
        self.start("-n", "2")
        line = "jobs/resized/worlds/main: waits for the server: "
        wait_until(lambda: self.said().count(line) == 2, "both say it")
        self.cluster.start_server()
        self.world(2)
        self.assertEqual(self.finish(), 0, self.said())
        self.assertEqual(self.said().count(line), 2)


if __name__ == "__main__":
    unittest.main()
