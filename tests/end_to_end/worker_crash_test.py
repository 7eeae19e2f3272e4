# SPDX-License-Identifier: Apache-2.0
"""A worker dies: the execution ends FAILED, the state is as it was, and a restarted worker finds its buffers again."""
import subprocess
import unittest

from remesh.trainer import ExecutionFailed, Trainer
from remesh.v1 import plan_pb2, reshard_pb2, state_pb2

from harness import BIN_DIR, Array, ClusterTest, targets, text_sharding

# Large enough, in windows small enough, that a move takes seconds.
ARRAYS = [Array(f"w{i}", "f32", (1024, 4096)) for i in range(16)]
ROWS = text_sharding("{devices=[6,1]<=[6]}", 0, 1, 2, 3, 4, 5)
COLUMNS = text_sharding("{devices=[1,6]<=[6]}", 5, 4, 3, 2, 1, 0)
SLOW = plan_pb2.PlanOptions(window_bytes=64 << 10)


class WorkerCrashTest(ClusterTest):
    BUFFER_BYTES = 1 << 30

    def test_killed_in_mid_transfer(self):
        name, victim = "jobs/test/states/crash", "host-1"
        self.create_and_write(name, ARRAYS, ROWS)
        started = self.controller.start_reshard(name, 1, targets(ARRAYS, COLUMNS), SLOW)
        self._wait_for_bytes(started.name)
        self.cluster.workers[victim].kill()

        with self.assertRaises(ExecutionFailed) as failure:  # long before its deadline of 300 s
            self.controller.wait_execution(started.name, timeout_seconds=60)
        execution = failure.exception.execution
        self.assertEqual(execution.phase, reshard_pb2.Execution.FAILED)
        self.assertIn(victim, str(failure.exception))
        self.assertEqual(self._state(name).generation, 1)

        # What lives still reads its source generation; what was half written is gone.
        del self.trainers[victim]
        self.check_everywhere(name, 1, ARRAYS)
        self._restart(victim)
        self.wait_until("the state is READY again", lambda: self._state(name).phase == state_pb2.State.READY)
        self.check_everywhere(name, 1, ARRAYS)

        self.move(name, 1, targets(ARRAYS, COLUMNS))
        self.check_everywhere(name, 2, ARRAYS)

    def test_killed_between_executions(self):
        name, victim, arrays = "jobs/test/states/idle-crash", "host-2", [Array("w", "bf16", (60, 33))]
        self.create_and_write(name, arrays, ROWS)
        self.cluster.workers[victim].kill()
        self.wait_until("the state is LOST", lambda: self._state(name).phase == state_pb2.State.LOST)
        self.assertIn(victim, list(self._state(name).lost_hosts))
        self.assertRegex(self._table("states", "get", name), f"LOST HOSTS\n{name} .* LOST .* {victim}\n")
        self.assertRegex(self._table("workers", "list"), f"workers/{victim} +no ")
        self._restart(victim)
        self.wait_until("the state is READY again", lambda: self._state(name).phase == state_pb2.State.READY)
        self.check_everywhere(name, 1, arrays)
        self.move(name, 1, targets(arrays, COLUMNS))
        self.check_everywhere(name, 2, arrays)

    def _table(self, *words: str) -> str:
        """What remeshctl prints for people."""
        return subprocess.run([BIN_DIR / "remeshctl", *words, "--server", self.cluster.server_address], check=True, timeout=60,
                              capture_output=True, text=True).stdout

    def _wait_for_bytes(self, execution: str) -> None:
        """Until bytes have crossed hosts, with most of them still to come."""
        def moving():
            now = self.controller.reshards.GetExecution(reshard_pb2.GetExecutionRequest(name=execution))
            self.assertIn(now.phase, (reshard_pb2.Execution.PREPARING, reshard_pb2.Execution.TRANSFERRING))
            return any(host.received_bytes > 0 for host in now.hosts)
        self.wait_until("bytes move", moving)

    def _restart(self, host: str) -> None:
        self.cluster.start_worker(host)
        self.trainers[host] = Trainer(self.cluster.server_address, self.cluster.worker_socket(host))

    def _state(self, name: str) -> state_pb2.State:
        return self.controller.states.GetState(state_pb2.GetStateRequest(name=name), timeout=10)


if __name__ == "__main__":
    unittest.main()
