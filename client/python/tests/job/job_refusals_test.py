# SPDX-License-Identifier: Apache-2.0
"""What a job refuses, and how errors of one process reach all."""

import concurrent.futures
import threading
import time
import unittest
from unittest import mock

import numpy as np

from remesh import errors, job, names
from remesh.job.committing import Commit
from remesh.job.worlds import Worlds
from remesh.worker import LocalState

from job_case import JobCase, World, values


class JobRefusalsTest(JobCase):
    def test_an_error_of_one_process_is_raised_by_all(self):
        def function(core):
            world = World(core.rank, core.size, values(1))
            saved = world.pieces()
            if core.rank == 1:
                saved[0] = job.Piece(saved[0].array, saved[0].boxes, lambda box: 1 // 0)
            with self.assertRaisesRegex(errors.ProcessFailed, "process 1.*ZeroDivisionError"):
                core.save_pieces(saved, 1)
            core.save_pieces(world.pieces(), 2, block=True)

        self.world("errors", 2, function)
        self.assertEqual(
            self.states("errors"),
            [names.SaveId(1, 3), names.WorldId(1)],  # 2 would have been reserved after 1
            "the failed save must go, its name with it",
        )

    def test_an_error_of_process_0_in_a_restore_is_raised_by_all(self):
        self.save("broken", 3, 1)

        def function(core):
            arrays = World(core.rank, core.size, values(1), whole=("s",)).arrays()
            if core.rank == 0:
                core._restorer._worlds = None
            start = time.perf_counter()
            with self.assertRaisesRegex(errors.ProcessFailed, "process 0.*AttributeError"):
                core.restore_arrays(arrays)
            return time.perf_counter() - start

        print(
            "raised after",
            [f"{each:.3f} s" for each in self.world("broken", 3, function)],
            flush=True,
        )

    def test_refuses_another_structure_by_name(self):
        self.save("structure", 2, 1)

        def function(core):
            other = {**values(1), "w": np.zeros((24, 7), np.float32), "x": np.zeros((2,), np.uint8)}
            del other["s"]
            with self.assertRaisesRegex(
                job.StructureMismatch,
                r"s: have f32\[5,3\], want none; w: have f32\[24,6\], want f32\[24,7\]; "
                r"x: have none, want u8\[2\]",
            ):
                core.restore_arrays(World(core.rank, core.size, other).arrays())
            found = core.restore_arrays(World(core.rank, core.size, other).arrays(), strict=False)
            self.assertTrue(found.shards.of("b"))

        self.world("structure", 2, function)

    # Regression: no restore ever took the save.
    def test_labels_of_remesh_are_refused(self):
        def function(core):
            world = World(core.rank, core.size, values(1), whole=("s",))
            for name in ("remesh-reserved", "world-size"):
                with self.assertRaisesRegex(errors.BadArgument, f"labels: value '{name}' must"):
                    core.save_pieces(world.pieces(), 1, labels={name: "1"})

        self.world("labels", 2, function)

    def test_processes_must_save_the_same(self):
        def function(core):
            world = World(core.rank, core.size, values(core.rank))
            with self.assertRaisesRegex(
                job.StructureMismatch, "step: process 1 saves step 1, process 0 step 0"
            ):
                core.save_pieces(world.pieces(), core.rank)
            arrays = values(0)
            if core.rank == 1:
                arrays["more"] = arrays["w"]
            with self.assertRaisesRegex(job.StructureMismatch, "tree: process 1"):
                core.save_pieces(World(core.rank, core.size, arrays).pieces(), 1)

        self.world("agree", 2, function)

    def test_a_process_of_an_earlier_world_saves_no_more(self):
        def function(core):
            world = World(core.rank, core.size, values(1))
            core.save_pieces(world.pieces(), 1, block=True)
            if core.rank == 0:
                self.save("old", 2, 5)
            with self.assertRaisesRegex(job.Superseded, "world 2 of job old has begun"):
                core.save_pieces(world.pieces(), 9)
            with self.assertRaises(job.Superseded):
                core.save_pieces(world.pieces(), 10)

        self.world("old", 2, function)
        self.check_restored("old", 2, 5, 2)

    # Regression: the later world deletes the save, which it saw unfinished, and
    # the earlier one deleted the save before it: nothing was left.
    def test_a_save_that_commits_while_a_later_world_begins_costs_no_older_one(self):
        listed, committed = threading.Event(), threading.Event()
        end_move, seal, later = Worlds._end_move, LocalState.seal, []

        def looks_and_waits(worlds, state):
            listed.set()
            committed.wait(60)
            end_move(worlds, state)

        def seals_late(local, **named):
            if not later:
                later.append(pool.submit(self.check_restored, "followed", 1, 1, 1))
                listed.wait(60)
            return seal(local, **named)

        def function(core):
            world = World(core.rank, core.size, values(1), whole=("s",))
            core.save_pieces(world.pieces(), 1, extra={"rank": 0}, block=True)
            with mock.patch.object(Worlds, "_end_move", looks_and_waits), mock.patch.object(
                LocalState, "seal", seals_late
            ):
                core.save_pieces(world.pieces(), 2, block=True)
                committed.set()
                return later[0].result()

        with concurrent.futures.ThreadPoolExecutor() as pool:
            found = self.world("followed", 1, function)[0]
        self.assertEqual(names.parse(found), names.SaveId(1, 1))

    # Regression: process 0 deleted a save that had committed, because its own
    # wait for the commit was over.
    def test_a_save_that_commits_too_late_for_process_0_stays(self):
        wait = Commit.wait

        def waits_too_short(commit):
            wait(commit)
            raise errors.TimedOut("the wait is over")

        def function(core):
            world = World(core.rank, core.size, values(1), whole=("s",))
            with mock.patch.object(Commit, "wait", waits_too_short):
                with self.assertRaises(job.SaveFailed):
                    core.save_pieces(world.pieces(), 1, extra={"rank": 0}, block=True)

        self.world("late", 1, function)
        self.assertEqual(names.parse(self.check_restored("late", 1, 1, 1)), names.SaveId(1, 1))

    def test_refuses_extras_over_the_limit(self):
        def function(core):
            with self.assertRaisesRegex(job.ExtraTooLarge, "process 1"):
                core.save_pieces(
                    World(core.rank, core.size, values(1)).pieces(),
                    1,
                    extra=b"x" * (core.rank * ((1 << 20) + 1)),
                )

        self.world("extras", 2, function)


if __name__ == "__main__":
    unittest.main()
