# SPDX-License-Identifier: Apache-2.0
"""JaxGroup, TorchGroup and ServerGroup: real processes of a framework exchange bytes and outcomes.
One suite for all."""

import json
import pathlib
import sys
import tempfile
import unittest

import support

sys.path.insert(0, str(support.MODULES))
from remesh.testing import LocalCluster  # noqa: E402  pylint: disable=wrong-import-position

PROGRAM = pathlib.Path(__file__).with_name("group_process.py")
BITS = "7fc00123ffc0045601000000000100008000"
PROCESSES = 3


def run(framework: str):
    """What each process said, and how it ended. Processes of torch meet in a file, those of
    ServerGroup at a server."""
    if framework == "server":
        with LocalCluster(support.BIN_DIR, hosts=0) as cluster:
            return support.run_processes(
                PROGRAM, PROCESSES, [framework, cluster.server_address], timeout=100
            )
    with tempfile.TemporaryDirectory() as folder:
        return support.run_processes(
            PROGRAM, PROCESSES, [framework, f"{folder}/store"], timeout=100, GLOO_SOCKET_IFNAME="lo"
        )


class Suite:
    FRAMEWORK = ""
    DIFFER = "step: 2 different values: processes 0, 1: '0'; processes 2: '1'"

    @classmethod
    def setUpClass(cls):
        ended = run(cls.FRAMEWORK)
        for process in ended:
            if process["code"] != 0:
                raise AssertionError(f"exit {process['code']}: {process['err'][-2000:]}")
        # Gloo prints lines of its own.
        cls.said = [json.loads(process["out"][process["out"].index("{") :]) for process in ended]

    def each(self, key):
        return [said[key] for said in self.said]

    def test_ranks(self):
        self.assertEqual(self.each("rank"), [[rank, PROCESSES] for rank in range(PROCESSES)])

    def test_bits_arrive_as_they_are_where_they_shall(self):
        self.assertEqual(
            self.each("gathered"), [[f"{BITS}{rank:02x}" for rank in range(PROCESSES)], [], []]
        )
        self.assertEqual(self.each("short"), [BITS] * PROCESSES)

    def test_payloads_of_different_sizes(self):
        self.assertEqual(
            self.each("long"), [[], [], [[rank, 1000 + rank] for rank in range(PROCESSES)]]
        )
        self.assertEqual(self.each("broadcast"), [70_000] * PROCESSES)

    def test_agreement(self):
        self.assertEqual(self.each("agreed"), [""] * PROCESSES)
        self.assertEqual(len(set(self.each("differ"))), 1)
        self.assertIn(self.DIFFER, self.said[0]["differ"])

    def test_an_error_of_one_is_raised_by_all(self):
        self.assertEqual(
            set(self.each("failure")),
            {"ProcessFailed: process 1: UNKNOWN (PROCESS_FAILED): ValueError: the disk is full"},
        )
        print(
            f"raised by all after {max(self.each('seconds')):.3f} s; a barrier takes "
            f"{max(self.each('barrier_seconds')):.3f} s",
            flush=True,
        )
        self.assertEqual(
            set(self.each("refusal")),
            {
                "NoRoom: process 2: RESOURCE_EXHAUSTED (MEMORY_EXHAUSTED): no room [host=b "
                "needed_bytes=7]"
            },
        )

    def test_process_0_decides(self):
        self.assertEqual(self.each("decided"), ["03"] * PROCESSES)

    def test_processes_at_different_calls_learn_of_it(self):
        for said in self.each("names"):
            self.assertRegex(said, "^NameMismatch: ")

    def test_utilities_of_coordination(self):
        for rank, said in enumerate(self.each("coordination")):
            self.assertEqual(
                [said[each] for each in ("broadcast", "gather", "equal", "leaving")],
                [True, True, "", False],
                rank,
            )
            self.assertEqual(said["axis"], sum(range(1, PROCESSES + 1)))
            self.assertEqual(
                said["a bit"],
                "ValuesDiffer: FAILED_PRECONDITION (VALUES_DIFFER): seed: 1 of 2 leaves differ, "
                "the first is w.0 (bool[]): processes 0-1 | 2",
            )
            self.assertEqual(
                said["devices"],
                "ValuesDiffer: FAILED_PRECONDITION (VALUES_DIFFER): devices: processes 0-1 | 2 "
                "have different lists: at 1 process 0 has 1, process 2 has 2",
            )
            self.assertRegex(said["names"], "^NameMismatch: ")


class JaxGroupTest(Suite, unittest.TestCase):
    FRAMEWORK = "jax"

    def test_utilities_beside_those_of_jax(self):
        for said in self.each("coordination"):
            self.assertEqual(
                (said["kinds"], said["signatures"], said["global"]), (["numpy"], [], [True] * 6)
            )
        print("what jax.experimental.multihost_utils change:", flush=True)
        for name, change in self.said[0]["coordination"]["jax changes"].items():
            print(f"  {name}: {change}", flush=True)


class ServerGroupTest(Suite, unittest.TestCase):
    FRAMEWORK = "server"
    DIFFER = "step: values differ in group 0 of leaves; equal ones at 0@host-0, 1@host-1 | 2@host-2"


class TorchGroupTest(Suite, unittest.TestCase):
    FRAMEWORK = "torch"

    def test_tensors_stay_tensors(self):
        self.assertEqual(
            [said["kinds"] for said in self.each("coordination")], [["torch"]] * PROCESSES
        )

    def test_a_process_that_stops_is_seen_at_the_deadline_and_one_that_dies_at_once(self):
        ended = run("lose")
        self.assertEqual(
            [process["code"] for process in ended], [0, 0, -9], ended[0]["err"][-2000:]
        )
        for process in ended[:-1]:
            said = json.loads(process["out"][process["out"].index("{") :])
            self.assertRegex(
                said["stopped"], "^BarrierTimeout: .*waited 1 s for the other processes"
            )
            self.assertEqual(said["again"], said["stopped"])
            self.assertGreater(said["seconds"], 1.0)
            self.assertRegex(said["killed"], "^MemberLost: ")
            self.assertLess(said["killed_seconds"], 30.0)  # the group's deadline is 60 s


if __name__ == "__main__":
    support.main()
