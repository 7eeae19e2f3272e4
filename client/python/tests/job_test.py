# SPDX-License-Identifier: Apache-2.0
"""Jobs of NumPy arrays over real workers: what is saved is restored, in any layout, by a world of
any size."""

import concurrent.futures
import os
import shutil
import threading
import time
import unittest
from unittest import mock

import numpy as np
from waiting import wait_until

import remesh
from remesh import errors, job, local_group, names, storage
from remesh.job import pieces, saving
from remesh.job.committing import Commit
from remesh.job.restoring import Restorer
from remesh.job.worlds import Worlds
from remesh.testing import LocalCluster
from remesh.worker import LocalState

_BIN = os.environ.get("REMESH_BIN_DIR", "build/release/bin")


def rows_of(shape, processes):
    """Holders of an array that is cut into rows, one range a process."""
    cuts = [shape[0] * i // processes for i in range(processes + 1)]
    entries = [
        (p, (cuts[p], *[0] * (len(shape) - 1)), (cuts[p + 1], *shape[1:])) for p in range(processes)
    ]
    return storage.Holders.of(shape, entries)


class World:
    """What one process of a NumPy job holds: arrays cut into rows, or whole on every process."""

    def __init__(self, rank, size, arrays, whole=()):
        self.rank, self.size, self.whole = rank, size, set(whole)
        self.shapes = {name: (value.shape, value.dtype) for name, value in arrays.items()}
        self.values = arrays

    def arrays(self):
        kinds = {"float32": "f32", "uint8": "u8", "int64": "s64"}
        holders = {}
        result = []
        for name, (shape, dtype) in self.shapes.items():
            key = (shape, name in self.whole)
            if key not in holders:
                everywhere = name in self.whole or not shape
                holders[key] = (
                    storage.Holders.everywhere(shape, self.size)
                    if everywhere
                    else rows_of(shape, self.size)
                )
            result.append(storage.Array(name, kinds[str(dtype)], holders[key]))
        return result

    def box(self, array):
        mine = array.holders.processes == self.rank
        return tuple(map(int, array.holders.lo[mine][0])), tuple(
            map(int, array.holders.hi[mine][0])
        )

    def pieces(self):
        def content(name):
            return lambda box: self.values[name][tuple(slice(*each) for each in zip(*box))]

        return [job.Piece(array, [self.box(array)], content(array.name)) for array in self.arrays()]

    def restored(self, found):
        """name -> the elements of this process's box."""
        result = {}
        for array in self.arrays():
            box = self.box(array)
            shard = found.shards.with_box(array.name, box)[0]
            content = pieces.read(shard, box)
            result[array.name] = content.view(self.shapes[array.name][1]).reshape(
                [b - a for a, b in zip(*box)]
            )
        return result


def values(seed):
    """Arrays of several shapes and types."""
    random = np.random.default_rng(seed)
    return {
        "w": random.standard_normal((24, 6)).astype(np.float32),
        "b": random.integers(0, 255, (48,), np.uint8),
        "s": random.standard_normal((5, 3)).astype(np.float32),
        "step": np.array(seed, np.int64),
    }


class JobCase(unittest.TestCase):
    """Worlds of threads over a cluster."""

    HOSTS = 4
    WORKER_CONFIG = ()

    @classmethod
    def setUpClass(cls):
        cls.cluster = LocalCluster(_BIN, cls.HOSTS, 2, worker_config=cls.WORKER_CONFIG).__enter__()
        cls.addClassCleanup(cls.cluster.close)

    def world(self, name, size, function, hosts=None, **settings):
        """Runs function(job, World-maker) on `size` processes, as threads."""
        hosts = hosts or self.cluster.host_names

        def run(member):
            client = remesh.connect(self.cluster.worker_socket(hosts[member.rank % len(hosts)]))
            with client, job.Core(name, client=client, job_group=member, **settings) as core:
                return function(core)

        return local_group.run_together(local_group.LocalGroup.make(size, 60.0), run)

    def save(self, name, size, seed, **settings):
        def function(core):
            world = World(core.rank, core.size, values(seed), whole=("s",))
            return core.save_pieces(
                world.pieces(), seed, extra={"rank": core.rank}, block=True
            ).name

        return self.world(name, size, function, **settings)[0]

    def check_restored(self, name, size, seed, saved_size, **settings):
        def function(core):
            world = World(core.rank, core.size, values(seed), whole=("s",))
            found = core.restore_arrays(world.arrays())
            self.assertEqual(found.step, seed)
            self.assertEqual(found.extras, [{"rank": rank} for rank in range(saved_size)])
            for array in world.arrays():
                box = world.box(array)
                want = values(seed)[array.name][tuple(slice(*each) for each in zip(*box))]
                np.testing.assert_array_equal(world.restored(found)[array.name], want, array.name)
            return found.save

        return self.world(name, size, function, **settings)[0]

    def states(self, name):
        with remesh.connect(server=self.cluster.server_address) as client:
            return [names.parse(state.name) for state in client.states(f"jobs/{name}")]

    # The worker dies with its shards, and comes back.
    def wipe(self, host):
        self.cluster.workers[host].kill()
        for path in (self.cluster.buffers / host).iterdir():
            if not path.name.startswith(("agent", "lock")):  # what proves that it is the same host
                shutil.rmtree(path)
        self.cluster.start_worker(host)


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

    def test_refuses_extras_over_the_limit(self):
        def function(core):
            with self.assertRaisesRegex(job.ExtraTooLarge, "process 1"):
                core.save_pieces(
                    World(core.rank, core.size, values(1)).pieces(),
                    1,
                    extra=b"x" * (core.rank * ((1 << 20) + 1)),
                )

        self.world("extras", 2, function)

    def test_says_yes_every_so_many_steps(self):
        def function(core):
            return [step for step in range(10) if core.should_save(step)]

        self.assertEqual(self.world("every", 1, function, every=4), [[3, 7]])
        self.assertEqual(self.world("every", 1, function), [[]])
        with self.assertRaisesRegex(ValueError, "every: value 0"):
            self.world("every", 1, function, every=0)


if __name__ == "__main__":
    unittest.main()
