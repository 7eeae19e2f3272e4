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
from concurrent import futures

import grpc
from google.protobuf import empty_pb2
from launch_case import LaunchCase
from waiting import wait_until

from remesh.testing import LocalCluster
from remesh.v1 import coordination_pb2, coordination_pb2_grpc

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

    def start(self, *options, never=()):
        program = [sys.executable, str(_JOB), str(self.folder), *never]
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

    # Steps that ranks save from now on, up to the first one above `step`.
    def wait_saved(self, step):
        while True:
            fields = json.loads(self.launcher.stdout.readline())
            if fields.get("saved", 0) > step:
                return fields["saved"]

    def remeshctl(self, *arguments):
        command = [f"{_BIN}/remeshctl", *arguments, "--server", self.cluster.server_address]
        return subprocess.run(command, text=True, capture_output=True, check=False)

    def resize(self, size, *options, job="resized"):
        return self.remeshctl("jobs", "resize", job, "-n", str(size), *options)

    def test_a_job_is_resized(self):
        self.start("-n", "2", "--min", "2", "--max", "4")
        self.world(2)
        asked = self.resize(3)
        self.assertEqual(asked.returncode, 0)
        self.assertRegex(
            asked.stderr, r"as 3 processes\n(all have agreed on a step|its next world)"
        )
        world = self.next_world(3)
        # Twice, before all have agreed on a step: the last holds.
        with stopped(world[1]["pid"]):
            self.assertEqual(self.resize(4, "--timeout", "1ms").returncode, 3)
            self.assertEqual(self.resize(2, "--timeout", "1ms").returncode, 3)
        world = self.next_world(2)
        # While one process has SIGTERM.
        with stopped(world[0]["pid"]):
            os.kill(world[1]["pid"], signal.SIGTERM)
            self.assertEqual(self.resize(3, "--timeout", "1ms").returncode, 3)
        self.next_world(3)
        # More than the launcher may start.
        self.assertEqual(self.resize(99).returncode, 0)
        self.next_world(4)
        self.assertIn("99 processes were asked for: --min is 2, --max is 4\n", self.said())
        self.assertNotIn("died", self.said())
        self.assertEqual(self.resize(3, job="another").returncode, 1)
        self.assertEqual(self.finish(), 0, self.said())
        late = self.resize(3)
        self.assertEqual(late.returncode, 1)
        self.assertIn("its world is over and has no members", late.stderr)

    # Regression: remeshctl said that the job would start again, and no more; it went on as before.
    def test_a_job_that_never_asks_whether_it_leaves_goes_on(self):
        self.start("-n", "2", never=["never"])
        self.world(2)
        asked = self.resize(3, "--timeout", "3")
        self.assertEqual(asked.returncode, 3)
        names = "0@host-0,1@host-0"
        self.assertIn(f"waits for {names} to call leaving(step)\n", asked.stderr)
        self.assertIn(
            "jobs/resized/worlds/main has the request, but did not answer within 3 s (--timeout); "
            f"it waits for {names}\n",
            asked.stderr,
        )
        listed = self.remeshctl("worlds", "list", "--parent", "jobs/resized").stdout
        self.assertIn(f"AgreeStep: {names}", listed)
        self.assertGreater(self.wait_saved(self.wait_saved(0)), 0)
        self.assertEqual(self.finish(), 0, self.said())
        line = "remeshctl jobs resize asks the processes to leave"
        self.assertEqual(self.said().count(line), 2, self.said())
        self.assertNotIn("remesh launch: ", self.said())

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


class EndedWorld(coordination_pb2_grpc.CoordinationServiceServicer):
    """A server whose only world ended while it waited for process 1 to name a step."""

    def ReportPreemption(self, request, context):
        return empty_pb2.Empty()

    def ListWorlds(self, request, context):
        world = coordination_pb2.World(
            name="jobs/a/worlds/main", phase="OVER", epoch=1, over="2@host-0 is lost"
        )
        world.preempt.by = "remeshctl jobs resize"
        world.waiting.add(name="AgreeStep", absent=[1])
        return coordination_pb2.ListWorldsResponse(worlds=[world])


class EndedWorldTest(unittest.TestCase):

    # Regression: remeshctl ended with 0.
    def test_a_death_comes_before_the_answers(self):
        server = grpc.server(futures.ThreadPoolExecutor(2))
        coordination_pb2_grpc.add_CoordinationServiceServicer_to_server(EndedWorld(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        command = [f"{_BIN}/remeshctl", "jobs", "resize", "a", "-n", "6"]
        command += ["--server", f"127.0.0.1:{port}"]
        done = subprocess.run(command, text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 1)
        ended = "jobs/a/worlds/main ended before its processes agreed on a step: 2@host-0 is lost"
        self.assertIn(ended, done.stderr)


if __name__ == "__main__":
    unittest.main()
