# SPDX-License-Identifier: Apache-2.0
"""Jobs whose hosts are away, or have lost what they held."""

import concurrent.futures
import threading
import unittest
from unittest import mock

import remesh
from remesh import job, names
from remesh.job import saving
from remesh.job.worlds import Worlds

from job_case import JobCase, World, values
from waiting import wait_until


class JobLostTest(JobCase):
    def test_a_host_that_is_back_without_its_memory_gets_its_part_of_a_save_that_others_hold(self):
        def save(core):
            world = World(core.rank, core.size, values(7), whole=values(7))
            core.save_pieces(world.pieces(), 7, extra={"rank": core.rank}, block=True)

        self.world("degraded", 4, save, replicas=2)
        self.wipe("host-1")
        self.check_restored("degraded", 3, 7, 4)
        self.check_restored("degraded", 1, 7, 4, hosts=["host-1"])

    # Regression: the save was committed, with zeros where the first had written.
    def test_memory_that_is_lost_between_two_writers_of_a_host_fails_the_save(self):
        written, wiped, write = threading.Event(), threading.Event(), saving.Saver._write

        def writes(saver, *arguments):
            if saver._group.rank == 1:
                wiped.wait(60)
            try:
                return write(saver, *arguments)
            finally:
                written.set()

        def function(core):
            world = World(core.rank, core.size, values(1), whole=("s",))
            with self.assertRaisesRegex(job.SaveFailed, "host-0: its worker lost the memory"):
                core.save_pieces(world.pieces(), 1, block=True)

        with mock.patch.object(
            saving.Saver, "_write", writes
        ), concurrent.futures.ThreadPoolExecutor(1) as pool:
            world = pool.submit(self.world, "torn", 2, function, hosts=["host-0"])
            written.wait(60)
            self.wipe("host-0")  # by this thread, with which the worker ends
            wiped.set()
            world.result()
        self.assertEqual(self.states("torn"), [names.WorldId(1)])

    # Regression: the lost one was kept, and the whole one before it deleted.
    def test_a_save_that_is_lost_does_not_count_as_kept(self):
        self.save("kept", 1, 1, hosts=["host-0"], keep=2)
        self.save("kept", 1, 2, hosts=["host-1"], keep=2)
        self.wipe("host-1")
        self.save("kept", 1, 3, hosts=["host-0"], keep=2)
        self.assertEqual(
            self.states("kept"), [names.SaveId(1, 1), names.SaveId(3, 1), names.WorldId(3)]
        )

    # Regression: torch jobs asked for the lost one alone, and raised NotCovered.
    def test_the_newest_save_is_one_that_can_be_restored(self):
        self.save("newest", 1, 1, hosts=["host-0"], keep=2)
        self.save("newest", 1, 2, hosts=["host-1"], keep=2)
        self.wipe("host-1")
        newest = lambda core: (core.newest().step, core.newest(2).step)
        self.assertEqual(self.world("newest", 1, newest, hosts=["host-0"]), [(1, 2)])

    def test_hosts_that_are_away_are_waited_for_once(self):
        self.save("patient", 2, 3)
        self.cluster.workers["host-1"].kill()
        asked, attached = [], Worlds.attached

        def counts(worlds):
            asked.append(worlds.job)
            return attached(worlds)

        def function(core):
            arrays = World(core.rank, core.size, values(3), whole=("s",)).arrays()
            step = core.newest().step
            asked.clear()
            with self.assertRaises(job.NotCovered):
                core.restore_arrays(arrays, step=step)
            return len(asked)

        with mock.patch.object(Worlds, "attached", counts):
            self.assertEqual(self.world("patient", 1, function, patience=1.0), [1])
        self.cluster.start_worker("host-1")

    # Regression: it stayed until the next commit, and a restore waited for its
    # hosts.
    def test_a_save_that_never_committed_goes_at_the_claim_though_a_host_is_away(self):
        self.save("leftover", 2, 3, hosts=["host-0", "host-2"])
        left = names.state_name("leftover", names.SaveId(1, 2))
        with remesh.connect(server=self.cluster.server_address) as client:
            client.create(
                left,
                {"w": remesh.Array((4,), "u8", remesh.layout.replicated([0, 2]))},
                labels={"remesh-written": "1"},
            )
            self.cluster.workers["host-1"].kill()
            wait_until(lambda: client.state(left).phase == "LOST")
        self.check_restored("leftover", 2, 3, 2, hosts=["host-2", "host-3"], patience=60.0)
        self.cluster.start_worker("host-1")
        self.assertEqual(self.states("leftover"), [names.SaveId(1, 1), names.WorldId(2)])

    def test_a_committed_save_stays_at_the_claim_though_a_host_is_away(self):
        self.save("away", 2, 3)
        self.cluster.workers["host-1"].kill()
        arrays = lambda core: World(core.rank, core.size, values(3), whole=("s",)).arrays()
        with self.assertRaisesRegex(job.NotCovered, r"save.000001.00000001 .*LOST.*host-1"):
            self.world("away", 1, lambda core: core.restore_arrays(arrays(core)), patience=0.1)
        self.cluster.start_worker("host-1")
        self.check_restored("away", 1, 3, 2)

    def test_a_save_outlives_a_restart_of_the_server(self):
        self.save("restart", 3, 8)
        self.cluster.kill_server()
        self.cluster.start_server()
        self.check_restored("restart", 2, 8, 3)


if __name__ == "__main__":
    unittest.main()
