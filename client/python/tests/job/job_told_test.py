# SPDX-License-Identifier: Apache-2.0
"""A process dies in a save, in a restore, while leaving: the others, a world of the server, are
told who, and what the next world restores is whole. REMESH_KILL_DRAWS above 1: every phase and
victim.
"""

import statistics
import unittest

import job_kills
import job_kills_test

_TOLD = ("exchange", "written", "seal begins", "delete ends", "restore", "leaving")


class ToldTest(job_kills_test.KillsCase):
    """Over a world of the server, of processes that are not killed with the victim."""

    def setUp(self):
        super().setUp()
        self.seconds = []

    def make_keeper(self, job):
        return job_kills.Keeper(self.cluster, job_kills_test.PROCESSES, job, told=True)

    def check_told(self, reports, victim):
        if victim == "all":
            return
        told = [each for each in reports if "error" in each]
        text = "".join(each["error"] for each in told[:2])
        others = sorted(set(range(job_kills_test.PROCESSES)) - {victim})
        self.assertEqual(sorted(each["rank"] for each in told), others, text)
        for each in told:
            self.assertEqual(each["lost"], [victim, f"host-{victim}"], text)
        (died,) = [each["died"] for each in reports if "died" in each]
        self.seconds.append(max(each["at"] for each in told) - died)

    def test_a_process_that_dies_is_named_and_the_save_is_whole_or_not_there(self):
        self.check_all_told(reserve=False)

    def test_a_process_that_dies_with_a_warm_save_is_named(self):
        self.check_all_told(reserve=True)

    # Each phase; few of them and with one victim, but in the nightly run.
    def check_all_told(self, reserve):
        phases = [*job_kills.PHASES, *job_kills.CALL_PHASES]
        if reserve:
            phases = [*job_kills.RESERVE_PHASES, *phases]
        if job_kills_test.DRAWS == 1:
            phases = ("seal ends",) if reserve else _TOLD
        self.check_table(phases, job_kills_test.DRAWS > 1, reserve, draws=1)
        print(
            f"named to the others {len(self.seconds)} times: median "
            f"{statistics.median(self.seconds):.2f} s, worst {max(self.seconds):.2f} s",
            flush=True,
        )


if __name__ == "__main__":
    unittest.main()
