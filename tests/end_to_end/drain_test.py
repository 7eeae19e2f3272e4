# SPDX-License-Identifier: Apache-2.0
"""SIGTERM in mid-move: the move may end within `drain`; else it ends FAILED and its state is as it
was. Prints how often which."""

import collections
import unittest

import grpc

from remesh import errors
from remesh.trainer import Trainer
from remesh.v1 import plan_pb2, reshard_pb2, state_pb2

from harness import Array, ClusterTest, targets, text_sharding

# Large enough, in windows small enough, that a move takes seconds.
ARRAYS = [Array(f"w{i}", "f32", (1024, 4096)) for i in range(8)]
ROWS = text_sharding("{devices=[4,1]<=[4]}", 0, 1, 2, 3)
COLUMNS = text_sharding("{devices=[1,4]<=[4]}", 3, 2, 1, 0)
SLOW = plan_pb2.PlanOptions(window_bytes=64 << 10)
EXIT_SECONDS = 60
VICTIM = "host-1"


class DrainTest(ClusterTest):
    """With a `drain` that is longer than a move."""

    HOSTS = 2
    BUFFER_BYTES = 1 << 29
    SERVER_CONFIG = WORKER_CONFIG = ("drain: 60s",)
    NAME = "jobs/test/states/patient"
    OUTCOMES = {
        "server": reshard_pb2.Execution.SUCCEEDED,
        "worker": reshard_pb2.Execution.SUCCEEDED,
    }
    REASONS = {}

    def test_sigterm_in_mid_move(self):
        self.create_and_write(self.NAME, ARRAYS, ROWS)
        generation, counts = 1, collections.Counter()
        for victim in ("server", "worker", "server", "worker"):
            with self.subTest(victim=victim, generation=generation):
                to = COLUMNS if generation % 2 else ROWS
                started = self.controller.start_reshard(
                    self.NAME, generation, targets(ARRAYS, to), SLOW
                )
                self.wait_until(
                    "bytes move",
                    lambda name=started.name: any(
                        host.received_bytes > 0 for host in self.execution(name).hosts
                    ),
                )
                self.assertEqual(self.stop(victim), 0, "the exit code")
                self.restart(victim)
                ended = self.wait_until("it has ended", lambda name=started.name: self.ended(name))
                counts[victim, reshard_pb2.Execution.Phase.Name(ended.phase)] += 1
                self.assertEqual(ended.phase, self.OUTCOMES[victim])
                if victim in self.REASONS:
                    self.assertIn(self.REASONS[victim], errors.describe_status(ended.error))
                generation += ended.phase == reshard_pb2.Execution.SUCCEEDED
                state = self.wait_until("READY", self.ready)
                self.assertEqual(state.generation, generation)
                self.check_everywhere(self.NAME, generation, ARRAYS)
        print(f"{type(self).__name__}: {dict(counts)}")

    def stop(self, victim: str) -> int:
        process = self.cluster.server if victim == "server" else self.cluster.workers[VICTIM]
        return process.stop(EXIT_SECONDS)

    def restart(self, victim: str) -> None:
        if victim == "server":
            self.cluster.start_server()
            self.cluster.wait_workers()
            return
        self.cluster.start_worker(VICTIM)
        self.trainers[VICTIM].close()
        self.trainers[VICTIM] = Trainer(
            self.cluster.server_address, self.cluster.worker_socket(VICTIM)
        )

    def execution(self, name: str) -> reshard_pb2.Execution:
        return self.controller.reshards.GetExecution(
            reshard_pb2.GetExecutionRequest(name=name), timeout=10
        )

    def ended(self, name: str):
        try:
            now = self.execution(name)
        except grpc.RpcError:  # the server has just come back
            return None
        over = (
            reshard_pb2.Execution.SUCCEEDED,
            reshard_pb2.Execution.FAILED,
            reshard_pb2.Execution.CANCELLED,
        )
        return now if now.phase in over else None

    def ready(self):
        state = self.controller.states.GetState(
            state_pb2.GetStateRequest(name=self.NAME), timeout=10
        )
        return state if state.phase == state_pb2.State.READY else None


class ImpatientDrainTest(DrainTest):
    """With none."""

    SERVER_CONFIG = WORKER_CONFIG = ("drain: 0s",)
    NAME = "jobs/test/states/impatient"
    OUTCOMES = {"server": reshard_pb2.Execution.FAILED, "worker": reshard_pb2.Execution.FAILED}
    REASONS = {"server": "SERVER_STOPS", "worker": "WORKER_STOPS"}


if __name__ == "__main__":
    unittest.main()
