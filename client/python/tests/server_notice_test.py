# SPDX-License-Identifier: Apache-2.0
"""Leaving over a real server: the laws of notices, what a step costs, resizes, and restarts of the
server."""

import os
import subprocess
import threading
import time
import unittest
import unittest.mock

import grpc
import notice_laws
from waiting import wait_until

import remesh
from remesh import coordination, errors
from remesh.job import Reason
from remesh.job.leaving import Decision
from remesh.job.server_notice import ServerNotice
from remesh.server_group import ServerGroup
from remesh.testing import LocalCluster
from remesh.world_place import Place

_BIN = os.environ.get("REMESH_BIN_DIR", "build/release/bin")
_MANY = 5000  # steps, of which each takes _STEP_SECONDS
_STEP_SECONDS = 0.005


class Counting(grpc.UnaryUnaryClientInterceptor):
    """Counts calls other than streams."""

    def __init__(self):
        self.calls = []

    def intercept_unary_unary(self, continuation, details, request):
        self.calls.append(details.method.rpartition("/")[2])
        return continuation(details, request)


class ServerNoticeTest(unittest.TestCase):

    def setUp(self):
        self.cluster = LocalCluster(_BIN, 1, 1).__enter__()
        self.addCleanup(self.cluster.close)
        self.client = remesh.connect(
            self.cluster.worker_socket("host-0"), self.cluster.server_address
        )
        self.addCleanup(self.client.close)
        self.counting = Counting()

    def channel(self):
        return grpc.intercept_channel(self.client.channel(), self.counting)

    # Runs function(notice, group) for each process of a world, as threads, and
    # returns what each returned or raised.
    def world(self, size, function, deadline=30.0):
        results = [None] * size

        def run(rank):
            place = Place(rank, size, self.id())
            with ServerGroup(
                "jobs/a/worlds/main", self.channel, place, deadline=deadline, host=f"host-{rank}"
            ) as group:
                notice = ServerNotice(group, listens=False)
                try:
                    results[rank] = function(notice, group)
                except errors.RemeshError as error:
                    results[rank] = error
                finally:
                    notice.close()

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    # Steps in which processes wait for one another now and then, as training does.
    def trains(self, tells, steps=range(_MANY)):
        def function(notice, group):
            def before(step):
                if step % 10 == 0:
                    group.barrier(f"step {step}")
                reason = tells.get((group.rank, step))
                if reason is not None:
                    notice.tell(*reason)
                time.sleep(_STEP_SECONDS)
                return reason and reason[0]

            return notice_laws.run(notice, steps, before)

        return function

    # Steps until all leave: the last one, and why. before(step) comes before each.
    def leave(self, notice, before):
        decision = Decision(notice)
        decision.start()
        for step in range(_MANY):
            before(step)
            if decision.at(step) is not None:
                return step, decision.at(step)
            time.sleep(_STEP_SECONDS)
        return None

    # The step at which all left, because of a resize.
    def check_left(self, left):
        self.assertEqual(len(set(left)), 1, left)
        self.assertEqual(left[0][1], Reason.RESIZED)

    def remeshctl(self, *arguments):
        command = [f"{_BIN}/remeshctl", *arguments, "--server", self.cluster.server_address]
        return subprocess.run(command, text=True, capture_output=True, check=False)

    def test_steps_cost_no_call(self):
        def function(notice, group):
            notice.due(0)
            group.barrier("begun")
            before = len(self.counting.calls)
            for step in range(1, 1000):
                self.assertIsNone(notice.due(step))
            calls = self.counting.calls[before:]
            group.barrier("done")
            return [each for each in calls if each != "Exchange"]

        self.assertEqual(self.world(4, function), [[]] * 4)

    def test_all_leave_at_one_step_after_the_notice(self):
        tells = {(2, 20): (Reason.TOLD_TO_GO,), (0, 20): (Reason.TOLD_TO_GO,)}
        records = self.world(5, self.trains(tells))
        self.assertGreaterEqual(notice_laws.check(records, _MANY), 20)
        self.assertEqual(self.counting.calls.count("AgreeStep"), 5)

    def test_a_resize_wins(self):
        tells = {(1, 20): (Reason.TOLD_TO_GO,), (0, 19): (Reason.RESIZED, 6)}
        records = self.world(2, self.trains(tells))
        self.assertEqual(set(records[0].answers.values()), {None, Reason.RESIZED})
        self.assertEqual(records[0].answers, records[1].answers)

    def test_a_notice_before_the_first_step(self):
        records = self.world(3, self.trains({(1, 1000): (Reason.TOLD_TO_GO,)}, range(1000, 6000)))
        self.assertGreaterEqual(notice_laws.check(records, _MANY), 1000)

    def test_a_notice_after_another_of_the_same_group(self):
        trains = self.trains({(1, 20): (Reason.TOLD_TO_GO,)})

        def function(notice, group):
            notice.due(0)
            notice.close()
            second = ServerNotice(group, listens=False)
            try:
                return trains(second, group)
            finally:
                second.close()

        self.assertGreaterEqual(notice_laws.check(self.world(3, function), _MANY), 20)

    def test_steps_that_are_skipped_and_taken_back(self):
        steps = [*range(0, 60, 7), *range(3, 5000, 7)]
        records = self.world(3, self.trains({(1, 49): (Reason.TOLD_TO_GO,)}, steps))
        self.assertEqual(records[0].answers, records[1].answers)
        self.assertEqual(records[0].answers, records[2].answers)
        self.assertIn(Reason.TOLD_TO_GO, records[0].answers.values())

    def test_a_notice_when_the_job_ends_is_too_late(self):
        def function(notice, group):
            if group.rank == 0:
                return notice.due(9)  # its last step: it leaves the world
            notice.due(8)
            with self.assertRaises(errors.MemberLeft):
                group.barrier("the other has left")
            notice.tell(Reason.TOLD_TO_GO)
            group.step_agreement().wait_preempted(30)
            return [notice.due(step) for step in (9, 10)]

        self.assertEqual(self.world(2, function), [None, [None, None]])

    def test_one_that_hangs_is_named(self):
        hangs = threading.Event()

        def function(notice, group):
            if group.rank == 1:
                hangs.wait()
                return None
            try:
                notice.due(0)
                notice.tell(Reason.TOLD_TO_GO)
                group.step_agreement().wait_preempted(30)
                wait_until(lambda: notice.due(1) is not None, "the other names its step")
            finally:
                hangs.set()

        error = self.world(2, function, deadline=0.5)[0]
        self.assertIsInstance(error, errors.BarrierTimeout)
        self.assertEqual(error.metadata["absent"], "1@host-1")
        self.assertEqual(error.absent, [1])

    def test_the_server_restarts_after_the_report(self):
        def function(notice, group):
            def before(step):
                if group.rank == 0 and step == 10:
                    notice.tell(Reason.RESIZED, 6)
                    self.cluster.kill_server()
                    self.cluster.start_server()

            return self.leave(notice, before)

        self.check_left(self.world(3, function))

    def test_remeshctl_resizes(self):
        asked = []

        def function(notice, group):
            def before(step):
                if group.rank == 0 and step == 10:
                    asked.append(self.remeshctl("jobs", "resize", "a", "-n", "6"))

            left = self.leave(notice, before)
            if group.rank == 0:
                asked.append(self.remeshctl("jobs", "resize", "a", "-n", "5"))
            group.barrier("asked")
            return left

        self.check_left(self.world(3, function))
        first, second = asked
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn("asked jobs/a/worlds/main to save, end and start again as 6", first.stderr)
        self.assertEqual(second.returncode, 1)
        self.assertIn("its members leave already", second.stderr)
        self.assertIn("to be 6 processes then", second.stderr)
        over = self.remeshctl("jobs", "resize", "jobs/a", "-n", "6")
        self.assertEqual(over.returncode, 1)
        self.assertIn("jobs/a/worlds/main: its world is over and has no members", over.stderr)

    def test_what_remeshctl_refuses(self):
        for size in ("0", "-1", "16385", "x"):
            done = self.remeshctl("jobs", "resize", "a", "-n", size)
            self.assertEqual(done.returncode, 2, done.stderr)
        done = self.remeshctl("jobs", "resize", "none", "-n", "6")
        self.assertEqual(done.returncode, 1)
        self.assertIn("jobs/none/worlds/main has had no world", done.stderr)

    def test_reached_preemption_sync_point(self):
        def function(_, group):
            for step in range(_MANY):
                if group.rank == 0 and step == 5:
                    group.step_agreement().report("a test")
                if coordination.reached_preemption_sync_point(step, group=group):
                    return step
                time.sleep(_STEP_SECONDS)
            return None

        with unittest.mock.patch.object(ServerNotice, "listen", lambda self: listen(self) or True):
            left = self.world(3, function)
        coordination.use(None)
        self.assertEqual(len(set(left)), 1, left)
        self.assertIsInstance(left[0], int)


listen = ServerNotice.listen

if __name__ == "__main__":
    unittest.main()
