# SPDX-License-Identifier: Apache-2.0
"""The server's process stands still for longer than connections live by default.

Slow, but hardly anything runs in the meantime: beside other tests it costs nothing.
"""

import unittest

from remesh.trainer import ExecutionFailed

from harness import targets
from paused_server import ARRAYS, COLUMNS, PausedServerTest

SECONDS = 30


class PatientWorkersTest(PausedServerTest):
    WORKER_CONFIG = ("keepalive_timeout: 60s",)

    def test_a_pause_of_thirty_seconds_fails_nothing(self):
        self.assert_none_failed("thirty", SECONDS)


class HangingUpTest(PausedServerTest):
    """Workers hang up after 15 s: what moves fails because they come again, not because they were
    silent, and may be tried again."""

    def test_after_a_pause_of_thirty_seconds_moves_are_whole_or_as_they_were(self):
        for state, execution in self.pause_during_moves("thirty", SECONDS):
            try:
                self.controller.wait_execution(execution, SECONDS + 60)
            except ExecutionFailed as failed:
                self.assertNotIn("silent", failed.execution.error.message)
                self.assertRegex(failed.execution.error.message, "stream ended|attached again")
                self.check_everywhere(state, 1, ARRAYS)
                self.cluster.wait_workers()
                self.move(state, 1, targets(ARRAYS, COLUMNS))
            self.check_everywhere(state, 2, ARRAYS)


if __name__ == "__main__":
    unittest.main()
