# SPDX-License-Identifier: Apache-2.0
"""Moves during which the server's process stands still."""

import os
import signal
import threading

from remesh.v1 import plan_pb2

from harness import Array, ClusterTest, targets, text_sharding

ROWS = text_sharding("{devices=[4,1]<=[4]}", 0, 1, 2, 3)
COLUMNS = text_sharding("{devices=[1,4]<=[4]}", 0, 1, 2, 3)
ARRAYS = [Array(f"w{i}", "f32", (256, 256), i) for i in range(8)]


class PausedServerTest(ClusterTest):
    HOSTS, DEVICES_PER_HOST = 2, 2

    def assert_none_failed(self, name, seconds):
        for state, execution in self.pause_during_moves(name, seconds):
            self.controller.wait_execution(execution, seconds + 60)
            self.check_everywhere(state, 2, ARRAYS)
        self.assertIn("stood still", self.cluster.server.log.read_text())

    def pause_during_moves(self, name, seconds):
        """Stops the server for so long, from now on. Returns what it moves in the meantime: states
        with their executions."""
        states = [f"jobs/test/states/{name}-{i}" for i in range(5)]
        for state in states:
            self.create_and_write(state, ARRAYS, ROWS)
        server = self.cluster.server.popen.pid
        resume = threading.Timer(seconds, os.kill, (server, signal.SIGCONT))
        self.addCleanup(resume.cancel)
        self.addCleanup(os.kill, server, signal.SIGCONT)
        # Many windows, each of which the server grants: they are under way when it stops.
        options = plan_pb2.PlanOptions(window_bytes=4096)
        started = [
            self.controller.start_reshard(state, 1, targets(ARRAYS, COLUMNS), options)
            for state in states
        ]
        os.kill(server, signal.SIGSTOP)
        resume.start()
        return [(state, execution.name) for state, execution in zip(states, started)]
