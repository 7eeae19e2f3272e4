# SPDX-License-Identifier: Apache-2.0
"""What else can end a move: every time the state is as it was, and the next move succeeds."""

import os
import signal
import unittest

import grpc
from remesh import errors
from remesh.trainer import ExecutionFailed
from remesh.v1 import plan_pb2, reshard_pb2, sharding_pb2, state_pb2

from harness import Array, ClusterTest, targets, text_sharding

ROWS = text_sharding("{devices=[6,1]<=[6]}", 0, 1, 2, 3, 4, 5)
# Memory of devices cannot be cut short.
IN_FILES = sharding_pb2.Sharding()
IN_FILES.CopyFrom(ROWS)
IN_FILES.memory_kind = "pinned_host"
COLUMNS = text_sharding("{devices=[1,6]<=[6]}", 5, 4, 3, 2, 1, 0)
# Large enough, in windows small enough, that a move takes seconds.
LARGE = [Array(f"w{i}", "f32", (1024, 4096)) for i in range(12)]
SLOW = plan_pb2.PlanOptions(window_bytes=64 << 10)


class FailureTest(ClusterTest):
    BUFFER_BYTES = 1 << 30

    def test_cancelled(self):
        name, execution = self._start_slow("cancelled")
        self.controller.reshards.CancelExecution(
            reshard_pb2.CancelExecutionRequest(name=execution), timeout=20
        )
        failure = self._ends(execution)
        self.assertEqual(failure.execution.phase, reshard_pb2.Execution.CANCELLED)
        self._goes_on(name)

    def test_a_second_execution_on_a_moving_state(self):
        name, execution = self._start_slow("busy")
        with self.assertRaises(grpc.RpcError) as refusal:
            self.controller.start_reshard(name, 1, targets(LARGE, ROWS))
        self.assertEqual(refusal.exception.code(), grpc.StatusCode.ABORTED)
        self.assertEqual(errors.error_info(refusal.exception).reason, "STATE_MOVING")
        with self.assertRaises(grpc.RpcError) as refusal:
            self.controller.unseal(name, write="1")
        self.assertEqual(errors.error_info(refusal.exception).reason, "STATE_MOVING")
        self.controller.wait_execution(execution)
        self.check_everywhere(name, 2, LARGE)

    def test_a_deadline_that_passes(self):
        name = self._create("late")
        request = reshard_pb2.StartExecutionRequest(
            state=name, expected_generation=1, targets=targets(LARGE, COLUMNS), options=SLOW
        )
        request.deadline.FromMilliseconds(300)
        started = self.controller.reshards.StartExecution(request, timeout=20)
        failure = self._ends(started.name)
        self.assertEqual(failure.execution.phase, reshard_pb2.Execution.FAILED)
        self.assertIn("DEADLINE", str(failure))
        self._goes_on(name)

    def test_a_stopped_worker_counts_as_lost(self):
        """Silent, not closed: only missing heartbeats tell."""
        name, execution = self._start_slow("stopped")
        worker = self.cluster.workers["host-2"].popen
        worker.send_signal(signal.SIGSTOP)
        try:
            failure = self._ends(execution)
            self.assertIn("host-2", str(failure))
        finally:
            worker.send_signal(signal.SIGCONT)
        self._goes_on(name)

    def test_a_stopped_worker_that_wakes_up_writes_nowhere(self):
        """What it had begun to send goes into no buffer that was made since."""
        name, execution = self._start_slow("asleep")
        other, near = "jobs/failure/states/awake", [Array("v", "f32", (1024, 4096))]
        worker = self.cluster.workers["host-2"].popen
        worker.send_signal(signal.SIGSTOP)
        try:
            self._ends(execution)
            # Buffers of another state, in the memory that the failed attempt gave back.
            self.create_and_write(
                other,
                near,
                text_sharding("{devices=[4,1]<=[4]}", 0, 1, 2, 3),
                hosts=["host-0", "host-1"],
            )
            self.move(other, 1, targets(near, text_sharding("{devices=[1,4]<=[4]}", 3, 2, 1, 0)))
        finally:
            worker.send_signal(signal.SIGCONT)
        self.cluster.wait_workers(["host-2"])
        self.check_everywhere(other, 2, near, hosts=["host-0", "host-1"])
        self._goes_on(name)
        self.check_everywhere(other, 2, near, hosts=["host-0", "host-1"])
        self._delete(other)

    def test_a_trainer_that_writes_after_it_sealed(self):
        name = "jobs/failure/states/dirty"
        self.controller.create_state(self.state_of(name, LARGE, ROWS))
        shards = self.write_everywhere(name, LARGE)["host-0"]
        self.controller.wait_ready(name, 20)
        started = self.controller.start_reshard(name, 1, targets(LARGE, COLUMNS), SLOW)
        self._wait_for_bytes(started.name)
        for shard in shards:
            shard.bytes[:] ^= 0xFF
        failure = self._ends(started.name)
        # Caught by the receiver when the write falls between hashing and sending, else by the
        # origin's second hash.
        self.assertRegex(str(failure), "SOURCE_MODIFIED|DIGEST_MISMATCH")
        for shard in shards:
            shard.bytes[:] ^= 0xFF
        self._goes_on(name)

    def test_a_trainer_that_truncates_its_buffer(self):
        """Neither its worker dies of it, nor anybody else's move."""
        name, execution = self._start_slow("cut", IN_FILES)
        shards = self.trainers["host-1"].read(name, 1, 20)
        for path in {shard.info.path for shard in shards}:
            os.truncate(path, 0)
        # The peer's word may come first: bytes that were not hashed, or a connection that ended.
        self.assertRegex(str(self._ends(execution)), "BUFFER_TRUNCATED|DIGEST_MISMATCH|PEER_LOST")
        self.assertTrue(all(worker.alive() for worker in self.cluster.workers.values()))
        self.wait_until("the state is READY", lambda: self._ready(name))
        again = self.controller.start_reshard(name, 1, targets(LARGE, COLUMNS))
        self.assertRegex(str(self._ends(again.name)), "BUFFER_TRUNCATED.*path=.*/host-1/")
        self._delete(name)
        self._goes_on(self._create("whole"))

    def test_unsealed_written_and_sealed_again(self):
        name, arrays = "jobs/failure/states/again", [Array("w", "f32", (24, 12), salt=1)]
        old = [Array("w", "f32", (24, 12), salt=0)]
        self.create_and_write(name, old, ROWS)
        for trainer in self.trainers.values():
            trainer.unseal(name, write="1")
        # Until then a start is accepted, and fails where the worker prepares.
        self.wait_until("the server has heard of it", lambda: not self._ready(name))
        with self.assertRaises(grpc.RpcError) as refusal:
            self.controller.start_reshard(name, 1, targets(arrays, COLUMNS))
        self.assertEqual(errors.error_info(refusal.exception).reason, "STATE_NOT_READY")
        self.write_everywhere(name, arrays)
        self.controller.wait_ready(name, 20)
        self.move(name, 1, targets(arrays, COLUMNS))
        self.check_everywhere(name, 2, arrays)

    def test_a_server_killed_in_mid_transfer(self):
        """It comes back, knows how the execution ended, and the state is whole."""
        name, execution = self._start_slow("headless")
        self.cluster.kill_server()
        self.cluster.start_server()
        self.cluster.wait_workers()
        ended = self.wait_until(
            "the execution has ended", lambda: self._ended(execution), timeout_seconds=60
        )
        state = self.wait_until("the state is READY", lambda: self._ready(name))
        succeeded = ended.phase == reshard_pb2.Execution.SUCCEEDED
        self.assertEqual(state.generation, 2 if succeeded else 1)
        self.check_everywhere(name, state.generation, LARGE)
        self.move(name, state.generation, targets(LARGE, COLUMNS))
        self.check_everywhere(name, state.generation + 1, LARGE)
        self._delete(name)

    # ---- steps ----

    def _create(self, name: str, sharding=ROWS) -> str:
        name = f"jobs/failure/states/{name}"
        self.create_and_write(name, LARGE, sharding)
        return name

    def _start_slow(self, name: str, sharding=ROWS):
        """A state, and an execution in mid-transfer."""
        name = self._create(name, sharding)
        started = self.controller.start_reshard(name, 1, targets(LARGE, COLUMNS), SLOW)
        self._wait_for_bytes(started.name)
        return name, started.name

    def _wait_for_bytes(self, execution: str) -> None:
        def moving():
            now = self._execution(execution)
            self.assertIn(
                now.phase, (reshard_pb2.Execution.PREPARING, reshard_pb2.Execution.TRANSFERRING)
            )
            return any(host.received_bytes > 0 for host in now.hosts)

        self.wait_until("bytes move", moving)

    def _ends(self, execution: str) -> ExecutionFailed:
        """Long before its deadline of 300 s."""
        with self.assertRaises(ExecutionFailed) as failure:
            self.controller.wait_execution(execution, timeout_seconds=60)
        return failure.exception

    def _goes_on(self, name: str) -> None:
        """Generation 1 as it was, and a move that succeeds."""
        self.wait_until("the state is READY", lambda: self._ready(name))
        self.check_everywhere(name, 1, LARGE)
        self.move(name, 1, targets(LARGE, COLUMNS))
        self.check_everywhere(name, 2, LARGE)
        self._delete(name)

    def _delete(self, name: str) -> None:
        self.controller.states.DeleteState(state_pb2.DeleteStateRequest(name=name), timeout=20)

    def _execution(self, name: str) -> reshard_pb2.Execution:
        return self.controller.reshards.GetExecution(
            reshard_pb2.GetExecutionRequest(name=name), timeout=20
        )

    def _ended(self, name: str):
        now = self._execution(name)
        return now if now.HasField("end_time") else None

    def _ready(self, name: str):
        state = self.controller.states.GetState(state_pb2.GetStateRequest(name=name), timeout=20)
        return state if state.phase == state_pb2.State.READY else None


if __name__ == "__main__":
    unittest.main()
