# SPDX-License-Identifier: Apache-2.0
"""Jobs that are asked to leave save at one step, leave, and go on in the next world."""

import os
import unittest

import job_kills
import remesh
from remesh import errors, job, local_group
from remesh.job import Reason
from remesh.testing import LocalCluster

_BIN = os.environ.get("REMESH_BIN_DIR", "build/release/bin")


class LeavingTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.cluster = LocalCluster(_BIN, 4, 1).__enter__()
        cls.addClassCleanup(cls.cluster.close)
        os.environ["REMESH_SERVER"] = cls.cluster.server_address

    # Trains `size` processes, as threads, up to `steps`. told(core, step) is
    # called before the loop asks at each step, in_save(core) within the save.
    # Returns (first step, steps saved, step left at, exit status) of each.
    def world(self, name, size, steps, told=lambda *_: None, in_save=lambda *_: None, **settings):

        def run(member):
            socket = self.cluster.worker_socket(self.cluster.host_names[member.rank])
            with remesh.connect(socket) as client:
                core = job.Core(name, client=client, job_group=member, poll=3, **settings)
                found = core.restore_arrays(job_kills.arrays_of(size))
                if found:
                    job_kills.check(found, core.rank, size)
                start, saved, left = found.step if found else 0, [], None
                for step in range(start, steps):
                    told(core, step)
                    if core.should_save(step):
                        pieces = job_kills.pieces_of(step + 1, core.rank, size)
                        in_save(core)
                        core.save_pieces(
                            pieces, step + 1, extra={"step": step + 1, "rank": core.rank}
                        )
                        saved.append(step + 1)
                    if core.leaving(step):
                        left = step
                        break
                try:
                    core.close()
                    status = 0
                except SystemExit as exit_:
                    status = exit_.code
                self.assertEqual(status, core.exit_status if settings.get("exit", True) else 0)
                return start, saved, left, core.exit_status

        outcomes = local_group.run_together(local_group.LocalGroup.make(size, 60.0), run)
        self.assertEqual(outcomes, outcomes[:1] * size)
        return outcomes[0]

    @staticmethod
    def tells(rank, at, reason=Reason.TOLD_TO_GO):
        """Tells one process at a step."""
        return lambda core, step: (
            core._notice.tell(reason) if (core.rank, step) == (rank, at) else None
        )

    def test_the_next_world_goes_on_where_all_left(self):
        self.assertEqual(self.world("go", 4, 100, self.tells(2, 4)), (0, [8], 7, 143))
        self.assertEqual(self.world("go", 3, 100, self.tells(0, 13)), (8, [16], 15, 143))
        self.assertEqual(self.world("go", 3, 20, every=4), (16, [20], None, 0))
        self.assertEqual(self.world("go", 2, 20, every=4), (20, [], None, 0), "a finished job")

    def test_a_resize_exits_with_75(self):
        def resize(core, step):
            if (core.rank, step) == (1, 5):
                core.leave()

        self.assertEqual(self.world("resize", 2, 100, resize), (0, [8], 7, 75))
        self.assertEqual(self.world("resize", 4, 9), (8, [], None, 0))

    def test_a_process_told_twice_and_within_a_save(self):
        def tell(core):
            if core.rank == 1:
                core._notice.tell(Reason.TOLD_TO_GO)
                core._notice.tell(Reason.TOLD_TO_GO)

        outcome = self.world("within", 2, 100, in_save=tell, every=4)
        self.assertEqual(outcome, (0, [4, 8], 7, 143))

    def test_a_notice_at_the_last_step_is_too_late(self):
        self.assertEqual(self.world("last", 2, 10, self.tells(0, 9)), (0, [], None, 0))

    def test_a_notice_in_a_restore_is_due_after_the_first_step(self):
        self.world("early", 2, 4, every=4)
        self.assertEqual(self.world("early", 2, 100, self.tells(1, 4)), (4, [6], 5, 143))

    def test_without_exit_the_status_is_there_to_be_asked(self):
        outcome = self.world("stay", 1, 100, self.tells(0, 0), exit=False)
        self.assertEqual(outcome, (0, [2], 1, 143))

    # Regression: a step at which processes exchange nothing said that all was
    # well.
    def test_a_step_without_an_exchange_says_who_has_died(self):
        (member,) = local_group.LocalGroup.make(1)
        lost = errors.MemberLost("3@host-b is lost", metadata={"rank": "3", "host": "host-b"})
        with remesh.connect(self.cluster.worker_socket("host-0")) as client:
            with job.Core("died", client=client, job_group=member) as core:
                self.assertFalse(core.leaving(0))
                member.failure = lambda: lost
                with self.assertRaisesRegex(errors.MemberLost, "3@host-b is lost"):
                    core.leaving(1)

    def test_an_error_is_not_hidden_by_the_exit(self):
        (member,) = local_group.LocalGroup.make(1)
        with remesh.connect(self.cluster.worker_socket("host-0")) as client:
            with self.assertRaisesRegex(ValueError, "bad batch"):
                with job.Core("bad", client=client, job_group=member) as core:
                    core.leave()
                    self.assertFalse(core.leaving(0))
                    self.assertTrue(core.leaving(1))
                    raise ValueError("bad batch")


if __name__ == "__main__":
    unittest.main()
