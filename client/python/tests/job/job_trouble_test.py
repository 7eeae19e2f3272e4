# SPDX-License-Identifier: Apache-2.0
"""Jobs in trouble: hosts without room, two worlds at once, errors of one process, device ids that
come late."""

import datetime
import json
import os
import subprocess
import sys
import threading
import time
import unittest
from contextlib import nullcontext
from unittest import mock

import numpy as np

import remesh
from remesh import errors, host, job, names, storage
from remesh.job import committing
from remesh.job.committing import Commit
from remesh.job.members import introduction
from remesh.testing import LocalCluster
from remesh.worker import LocalState

from job_case import JobCase, World, values
from waiting import wait_until

_BIN = os.environ.get("REMESH_BIN_DIR", "build/release/bin")


class NoRoomTest(JobCase):
    HOSTS = 2
    WORKER_CONFIG = ("memory_limit_bytes: 4194304",)

    # Most of it on the second process's host.
    def large(self, rank, size):
        shape, cuts = (size,), [0, 1 << 10, size]
        holders = storage.Holders.of(shape, [(p, (cuts[p],), (cuts[p + 1],)) for p in (0, 1)])
        box = ((cuts[rank],), (cuts[rank + 1],))
        content = np.ones(cuts[rank + 1] - cuts[rank], np.uint8)
        return [job.Piece(storage.Array("large", "u8", holders), [box], lambda _: content)]

    # Returns what each process raises for a save of so many bytes, after a small
    # one, and checks that nothing of the large one stays.
    def refused(self, name, size):
        def function(core):
            small = World(core.rank, core.size, values(1), whole=("s",)).pieces()
            core.save_pieces(small, 1, extra={"rank": core.rank}, block=True)
            with self.assertRaises(errors.NoRoom) as caught:
                core.save_pieces(self.large(core.rank, size), 2)
            return caught.exception

        raised, after = self.world(name, 2, function), self.files("host-1")
        self.assertEqual(len({str(error) for error in raised}), 1)
        self.assertEqual(raised[0].host, "host-1")
        self.assertGreaterEqual(raised[0].needed_bytes, size - (1 << 10))
        wait_until(lambda: self.files("host-1") <= after < 4 << 20)
        return raised[0]

    def test_a_save_without_room_fails_on_all_and_leaves_nothing(self):
        size = 3 << 20  # fits alone
        self.world(
            "filler", 2, lambda core: core.save_pieces(self.large(core.rank, size), 1, block=True)
        )
        error = self.refused("room", size)
        self.assertEqual(error.process, 1)
        self.assertLess(error.free_bytes, size)
        self.assertEqual(self.states("room"), [names.SaveId(1, 1), names.WorldId(1)])
        self.assertEqual(names.parse(self.check_restored("room", 2, 1, 2)), names.SaveId(1, 1))

    def test_a_save_that_a_host_could_never_hold_is_not_created(self):
        error = self.refused("never", 8 << 20)
        self.assertEqual(error.metadata["memory_bytes"], str(4 << 20))

    # Bytes that the worker keeps of shards.
    def files(self, host):
        found = (self.cluster.buffers / host).rglob("*")
        return sum(path.stat().st_blocks * 512 for path in found if path.is_file())


