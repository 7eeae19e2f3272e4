# SPDX-License-Identifier: Apache-2.0
"""Processes die in a save: what the next world restores is the save before or this one, whole.

REMESH_KILL_DRAWS: how often each phase is drawn (1); a nightly run takes 6 and more."""

import os
import random
import unittest

import job_kills
from remesh.testing import LocalCluster

_BIN = os.environ.get("REMESH_BIN_DIR", "build/release/bin")
DRAWS = int(os.environ.get("REMESH_KILL_DRAWS", "1"))
PROCESSES = 3
_WARM = ("exchange", "pwrite", "update begins", "update ends", "seal ends", "delete begins")


class KillsCase(unittest.TestCase):
    """What kills worlds, and checks what the next one restores."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = LocalCluster(_BIN, PROCESSES, 2).__enter__()
        cls.addClassCleanup(cls.cluster.close)

    def setUp(self):
        job = f"kills-{self.id().rpartition('.')[2][:40]}"
        self.keeper = self.make_keeper(job)
        self.addCleanup(self.keeper.close)

    def make_keeper(self, job):
        """Of processes of no framework."""
        return job_kills.Keeper(self.cluster, PROCESSES, job)

    # The step that the world restored; its reports must have no error.
    def restored(self, reports):
        errors = [report["error"] for report in reports if "error" in report]
        self.assertFalse(errors, "".join(errors[:1]))
        steps = {report["restored"] for report in reports}
        self.assertEqual(len(steps), 1, reports)
        return steps.pop()

    def last_step(self, bug=""):
        """Of a world that ends well."""
        reports = self.keeper.world(bug=bug)
        self.restored(reports)
        return reports[0]["saved"]

    # Kills a world in its save of step + 2 and checks what the next one
    # restores. Returns whether that save had committed.
    def check_death(self, phase, victim, killer=0, bug="", reserve=False):
        before = self.last_step(bug)
        reports = self.keeper.world(phase, victim, killer, bug, reserve)
        begun = [report for report in reports if "restored" in report]
        self.assertEqual(self.restored(begun), before)
        self.assertFalse([report for report in reports if report.get("ended")], "no process died")
        self.check_told(reports, victim)
        after = self.restored(self.keeper.world(bug=bug))
        self.assertIn(after, (before + 1, before + 2))
        return after == before + 2

    def check_table(self, phases, every_victim, reserve=False, draws=DRAWS):
        draw = random.Random(7)
        print("\nphase             victim    restored: save before, this save")
        for phase in phases:
            first_only = phase in job_kills.ONLY_FIRST
            victims = [0, "all"] if first_only else [0, draw.randrange(1, PROCESSES), "all"]
            for victim in victims if every_victim else [draw.choice(victims)]:
                committed = 0
                for _ in range(draws):
                    with self.subTest(phase=phase, victim=victim):
                        killer = 0 if first_only else draw.randrange(PROCESSES)
                        committed += self.check_death(phase, victim, killer, reserve=reserve)
                print(f"{phase:17} {victim!s:9} {draws - committed}, {committed}", flush=True)

    def check_told(self, reports, victim):
        """What those who outlived the victim were sent; here they are killed at once."""


class KillsTest(KillsCase):

    def test_a_save_is_whole_or_not_there(self):
        self.check_table(job_kills.PHASES, every_victim=True)

    # The same of saves whose memory was reserved before; here each phase with
    # one victim, all of them in the nightly run.
    def test_a_warm_save_is_whole_or_not_there(self):
        phases = [*job_kills.RESERVE_PHASES, *job_kills.PHASES]
        if DRAWS == 1:
            phases = [*job_kills.RESERVE_PHASES, *_WARM]
        self.check_table(phases, every_victim=DRAWS > 1, reserve=True)

    def test_finds_planted_bugs(self):
        for bug, phase in (
            ("step after seal", "seal ends"),
            ("older deleted first", "seal begins"),
            ("building restored", "written"),
        ):
            with self.subTest(bug=bug):
                self.last_step()
                with self.assertRaises(AssertionError):
                    self.check_death(phase, 0, bug=bug)

    def test_finds_planted_bugs_of_warm_saves(self):
        for bug, phase in (
            ("step after seal", "seal ends"),
            ("older deleted first", "seal begins"),
            ("building restored", "written"),
            ("reserved restored", "reserve allocated"),
        ):
            with self.subTest(bug=bug):
                self.last_step()
                with self.assertRaises(AssertionError):
                    self.check_death(phase, 0, bug=bug, reserve=True)

    # A host that lost the memory of a save is never mistaken for one that has
    # not written it yet.
    def test_a_save_of_which_a_host_lost_the_memory_is_not_passed_over_in_silence(self):
        self.check_wiped_host_is_named()

    def test_finds_states_that_are_not_written_once(self):
        with self.assertRaises(AssertionError):
            self.check_wiped_host_is_named("write_once off")

    def check_wiped_host_is_named(self, bug=""):
        self.last_step(bug)
        self.cluster.lose_shards(self.cluster.host_names[1])
        self.cluster.start_worker(self.cluster.host_names[1])
        reports = self.keeper.world(bug=bug)
        self.assertTrue(
            all("NotCovered" in report.get("error", "") for report in reports), str(reports)[-1500:]
        )
        self.assertIn("host-1", reports[0]["error"])


if __name__ == "__main__":
    unittest.main()
