# SPDX-License-Identifier: Apache-2.0
"""Worlds of real processes over a real server: rounds, losses, restarts of the server, and
processes of an earlier world."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

from waiting import wait_until

import remesh
from remesh.testing import LocalCluster

_BIN = os.environ.get("REMESH_BIN_DIR", "build/release/bin")
_PROGRAM = pathlib.Path(__file__).with_name("world_process.py")
_REFUSED = "^(Superseded|SaveFailed|StaleEpoch|WorldOver|MemberLost): "


class WorldCase(unittest.TestCase):
    def setUp(self):
        self.cluster = LocalCluster(
            _BIN, 3, 1, server_config=("keepalive_time: 1s", "keepalive_timeout: 1s")
        ).__enter__()
        self.addCleanup(self.cluster.close)

    def start(self, mode, rank=0, size=1, **environment):
        """A process, whose output is read by line."""
        env = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(size),
            "REMESH_SOCKET": self.cluster.worker_socket(f"host-{rank}"),
            "PYTHONPATH": os.pathsep.join(sys.path),
            **environment,
        }
        started = subprocess.Popen(
            [sys.executable, _PROGRAM, mode],
            env=env,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.addCleanup(started.communicate)
        self.addCleanup(started.kill)
        return started

    def world(self, mode, size, **environment):
        return [self.start(mode, rank, size, **environment) for rank in range(size)]

    def said(self, process):
        line = process.stdout.readline()
        self.assertTrue(line, "a process ended early")
        return json.loads(line)

    def kill_and_hear(self, processes):
        """Kills process 1, and returns what the others say. Prints how long that took."""
        os.kill(self.said(processes[1])["pid"], signal.SIGKILL)
        killed = time.time()
        heard = [self.said(each) for rank, each in enumerate(processes) if rank != 1]
        seconds = max(each["at"] for each in heard) - killed
        print(f"named to the others after {seconds:.3f} s: {heard[0]['error'][:100]}", flush=True)
        return heard


class RoundsTest(WorldCase):
    TEXTS = {
        "agreed": "",
        "differ": (
            "ValuesDiffer: .*step: values differ in group 0 of leaves; equal ones at 0@host-0, "
            "1@host-1 | 2@host-2"
        ),
        "structure": (
            "StructureMismatch: .*tree: structures differ; equal ones at 0@host-0 | 1@host-1, "
            "2@host-2"
        ),
        "names": (
            'NameMismatch: .*members are at different calls: 0@host-0 at barrier "a"; 1@host-1, '
            '2@host-2 at barrier "b"'
        ),
        "failure": (
            "ProcessFailed: process 1: UNKNOWN .PROCESS_FAILED.: ValueError: the disk is full"
        ),
    }

    def test_every_round_and_every_failure_is_the_same_on_all(self):
        heard = [self.said(each) for each in self.world("rounds", 3)]
        self.assertEqual([each["rank"] for each in heard], [[rank, 3] for rank in range(3)])
        self.assertEqual(heard[0]["members"], ["host-0", "host-1", "host-2"])
        self.assertEqual(
            [each["gathered"] for each in heard], [[], ["7fc000", "7fc001", "7fc002"], []]
        )
        self.assertEqual([each["broadcast"] for each in heard], [9 << 20] * 3)
        for key, text in self.TEXTS.items():
            self.assertEqual(len({each[key] for each in heard}), 1, key)
            self.assertRegex(heard[0][key], text.replace("|", r"\|") or "^$")
        for each in (heard[1]["late"], heard[2]["late"], heard[0]["told"]):
            self.assertRegex(
                each, "BarrierTimeout: .*late: not all members came in time; absent: 0@host-0"
            )
        self.assertEqual([each["decided"] for each in heard], ["03"] * 3)

    def test_a_process_that_dies_is_named(self):
        for each in self.kill_and_hear(self.world("lose", 3)):
            self.assertRegex(each["error"], "^MemberLost: .*1@host-1 is lost")
            self.assertRegex(each["again"], "^MemberLost: .*1@host-1 is lost")

    def test_a_server_that_is_killed_in_the_middle_of_rounds(self):
        processes = self.world("restarts", 3)
        for moment in (5, 20, 40):
            while self.said(processes[0])["round"] != moment:
                pass
            self.cluster.kill_server()
            self.cluster.start_server()
        while True:
            first = self.said(processes[0])
            if "results" in first:
                break
        heard = [first, *(self.said(each) for each in processes[1:])]
        expected = [[f"{rank}.{number}" for rank in range(3)] for number in range(60)]
        self.assertEqual([each["results"] for each in heard], [expected] * 3)


class JobTest(WorldCase):
    def test_a_dead_process_is_named_in_save_restore_and_leaving(self):
        for call in ("save", "restore", "leaving"):
            with self.subTest(call):
                for each in self.kill_and_hear(self.world("save", 3, CALL=call)):
                    self.assertRegex(each["error"], "^MemberLost: .*1@host-1 is lost")

    def test_a_process_of_an_earlier_world_commits_deletes_and_starts_nothing(self):
        self.check_zombie("seal")

    def test_a_process_of_an_earlier_world_that_stopped_in_a_write_changes_no_save(self):
        self.check_zombie("pwrite")

    def check_zombie(self, stops_in):
        zombie = self.start("zombie", CALL=stops_in)
        self.wait_stopped(zombie.pid)
        successor = self.start("successor")
        self.assertEqual(self.said(successor), {"restored": 1, "values": [1.0]})
        self.assertEqual(self.said(successor), {"saved": 5})
        os.kill(zombie.pid, signal.SIGCONT)
        heard = self.said(zombie)
        print(f"woken up in {stops_in}: {heard['committed']}", flush=True)
        self.assertRegex(heard["committed"], _REFUSED)
        for call in ("delete", "update", "create", "move"):
            self.assertRegex(
                heard[call], r"^StaleEpoch: .*epoch \d+ of jobs/z/worlds/main is over", call
            )
        self.assertRegex(heard["next"], "^(StaleEpoch|Superseded): ")
        successor.stdin.write("\n")
        successor.stdin.flush()
        self.assertEqual(self.said(successor), {"restored": 5, "values": [5.0], "ready": [5.0]})
        with remesh.connect(
            self.cluster.worker_socket("host-0"), self.cluster.server_address
        ) as client:
            steps = [
                each.step
                for each in client.states("jobs/z")
                if each.phase == "READY" and "/save." in each.name
            ]
        self.assertEqual(steps, [5])

    def wait_stopped(self, pid):
        stat = pathlib.Path(f"/proc/{pid}/stat")
        state = lambda: stat.read_text().rpartition(")")[2].split()[0]
        wait_until(lambda: state() == "T", f"process {pid} is stopped")


if __name__ == "__main__":
    unittest.main()
