# SPDX-License-Identifier: Apache-2.0
"""The server's process stands still for a while: no execution fails because its workers could not be heard."""
import os
import signal
import threading
import unittest

from remesh.v1 import plan_pb2

from harness import Array, ClusterTest, targets, text_sharding

ROWS = text_sharding("{devices=[4,1]<=[4]}", 0, 1, 2, 3)
COLUMNS = text_sharding("{devices=[1,4]<=[4]}", 0, 1, 2, 3)
ARRAYS = [Array(f"w{i}", "f32", (256, 256), i) for i in range(8)]


class PausedServerTest(ClusterTest):
    HOSTS, DEVICES_PER_HOST = 2, 2

    def test_a_pause_of_six_seconds_fails_nothing(self):
        self._pause("six", 6)

    def test_a_pause_of_twelve_seconds_fails_nothing(self):
        self._pause("twelve", 12)

    def _pause(self, name, seconds):
        states = [f"jobs/test/states/{name}-{i}" for i in range(5)]
        for state in states:
            self.create_and_write(state, ARRAYS, ROWS)
        server = self.cluster.server.popen.pid
        resume = threading.Timer(seconds, os.kill, (server, signal.SIGCONT))
        self.addCleanup(resume.cancel)
        self.addCleanup(os.kill, server, signal.SIGCONT)
        # Many windows, each of which the server grants: they are under way when it stops.
        options = plan_pb2.PlanOptions(window_bytes=4096)
        started = [self.controller.start_reshard(state, 1, targets(ARRAYS, COLUMNS), options) for state in states]
        os.kill(server, signal.SIGSTOP)
        resume.start()
        for execution in started:
            self.controller.wait_execution(execution.name, 60)
        for state in states:
            self.check_everywhere(state, 2, ARRAYS)
        self.assertIn("stood still", self.cluster.server.log.read_text())


if __name__ == "__main__":
    unittest.main()
