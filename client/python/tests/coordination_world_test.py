# SPDX-License-Identifier: Apache-2.0
"""remesh.coordination over a server: 16 members, one of which is a process that is killed or
stopped. The others are named who it is."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

import numpy as np

import remesh
from remesh import coordination, errors
from remesh.server_group import ServerGroup
from remesh.testing import LocalCluster
from remesh.world_place import Place

_MEMBER = pathlib.Path(__file__).with_name("coordination_member.py")
_SIZE, _LAST = 16, 15
_SCOPE = "jobs/together/worlds/coordination"
_SECONDS = 60.0
_CALLS = {
    "barrier": lambda group: coordination.barrier("b", group=group),
    "broadcast_one_to_all": lambda group: coordination.broadcast_one_to_all(1, group=group),
    "process_allgather": lambda group: coordination.process_allgather(1, group=group),
    "assert_equal": lambda group: coordination.assert_equal(1, group=group),
    "global_axis_size": lambda group: coordination.global_axis_size(1, group=group),
    "check_devices": lambda group: group.check_devices([1]),
}


class WorldTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.cluster = LocalCluster(hosts=1).__enter__()
        cls.addClassCleanup(cls.cluster.close)
        cls.client = remesh.connect(cls.cluster.worker_socket("host-0"))
        cls.addClassCleanup(cls.client.close)

    # Starts the last member as a process and joins with the others. What the
    # world's members are, and the process.
    def form(self, size, deadline):
        environment = {
            **os.environ,
            "REMESH_SOCKET": self.cluster.worker_socket("host-0"),
            "REMESH_RANK": str(size - 1),
            "REMESH_WORLD_SIZE": str(size),
            "REMESH_ATTEMPT": self.id(),
        }
        self.process = subprocess.Popen(
            [sys.executable, _MEMBER, str(deadline)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self.process.communicate)
        self.addCleanup(self.process.kill)
        self.groups = each_of(range(size - 1), lambda rank: self.join(rank, size, deadline))
        for group in self.groups:
            self.addCleanup(group.close)
        self.assertEqual(self.said(), {"pid": self.process.pid, "rank": size - 1, "size": size})

    def join(self, rank, size, deadline):
        place = Place(rank, size, self.id())
        return ServerGroup(
            _SCOPE, self.client.channel, place, deadline=deadline, host=f"host-{rank}"
        )

    def said(self):
        return json.loads(self.process.stdout.readline())

    def test_bits_and_faults_over_the_server(self):
        self.form(4, _SECONDS)
        self.process.stdin.write("gather\n")
        self.process.stdin.flush()
        gather = lambda group: coordination.process_allgather({"rank": group.rank}, group=group)
        for found in each_of(self.groups, gather):
            self.assertEqual(found["rank"].tolist(), [0, 1, 2, 3])
        self.assertEqual(self.said(), {"found": [0, 1, 2, 3]})

    def test_values_travel_bit_by_bit(self):
        groups = each_of(range(_SIZE), lambda rank: self.join(rank, _SIZE, _SECONDS))
        for group in groups:
            self.addCleanup(group.close)
        nans = np.array([0x7FF4000000000001, 1 << 63], np.uint64).view(np.float64)
        large = np.arange(3 << 17, dtype=np.uint64)

        def call(group):
            tree = {"nans": nans, "large": large}
            if group.rank != 9:
                tree = {name: np.zeros_like(each) for name, each in tree.items()}
            found = coordination.broadcast_one_to_all(tree, group.rank == 9, group=group)
            stacked = coordination.process_allgather(nans if group.rank else -nans, group=group)
            coordination.assert_equal(found, group=group)
            return found["nans"].tobytes(), found["large"].tobytes(), stacked.tobytes()

        want = nans.tobytes(), large.tobytes(), (-nans).tobytes() + nans.tobytes() * _LAST
        self.assertEqual(each_of(groups, call), [want] * _SIZE)
        odd = lambda group: coordination.assert_equal(
            {"w": int(group.rank == 3)}, "seed", group=group
        )
        self.assertEqual(
            {str(each) for each in each_of(groups, caught(odd))},
            {
                "FAILED_PRECONDITION (VALUES_DIFFER): seed: 1 of 1 leaves differ, the first is w (int64[]): "
                "processes 0-2, 4-15 | 3"
            },
        )
        sources = lambda group: coordination.broadcast_one_to_all(1, group.rank > 13, group=group)
        self.assertEqual(
            {str(each) for each in each_of(groups, caught(sources))},
            {
                "INVALID_ARGUMENT (SOURCE_COUNT): is_source: must be true on one process: "
                "processes 14-15 are the source"
            },
        )

    def test_one_is_killed(self):
        seconds = []
        for name, call in _CALLS.items():
            with self.subTest(name):
                self.form(_SIZE, _SECONDS)
                waiting = start_each(self.groups, caught(call))
                os.kill(self.process.pid, signal.SIGKILL)
                killed = time.monotonic()
                raised = waiting()
                seconds.append(time.monotonic() - killed)
                self.assertEqual({type(each) for each in raised}, {errors.MemberLost}, raised[0])
                self.assertEqual({each.rank for each in raised}, {_LAST})
                self.assertEqual(
                    {each.message for each in raised}, {"15@host-0 is lost: its stream ended"}
                )
                for group in self.groups:
                    group.close()
        print(f"named to 15 others after at most {max(seconds):.2f} s: {raised[0]}", flush=True)

    def test_one_is_stopped(self):
        self.form(_SIZE, 1.0)
        os.kill(self.process.pid, signal.SIGSTOP)
        for name, call in _CALLS.items():
            with self.subTest(name):
                raised = each_of(self.groups, caught(call))
                kinds = {type(each) for each in raised}
                # Silent for 10 s it counts as lost: a busy machine may be so slow.
                self.assertLessEqual(kinds, {errors.BarrierTimeout, errors.MemberLost}, raised[0])
                self.assertEqual(len({re.sub(r"[\d.]+ ?m?s", "", str(each)) for each in raised}), 1)
                self.assertIn(f"{_LAST}@host-0", str(raised[0]))
        os.kill(self.process.pid, signal.SIGCONT)


def each_of(items, function):
    """function(item) of all at once; the results in order."""
    return start_each(items, function)()


def start_each(items, function):
    """Begins function(item) of all; what is returned waits for the results."""
    items = list(items)
    results = [None] * len(items)

    def run(at):
        results[at] = function(items[at])

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(items))]
    for thread in threads:
        thread.start()

    def wait():
        for thread in threads:
            thread.join()
        return results

    return wait


def caught(function):
    """The function, which returns the error that it raises."""

    def call(item):
        try:
            return function(item)
        except errors.RemeshError as error:
            return error

    return call


if __name__ == "__main__":
    unittest.main()