class TroubleTest(JobCase):
    HOSTS = 2

    # Whatever process 0 meets, in any part, all raise.
    def check_all_raise(self, name, size, call):
        def function(core):
            start = time.perf_counter()
            with self.assertRaises(errors.ProcessFailed) as caught:
                call(core)
            return str(caught.exception), time.perf_counter() - start

        raised = self.world(name, size, function)
        self.assertEqual(len({text for text, _ in raised}), 1, raised)
        self.assertRegex(raised[0][0], "^process 0: .*the disk is full")
        return max(seconds for _, seconds in raised)

    # Makes the attribute fail where the thread of process 0 comes to it.
    def failing(self, core, owner, attribute):
        whole = getattr(owner, attribute)

        def fails(*arguments, **named):
            if core.rank == 0:
                raise OSError("the disk is full")
            return whole(*arguments, **named)

        return mock.patch.object(owner, attribute, fails)

    def test_an_error_of_process_0_in_a_save_is_raised_by_all(self):
        for part in ("_decide", "_check_memory", "_write"):

            def saves(core, part=part):
                world = World(core.rank, core.size, values(1))
                with self.failing(core, core._saver, part):
                    core.save_pieces(world.pieces(), 1)

            seconds = self.check_all_raise("save-fails", 3, saves)
            print(f"save, {part}: raised by all after {seconds:.3f} s", flush=True)
        self.assertEqual([each for each in self.states("save-fails") if each.world < 3], [])

    def test_an_error_of_process_0_in_a_restore_is_raised_by_all(self):
        self.save("restore-fails", 3, 1)
        for part in ("_decide", "_moved", "_local_rows"):

            def restores(core, part=part):
                arrays = World(core.rank, core.size, values(1), whole=("s",)).arrays()
                with self.failing(core, core._restorer, part):
                    core.restore_arrays(arrays)

            seconds = self.check_all_raise("restore-fails", 3, restores)
            print(f"restore, {part}: raised by all after {seconds:.3f} s", flush=True)
        self.check_restored("restore-fails", 2, 1, 3)

    def test_jobs_of_one_host_do_not_meet(self):
        ended = threading.Barrier(2, timeout=60)

        def runs(name, seed):
            def function(core):
                world = World(core.rank, core.size, values(seed), whole=("s",))
                for step in range(3):
                    core.save_pieces(world.pieces(), step, extra={"rank": core.rank})
                core.save_pieces(world.pieces(), seed, extra={"rank": core.rank}, block=True)
                if core.rank == 0:
                    ended.wait()

            self.world(name, 2, function, hosts=["host-0"])

        threads = [
            threading.Thread(target=runs, args=each) for each in (("left", 11), ("right", 12))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.check_restored("left", 2, 11, 2, hosts=["host-0"])
        self.check_restored("right", 1, 12, 2, hosts=["host-0"])

    # Clocks of different speeds: process 0's decides for all.
    def test_saves_about_so_often_at_steps_that_process_0_chose(self):
        mine = threading.local()

        def function(core):
            mine.now = 0.0
            world = World(core.rank, core.size, values(1))
            steps = []
            for step in range(20):
                mine.now += (1.0, 7.0)[core.rank]
                if core.should_save(step):
                    steps.append(step)
                    core.save_pieces(world.pieces(), step + 1)
            return steps

        clock = mock.Mock(monotonic=lambda: getattr(mine, "now", 0.0))
        with mock.patch("remesh.job.core.time", clock):
            said = self.world("seconds", 2, function, seconds=5.0)
        self.assertEqual(said, [[0, 5, 10, 15]] * 2)


class CommitTest(JobCase):
    HOSTS = 3

    # Saves on three processes, of which the worker of host-1 dies before its
    # seal. Returns what fails(core) raises.
    def failures(self, name, fails):
        seal = LocalState.seal

        def dies(local, **named):
            if local._worker.host.name == "host-1":
                self.cluster.workers["host-1"].kill()
            return seal(local, **named)

        def function(core):
            world = World(core.rank, core.size, values(1), whole=("s",))
            core.save_pieces(world.pieces(), 1, extra={"rank": core.rank}, block=True)
            core._group.barrier("saved")
            with mock.patch.object(LocalState, "seal", dies) if core.rank == 0 else nullcontext():
                core._group.barrier("armed")
                save = core.save_pieces(world.pieces(), 2)
                with self.assertRaises(job.SaveFailed) as caught:
                    fails(core, world)
                save.committed.exception()
                return caught.exception

        raised = self.world(name, 3, function, patience=0.5)
        self.cluster.start_worker("host-1")
        return raised

    # Each in its own close(), which makes no call to the group.
    def test_a_worker_that_is_gone_fails_the_save_on_all_processes_alike(self):
        for way, fails in (
            ("closed", lambda core, world: core.close()),
            ("next", lambda core, world: core.save_pieces(world.pieces(), 3)),
        ):
            raised = self.failures(way, fails)
            self.assertEqual(len({each.message for each in raised}), 1, raised)
            self.assertRegex(
                raised[0].message, r"save.000001.00000002 \(step 2\) did not .*host-1: away"
            )
            self.assertEqual([each.hosts for each in raised], [["host-1"]] * 3)
            self.assertEqual(names.parse(self.check_restored(way, 2, 1, 3)), names.SaveId(1, 1))
            self.assertEqual(
                [each for each in self.states(way) if isinstance(each, names.SaveId)],
                [names.SaveId(1, 1)],
            )

    # Its host is there, and does not seal: all wait for commit_seconds.
    def test_a_process_that_cannot_seal_fails_the_save_on_all_processes_alike(self):
        seal = LocalState.seal

        def fails(local, **named):
            if local._worker.host.name == "host-1":
                raise OSError("the disk is full")
            return seal(local, **named)

        def function(core):
            world = World(core.rank, core.size, values(1), whole=("s",))
            core.save_pieces(world.pieces(), 2)
            with self.assertRaises(job.SaveFailed) as caught:
                core.close()
            return caught.exception

        with mock.patch.object(LocalState, "seal", fails):
            raised = self.world("unsealed", 3, function, commit_seconds=1.0)
        self.assertEqual(len({each.message for each in raised}), 1, raised)
        self.assertRegex(raised[0].message, r"\(step 2\) did not .*host-1: not sealed in time")
        self.assertEqual(raised[2].hosts, ["host-1"])
        self.assertEqual(self.states("unsealed"), [names.WorldId(1)])

    # Regression: the server refused the label, and the others raised Superseded.
    def test_what_the_others_are_told_fits_into_labels(self):
        told = committing.to_labels(job.SaveFailed("ü" * 999, metadata={"state": "s"}))
        self.assertLessEqual(max(len(value.encode()) for value in told.values()), 1024)
        self.assertEqual(committing.of_labels(told).message, "ü" * 512)

    # The server has committed the save, and process 0's worker died before it
    # could tell.
    def test_a_committed_save_whose_host_is_away_is_no_failure(self):
        def dies(commit):
            wait_until(lambda: commit._worlds.find(commit._local.name).phase == "READY")
            self.cluster.workers["host-0"].kill()
            wait_until(lambda: commit._worlds.find(commit._local.name).phase == "LOST")
            return wait(commit)

        def function(core):
            world = World(core.rank, core.size, values(4), whole=("s",))
            core.save_pieces(world.pieces(), 4, extra={"rank": 0}, block=True)

        wait = Commit.wait
        with mock.patch.object(Commit, "wait", dies):
            self.world("told-late", 1, function, patience=0.5)
        self.cluster.start_worker("host-0")
        self.check_restored("told-late", 1, 4, 1)


_CLAIMS = """
import json, os, sys
import remesh.job
from remesh.job.worlds import Worlds
from remesh.local_group import LocalGroup
create = Worlds.create
def waits(*arguments):
    print(json.dumps({"pid": os.getpid()}), flush=True)
    sys.stdin.readline()
    return create(*arguments)
Worlds.create = waits
try:
    core = remesh.job.Core("twice", job_group=LocalGroup.make(1)[0])
except remesh.job.JobRunsTwice as error:
    print(json.dumps({"refused": str(error), **error.metadata}), flush=True)
else:
    print(json.dumps({"world": core.world}), flush=True)
    sys.stdin.readline()
"""


class TwiceTest(JobCase):
    HOSTS = 1

    # Both have seen that world 1 is free before one of them claims it.
    def test_of_two_worlds_that_begin_at_once_one_is_refused(self):
        environment = {**os.environ, "REMESH_SOCKET": self.cluster.worker_socket("host-0")}
        both = [
            subprocess.Popen(
                [sys.executable, "-c", _CLAIMS],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        for each in both:
            self.addCleanup(each.communicate)
            self.addCleanup(each.kill)
        pids = [json.loads(each.stdout.readline())["pid"] for each in both]
        for each in both:
            each.stdin.write("\n")
            each.stdin.flush()
        said = [json.loads(each.stdout.readline()) for each in both]
        winner = next(i for i, each in enumerate(said) if "world" in each)
        refused = said[1 - winner]
        self.assertEqual(said[winner]["world"], 1)
        self.assertEqual((refused["host"], refused["pid"]), ("host-0", str(pids[winner])))
        for word in ("host host-0", f"pid {pids[winner]}", f"time {refused['time']}"):
            self.assertIn(word, refused["refused"])
        self.assertLess(
            abs(time.time() - datetime.datetime.fromisoformat(refused["time"]).timestamp()), 600
        )


class LateIdsTest(unittest.TestCase):

    # A worker that the server numbers has ids of -1 until it is attached.
    def test_a_job_waits_for_the_ids_that_the_server_assigns(self):
        with LocalCluster(_BIN, 1, 2, assigned_ids=True) as cluster:
            cluster.kill_server()
            cluster.workers["host-0"].kill()
            cluster.start_worker("host-0", wait=False)
            found = []

            def begins():
                with remesh.connect(cluster.worker_socket("host-0"), timeout=60.0) as client:
                    with job.Core("late-ids", client=client) as core:
                        saved = World(0, 1, values(1)).pieces()
                        core.save_pieces(saved, 1, block=True)
                        found.extend(client.host.device_ids)

            begun = threading.Thread(target=begins)
            begun.start()
            cluster.start_server()
            begun.join()
            self.assertEqual(len([each for each in found if each >= 0]), 2, found)

    def test_ids_that_are_not_assigned_reach_no_layout(self):
        told = host.Host("a", "c", (host.Device(-1, 0, "host", 0),), "s:1", "", False)
        with self.assertRaisesRegex(errors.HostAway, "a: .*device 0 has no id yet"):
            introduction(told)


if __name__ == "__main__":
    unittest.main()
