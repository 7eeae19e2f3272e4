# SPDX-License-Identifier: Apache-2.0
"""The server's process stands still for a while: no execution fails because its workers could not
be heard."""

import unittest

from paused_server import PausedServerTest


class ShortPauseTest(PausedServerTest):
    def test_a_pause_of_six_seconds_fails_nothing(self):
        self.assert_none_failed("six", 6)

    def test_a_pause_of_twelve_seconds_fails_nothing(self):
        self.assert_none_failed("twelve", 12)


if __name__ == "__main__":
    unittest.main()
