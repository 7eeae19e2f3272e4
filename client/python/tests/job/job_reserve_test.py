# SPDX-License-Identifier: Apache-2.0
"""The memory of the next save is reserved in the background; whatever goes wrong there, the save is
made all the same."""

import concurrent.futures
import os
import threading
import time
import unittest
from unittest import mock

import job_kills
from waiting import wait_until

import remesh
from remesh import errors, job, local_group, names
from remesh.job import finishing, reserving, saving, worlds
from remesh.testing import LocalCluster
from remesh.worker import LocalState

_BIN = os.environ.get("REMESH_BIN_DIR", "build/release/bin")
_SECONDS = 20.0


class ReserveTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.cluster = LocalCluster(_BIN, 2, 1).__enter__()
        cls.addClassCleanup(cls.cluster.close)
        cls.client = remesh.connect(server=cls.cluster.server_address)
        cls.addClassCleanup(cls.client.close)

    def setUp(self):
        self.job = self.id().rpartition(".")[2][:60].replace("_", "-")

    # Runs function(job) on two processes, as threads.
    def world(self, function, **settings):
        def run(member):
            socket = self.cluster.worker_socket(f"host-{member.rank}")
            with remesh.connect(socket, self.cluster.server_address) as client:
                with job.Core(self.job, client=client, job_group=member, **settings) as core:
                    return function(core)

        return local_group.run_together(local_group.LocalGroup.make(2, 60.0), run)

    def save(self, core, step, **changes):
        return core.save_pieces(
            job_kills.pieces_of(step, core.rank, 2),
            step,
            extra={"step": step, "rank": core.rank, **changes},
            block=True,
        )

    def states(self):
        """Number -> state, of the saves."""
        found = {names.parse(each.name): each for each in self.client.states(f"jobs/{self.job}")}
        return {key.number: each for key, each in found.items() if isinstance(key, names.SaveId)}

    def reserved(self):
        """Those that are reserved."""
        return [each for each in self.states().values() if worlds.RESERVED in each.labels]

    # Waits until this process has its part of the next save's memory.
    def ready(self, core):
        present = core._saver._reservations._present
        present.join()
        return present

    def test_the_next_save_takes_what_is_reserved(self):
        def function(core):
            first = self.save(core, 1)
            self.ready(core)
            if core.rank == 0:
                state = self.reserved()[0]
                self.assertEqual((state.phase, state.step), ("BUILDING", 0))
                self.assertGreater(state.name, first.name)
            core._group.barrier("seen")
            second = self.save(core, 2)
            self.ready(core)
            return first.name, second.name, self.reserved()[0].name

        for first, second, third in self.world(function):
            numbers = [names.parse(name).number for name in (first, second, third)]
            self.assertEqual(numbers, [1, 2, 3])
        self.assertEqual(
            [(k, v.phase, v.step) for k, v in self.states().items()], [(2, "READY", 2)]
        )
        self.assertNotIn(worlds.RESERVED, self.states()[2].labels)

        def restored(core):
            found = core.restore_arrays(job_kills.arrays_of(2))
            job_kills.check(found, core.rank, 2)
            return found.step

        self.assertEqual(self.world(restored), [2, 2])

    def test_pages_are_there_before_the_save(self):
        def function(core):
            self.save(core, 1)
            self.ready(core)
            core._group.barrier("reserved")
            if core.rank:
                return
            blocks = {}
            for host in self.cluster.host_names:
                for path in (self.cluster.buffers / host).rglob("*.device"):
                    if self.job not in str(path):
                        continue
                    blocks.setdefault(str(path.parent), []).append(path.stat().st_blocks)
            self.assertEqual(len(blocks), 4, blocks)  # two states on each of two hosts
            self.assertTrue(all(min(each) > 0 for each in blocks.values()), blocks)

        self.world(function)

    def test_a_changed_structure_discards_it(self):
        def function(core):
            self.save(core, 1)
            self.ready(core)
            name = core._saver._reservations._present.name
            save = self.save(core, 2, more="x" * 1000)  # the extra needs a longer row
            return name, save.name

        for reserved, saved in self.world(function):
            self.assertGreater(saved, reserved)
        self.assertEqual(len(self.states()), 1)

    def test_what_only_some_hosts_have_is_discarded(self):
        allocate = LocalState.allocate

        def refuses(local, *rest, **named):
            reserves = threading.current_thread().name == "remesh-commit"
            if reserves and local._worker.host.name == "host-1":
                raise errors.NoRoom("no room, says the test")
            return allocate(local, *rest, **named)

        def function(core):
            with mock.patch.object(LocalState, "allocate", refuses):
                self.save(core, 1)
                reserved = self.ready(core).name
                core._group.barrier("reserved")
                return reserved, self.save(core, 2).name

        for reserved, saved in self.world(function):
            self.assertGreater(saved, reserved)
        self.assertEqual([state.step for state in self.states().values()], [2])

    def test_one_that_is_gone_costs_nothing_but_time(self):
        def function(core):
            self.save(core, 1)
            self.ready(core)
            core._group.barrier("reserved")
            if core.rank == 0:
                self.reserved()[0].delete()
            core._group.barrier("deleted")
            self.save(core, 2)

        self.world(function)
        self.assertEqual([state.step for state in self.states().values()], [2])

    # Regression: the next save waited a second, and a restore or close() five.
    def test_a_save_that_fails_leaves_no_reservation_that_is_waited_for(self):
        write = saving.Saver._write

        def fails(saver, local, *rest):
            if names.parse(local.name).number == 1:
                raise errors.NoRoom("no room, says the test")
            return write(saver, local, *rest)

        def function(core):
            with self.assertRaises(errors.NoRoom):
                self.save(core, 1)
            present = core._saver._reservations._present
            return present._ended.is_set(), present.report(), self.save(core, 2).step

        with mock.patch.object(saving.Saver, "_write", fails):
            self.assertEqual(self.world(function), [(True, b"", 2)] * 2)

    def test_reserve_false_reserves_nothing(self):
        def function(core):
            self.save(core, 1)
            return core._saver._reservations._present, len(self.states())

        self.assertEqual(self.world(function, reserve=False), [(None, 1)] * 2)

    def test_a_restart_of_the_server_keeps_it(self):
        ready, restarted = threading.Barrier(3), threading.Event()

        def function(core):
            self.save(core, 1)
            reserved = self.ready(core).name
            ready.wait(_SECONDS)
            restarted.wait(_SECONDS)
            return reserved, self.save(core, 2).name

        with concurrent.futures.ThreadPoolExecutor() as pool:
            ended = pool.submit(self.world, function)
            ready.wait(_SECONDS)
            self.cluster.server.kill()
            self.cluster.start_server()  # by this thread: the server ends with it
            restarted.set()
            for reserved, saved in ended.result():
                self.assertEqual(saved, reserved)

    def test_a_later_world_ends_it(self):
        def older(core):
            self.save(core, 1)
            self.ready(core)
            core._group.barrier("reserved")
            if core.rank == 0:
                self.world(lambda new: self.assertEqual(self.reserved(), []))
            core._group.barrier("later world")
            with self.assertRaises(job.Superseded):
                self.save(core, 2)

        self.world(older)
        self.assertEqual([state.step for state in self.states().values()], [1])

    # The state is created after the later world has looked for it.
    def test_a_stopped_world_leaves_nothing_behind(self):
        create, stopped, goes_on = worlds.Worlds.create, threading.Event(), threading.Event()

        def slow(self, state_id, spec, labels):
            if worlds.RESERVED in labels:
                stopped.set()
                goes_on.wait(_SECONDS)
            return create(self, state_id, spec, labels)

        def older(core):
            self.save(core, 1)
            if core.rank == 0:
                stopped.wait(_SECONDS)
                self.world(lambda new: None)
                goes_on.set()
            core._group.barrier("later world")

        with mock.patch.object(worlds.Worlds, "create", slow):
            self.world(older)
        wait_until(lambda: not self.reserved(), "the old world's reservation stays")

    def test_close_while_it_reserves_is_bounded(self):
        allocate, reserving_now = LocalState.allocate, threading.Event()

        def never(local, *rest, **named):
            if threading.current_thread().name != "remesh-commit":
                return allocate(local, *rest, **named)
            reserving_now.set()
            time.sleep(0.05)
            raise errors.TimedOut("not yet, says the test")

        def function(core):
            self.save(core, 1)
            reserving_now.wait(_SECONDS)
            return core._saver._reservations._present

        with mock.patch.object(LocalState, "allocate", never):
            presents = self.world(function)
        self.assertTrue(all(each._ended.is_set() for each in presents), "threads still run")
        self.assertEqual(self.reserved(), [])

    def test_a_save_does_not_wait_for_an_older_one_that_stays(self):
        with mock.patch.object(reserving.Reservations, "gone", return_value=False):
            self.world(lambda core: [self.save(core, step) for step in (1, 2)] and None)
        self.assertEqual([state.step for state in self.states().values()], [2])

    def test_finds_a_reserved_state_that_counts_as_kept(self):
        with mock.patch.object(finishing.Finisher, "_left_over", return_value=False):
            with self.assertRaises(AssertionError):
                self.check_unwritten_states_do_not_count()

    def test_unwritten_states_do_not_count_as_kept(self):
        self.check_unwritten_states_do_not_count()

    def check_unwritten_states_do_not_count(self):
        def function(core):
            for step in (1, 2):
                self.save(core, step)
                self.ready(core)
            # What is reserved stays, as if its deletion had failed.
            with mock.patch.object(reserving, "delete"):
                core._saver.free()
            core._group.barrier("left")
            return self.save(core, 3)

        self.world(function, keep=4)
        steps = sorted(state.step for state in self.states().values())
        self.assertEqual(steps, [1, 2, 3])


if __name__ == "__main__":
    unittest.main()
