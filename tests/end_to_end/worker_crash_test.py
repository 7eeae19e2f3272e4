# SPDX-License-Identifier: Apache-2.0
"""A worker dies: the execution ends FAILED, the state is as it was, and a restarted worker finds
its buffers again."""

import shutil
import signal
import subprocess
import unittest
import urllib.request
from typing import Tuple

from remesh.trainer import ExecutionFailed, Trainer
from remesh.v1 import plan_pb2, reshard_pb2, state_pb2

from harness import BIN_DIR, CALL_SECONDS, Array, ClusterTest, targets, text_sharding

# Large enough, in windows small enough, that a move takes seconds.
ARRAYS = [Array(f"w{i}", "f32", (1024, 4096)) for i in range(16)]
ROWS = text_sharding("{devices=[6,1]<=[6]}", 0, 1, 2, 3, 4, 5)
COLUMNS = text_sharding("{devices=[1,6]<=[6]}", 5, 4, 3, 2, 1, 0)
ON_HOST_0, ON_HOST_2 = text_sharding("{devices=[2,1]<=[2]}", 0, 1), text_sharding(
    "{devices=[1,2]<=[2]}", 4, 5
)
# Of a worker's metrics.
VERIFYING, HEARTBEATS = (
    'remesh_worker_phase_seconds_count{phase="verifying"}',
    "remesh_worker_heartbeats_total",
)
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
        self.wait_until(
            "the state is READY again", lambda: self._state(name).phase == state_pb2.State.READY
        )
        self.check_everywhere(name, 1, ARRAYS)

        self.move(name, 1, targets(ARRAYS, COLUMNS))
        self.check_everywhere(name, 2, ARRAYS)

    def test_killed_between_executions(self):
        name, victim, arrays = (
            "jobs/test/states/idle-crash",
            "host-2",
            [Array("w", "bf16", (60, 33))],
        )
        self.create_and_write(name, arrays, ROWS)
        self.cluster.workers[victim].kill()
        self.wait_until(
            "the state is LOST", lambda: self._state(name).phase == state_pb2.State.LOST
        )
        self.assertIn(victim, list(self._state(name).lost_hosts))
        self.assertRegex(
            self._table("states", "get", name),
            f"LOST HOSTS +NOT SEALED ON +WRITE\n{name} .* LOST .* {victim} +- +-\n",
        )
        self.assertRegex(self._table("workers", "list"), f"workers/{victim} +LOST ")
        self._restart(victim)
        self.wait_until(
            "the state is READY again", lambda: self._state(name).phase == state_pb2.State.READY
        )
        self.check_everywhere(name, 1, arrays)
        self.move(name, 1, targets(arrays, COLUMNS))
        self.check_everywhere(name, 2, arrays)

    def test_wiped_after_the_decision(self):
        """As an operator does it: the host is let in again without its secret, then the move that
        it cannot complete is taken back."""
        name, victim = "jobs/test/states/wiped", "host-2"
        self.create_and_write(name, ARRAYS, ON_HOST_0, ["host-0"])
        execution, generation = self._decided_without(victim, name)
        at = ("--server", self.cluster.server_address)
        self._run(1, "workers", "reset", "host-0", *at)  # it is alive
        shutil.rmtree(self.cluster.buffers / victim)
        self.cluster.start_worker(victim, wait=False)
        self.wait_until(
            "it is refused", lambda: "HOST_SECRET" in self.cluster.workers[victim].log_tail()
        )
        self.cluster.workers[victim].kill()
        self._run(0, "workers", "reset", victim, *at)
        self._restart(victim)

        self.assertEqual(self._execution(execution).phase, reshard_pb2.Execution.COMMITTING)
        self._run(2, "executions", "resolve", execution, *at)
        self.assertRegex(
            self._run(0, "executions", "resolve", execution, "--keep-source", *at),
            "(?m)^phase +FAILED$",
        )
        self._run(1, "executions", "resolve", execution, "--keep-source", *at)
        state = self._state(name)
        self.assertEqual((state.generation, state.phase), (generation, state_pb2.State.READY))
        self.check_everywhere(name, generation, ARRAYS, ["host-0"])
        self.move(name, generation, targets(ARRAYS, ON_HOST_2))
        self.check_everywhere(name, self._state(name).generation, ARRAYS, [victim])

    def _decided_without(self, victim: str, name: str) -> Tuple[str, int]:
        """Kills the receiver between its word that it has all and the order to commit; the giver is
        held up in the meantime, as it hashes again: a trainer has its source open."""
        for _ in range(20):  # where the giver was quicker
            generation = self._state(name).generation
            source_is_open = self.trainers["host-0"].read(name, generation)
            verified = self._counted(victim, VERIFYING)
            started = self.controller.start_reshard(name, generation, targets(ARRAYS, ON_HOST_2))
            giver, receiver = (self.cluster.workers[host].popen for host in ("host-0", victim))
            for seen in self.controller.reshards.WatchExecution(
                reshard_pb2.WatchExecutionRequest(name=started.name), timeout=60
            ):
                if seen.phase >= reshard_pb2.Execution.VERIFYING:
                    break
            giver.send_signal(signal.SIGSTOP)
            self._await_word_of(victim, verified)
            quicker = self._execution(started.name).phase > reshard_pb2.Execution.VERIFYING
            if not quicker:
                receiver.send_signal(signal.SIGSTOP)
            giver.send_signal(signal.SIGCONT)
            del source_is_open
            self.wait_until(
                "the decision",
                lambda: self._execution(started.name).phase > reshard_pb2.Execution.VERIFYING,
            )
            if (
                not quicker
                and self._execution(started.name).phase == reshard_pb2.Execution.COMMITTING
            ):
                self.cluster.workers[victim].kill()
                return started.name, generation
            receiver.send_signal(signal.SIGCONT)
            self.wait_until(
                "the state is READY again", lambda: self._state(name).phase == state_pb2.State.READY
            )
            if self._state(name).generation > generation:
                self.move(name, self._state(name).generation, targets(ARRAYS, ON_HOST_0))
        self.fail("no move was caught between verifying and committing")

    def _await_word_of(self, host: str, verified: float) -> None:
        """Until the host has verified once more and has sent its word: heartbeats are written
        behind what waits, and the first may have been written already."""
        self.wait_until(f"{host} has verified", lambda: self._counted(host, VERIFYING) > verified)
        before = self._counted(host, HEARTBEATS)
        self.wait_until("two heartbeats", lambda: self._counted(host, HEARTBEATS) >= before + 2)

    def _counted(self, host: str, series: str) -> float:
        """A series of the host's metrics; 0 if there is none yet."""
        with urllib.request.urlopen(
            self.cluster.worker_metrics_url(host), timeout=CALL_SECONDS
        ) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(series + " "))

    def _run(self, code: int, *words: str) -> str:
        done = subprocess.run(
            [BIN_DIR / "remeshctl", *words], capture_output=True, text=True, timeout=60, check=False
        )
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def _execution(self, name: str) -> reshard_pb2.Execution:
        return self.controller.reshards.GetExecution(
            reshard_pb2.GetExecutionRequest(name=name), timeout=10
        )

    def _table(self, *words: str) -> str:
        """What remeshctl prints for people."""
        return subprocess.run(
            [BIN_DIR / "remeshctl", *words, "--server", self.cluster.server_address],
            check=True,
            timeout=60,
            capture_output=True,
            text=True,
        ).stdout

    def _wait_for_bytes(self, execution: str) -> None:
        """Until bytes have crossed hosts, with most of them still to come."""

        def moving():
            now = self.controller.reshards.GetExecution(
                reshard_pb2.GetExecutionRequest(name=execution)
            )
            self.assertIn(
                now.phase, (reshard_pb2.Execution.PREPARING, reshard_pb2.Execution.TRANSFERRING)
            )
            return any(host.received_bytes > 0 for host in now.hosts)

        self.wait_until("bytes move", moving)

    def _restart(self, host: str) -> None:
        self.cluster.start_worker(host)
        self.trainers[host] = Trainer(self.cluster.server_address, self.cluster.worker_socket(host))

    def _state(self, name: str) -> state_pb2.State:
        return self.controller.states.GetState(state_pb2.GetStateRequest(name=name), timeout=10)


if __name__ == "__main__":
    unittest.main()
