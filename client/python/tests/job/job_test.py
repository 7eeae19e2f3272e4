# SPDX-License-Identifier: Apache-2.0
"""Jobs of NumPy arrays over real workers: what is saved is restored, in any layout, by a world of
any size."""

import time
import unittest
from unittest import mock

import numpy as np

import remesh
from remesh import errors, job, names
from remesh.job.restoring import Restorer

from job_case import JobCase, World, values


class JobTest(JobCase):
    def test_a_world_of_another_size_restores_what_was_saved(self):
        self.save("sizes", 4, 10)
        for size, saved_size in ((4, 4), (3, 4), (1, 4), (4, 4), (2, 4), (8, 4)):
            with self.subTest(size=size):
                self.check_restored("sizes", size, 10, saved_size)

    def test_there_is_nothing_to_restore_at_first(self):
        self.assertEqual(
            self.world(
                "nothing",
                2,
                lambda core: core.restore_arrays(World(core.rank, 2, values(0)).arrays()),
            ),
            [None, None],
        )

    def test_the_older_save_goes_when_the_new_one_is_whole(self):
        def function(core):
            world = World(core.rank, core.size, values(1), whole=("s",))
            for step in (1, 2, 3):
                core.save_pieces(world.pieces(), step, block=True)

        self.world("older", 2, function)
        self.assertEqual(self.states("older"), [names.SaveId(1, 3), names.WorldId(1)])
        self.world("older", 2, function, keep=2)
        self.assertEqual(
            self.states("older"), [names.SaveId(2, 2), names.SaveId(2, 3), names.WorldId(2)]
        )

    def test_several_processes_of_a_host_write_one_save(self):
        self.save("shared", 8, 20, hosts=["host-0", "host-0", "host-1"])
        self.check_restored("shared", 3, 20, 8, hosts=["host-1", "host-2", "host-2"])

    def test_what_every_process_holds_is_stored_once_a_replica(self):
        large = {"w": np.zeros((1 << 19,), np.float32), "v": np.ones((1 << 19,), np.float32)}
        for replicas in (1, 2):

            def function(core):
                world = World(core.rank, core.size, large, whole=large)
                return core.save_pieces(world.pieces(), 1, block=True).name

            name = self.world(
                f"whole-{replicas}",
                8,
                function,
                hosts=self.cluster.host_names[:2],
                replicas=replicas,
            )[0]
            with remesh.connect(server=self.cluster.server_address) as client:
                self.assertLessEqual(client.state(name).bytes, 1.05 * replicas * (4 << 20))

    # Saves, restores in the same layout, and returns what was found and the move
    # of process 0.
    def restore_equal(self, name, size, arrays, whole, **settings):
        moves, described = [], Restorer._described

        def describes(restorer, moved, *rest):
            moves.append(moved)
            return described(restorer, moved, *rest)

        def saves(core):
            saved = World(core.rank, core.size, arrays, whole).pieces()
            core.save_pieces(saved, 4, block=True)

        def restores(core):
            start = time.perf_counter()
            core._group.barrier("as many exchanges")
            core._group.barrier("as in a restore")
            exchanges = time.perf_counter() - start
            found = core.restore_arrays(World(core.rank, core.size, arrays, whole).arrays())
            return sum(found.seconds.values()) - exchanges

        self.world(name, size, saves, **settings)
        with mock.patch.object(Restorer, "_described", describes):
            seconds = self.world(name, size, restores)[0]
        return moves[0], seconds

    def test_a_host_that_stores_what_it_wants_moves_nothing(self):
        moved, seconds = self.restore_equal("equal", 2, values(4), whole=())
        self.assertEqual(moved.generation, 1, "a move made another generation")
        self.assertEqual(moved.crossing_bytes, 0)
        print(f"equal layout, 2 processes: 0 bytes, {1e3 * seconds:.1f} ms beside exchanges")

    # Two of the four hosts store what all four want: the layouts are not equal.
    def test_data_parallel_hosts_that_store_nothing_get_copies(self):
        whole = {"w": np.ones((1 << 20,), np.float32)}
        moved, seconds = self.restore_equal("parallel", 4, whole, whole)
        self.assertEqual(moved.crossing_bytes, 2 * (4 << 20))
        kept = moved.execution.summary.kept_bytes
        print(
            f"data parallel, 4 hosts, {4 << 20} bytes: {moved.crossing_bytes} bytes crossed hosts, "
            f"{kept} were copied where they lay, {1e3 * seconds:.1f} ms beside exchanges"
        )
        moved, _ = self.restore_equal("parallel", 4, whole, whole, replicas=4)
        self.assertEqual((moved.generation, moved.crossing_bytes), (1, 0))

    def test_two_jobs_of_one_process(self):
        def function(core):
            with job.Core("second", client=core._client, job_group=core._group) as second:
                for seed, each in ((1, core), (2, second)):
                    each.save_pieces(
                        World(core.rank, core.size, values(seed), whole=("s",)).pieces(),
                        seed,
                        extra={"rank": core.rank},
                        block=True,
                    )
            core.close()
            core.close()

        self.world("first", 2, function)
        self.check_restored("first", 2, 1, 2)
        self.check_restored("second", 2, 2, 2)

    # Regression: it took the save before, or raised NotFound while that was
    # deleted.
    def test_a_world_that_goes_back_gets_its_last_save(self):
        def function(core):
            world = World(core.rank, core.size, values(1), whole=("s",))
            for step in range(1, 9):
                core.save_pieces(world.pieces(), step)
                self.assertEqual(core.newest().step, step)
                self.assertEqual(core.restore_arrays(world.arrays()).step, step)

        self.world("back", 2, function)

    def test_picks_a_step_that_is_kept(self):
        def saves(core):
            for seed in (3, 9, 6):
                core.save_pieces(
                    World(core.rank, core.size, values(seed), whole=("s",)).pieces(),
                    seed,
                    block=True,
                )

        self.world("steps", 2, saves, keep=3)

        def restores(core):
            arrays = World(core.rank, core.size, values(0), whole=("s",)).arrays()
            self.assertEqual(
                core.restore_arrays(arrays).step,
                6,
                "the newest is the last save, not the highest step",
            )
            self.assertEqual(core.restore_arrays(arrays, step=9).step, 9)
            with self.assertRaisesRegex(errors.NotFound, "no save of step 4"):
                core.restore_arrays(arrays, step=4)

        self.world("steps", 2, restores)

    # Regression: they were not JSON.
    def test_steps_may_be_numpy_integers(self):
        def function(core):
            world = World(core.rank, core.size, values(1), whole=("s",))
            core.save_pieces(world.pieces(), np.int64(7))
            return (
                core.newest(np.int64(7)).step,
                core.restore_arrays(world.arrays(), step=np.int32(7)).step,
            )

        self.assertEqual(self.world("numpy-steps", 2, function, seconds=60.0), [(7, 7)] * 2)

    def test_says_yes_every_so_many_steps(self):
        def function(core):
            return [step for step in range(10) if core.should_save(step)]

        self.assertEqual(self.world("every", 1, function, every=4), [[3, 7]])
        self.assertEqual(self.world("every", 1, function), [[]])
        with self.assertRaisesRegex(ValueError, "every: value 0"):
            self.world("every", 1, function, every=0)


if __name__ == "__main__":
    unittest.main()
