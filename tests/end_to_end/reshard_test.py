# SPDX-License-Identifier: Apache-2.0
"""The happy path: write, seal, move, read; and what the API says on the way."""

import os
import unittest

import grpc
from remesh import errors
from remesh.v1 import reshard_pb2, state_pb2

from harness import CALL_SECONDS, Array, ClusterTest, element_count, salted, targets, text_sharding

STATE = "jobs/test/states/{}"
ROWS = text_sharding("{devices=[6,1]<=[6]}", 0, 1, 2, 3, 4, 5)
COLUMNS = text_sharding("{devices=[1,4]<=[4]}", 5, 1, 2, 0)
ARRAYS = [
    *salted("w", "bf16", (37, 53)),
    *salted("q", "s4", (13, 7)),
    Array("wide", "c128", (8, 6)),
    Array("b", "f32", (64, 3)),
]


class ReshardTest(ClusterTest):
    def test_every_element_arrives(self):
        name = STATE.format("happy")
        state = self.create_and_write(name, ARRAYS, ROWS)
        self.assertEqual((state.generation, state.phase), (1, state_pb2.State.READY))
        self.assertEqual(state.sealed_shards, state.total_shards)
        self.check_everywhere(name, 1, ARRAYS)

        execution = self.move(name, 1, targets(ARRAYS, COLUMNS))
        self.assertEqual((execution.source_generation, execution.target_generation), (1, 2))
        summary = execution.summary
        self.assertEqual(
            summary.total_bytes, summary.kept_bytes + summary.local_bytes + summary.crossing_bytes
        )
        self.assertGreaterEqual(summary.quality, 1.0)
        self.assertEqual({host.windows_done for host in execution.hosts}, {execution.windows})

        places = self.check_everywhere(name, 2, ARRAYS)
        for array in ARRAYS:
            self.assertEqual(
                element_count(places, array.name), array.shape[0] * array.shape[1], array.name
            )
        self.assertEqual({device for _, device, _, _ in places}, {0, 1, 2, 5})
        state = self.controller.states.GetState(state_pb2.GetStateRequest(name=name))
        self.assertEqual(
            (state.generation, state.phase, state.execution), (2, state_pb2.State.READY, "")
        )

    def test_what_was_moved_is_written_again_and_moved_on(self):
        name, old, new = (
            STATE.format("again"),
            [Array("w", "bf16", (37, 53))],
            [Array("w", "bf16", (37, 53), 1)],
        )
        self.create_and_write(name, old, ROWS)
        self.move(name, 1, targets(old, COLUMNS))
        with self.assertRaises(grpc.RpcError) as sealed:
            self.trainers["host-0"].allocate(name)
        self.assertEqual(errors.error_info(sealed.exception).reason, "STATE_COMMITTED")
        for trainer in self.trainers.values():
            trainer.unseal(name, write="2")
        state = state_pb2.GetStateRequest(name=name)
        self.wait_until(
            "the server knows who has not sealed",
            lambda: len(self.controller.states.GetState(state, timeout=CALL_SECONDS).unsealed_hosts)
            == len(self.trainers),
        )
        with self.assertRaises(grpc.RpcError) as waited:
            self.controller.wait_ready(name, 0.5)
        self.assertIn("it is BUILDING; not sealed on host-0", " ".join(waited.exception.__notes__))
        self.write_everywhere(name, new)
        self.controller.wait_ready(name, CALL_SECONDS)
        self.move(name, 2, targets(new, ROWS))
        self.check_everywhere(name, 3, new)

    def test_replicas_arrive_everywhere(self):
        name, arrays = STATE.format("replicas"), [Array("w", "f32", (9, 5))]
        self.create_and_write(
            name, arrays, text_sharding("{maximal device=0}", 3), hosts=["host-1"]
        )
        self.move(name, 1, targets(arrays, text_sharding("{replicated}", 0, 1, 2, 3, 4, 5)))
        self.assertEqual(element_count(self.check_everywhere(name, 2, arrays), "w"), 6 * 9 * 5)

    def test_small_windows_move_the_same(self):
        name, arrays = STATE.format("windows"), [Array("w", "f32", (512, 256))]
        self.create_and_write(name, arrays, ROWS)
        request = reshard_pb2.StartExecutionRequest(
            state=name,
            expected_generation=1,
            targets=targets(arrays, COLUMNS),
            options={"window_bytes": 16384},
        )
        started = self.controller.reshards.StartExecution(request, timeout=20)
        ended = self.controller.wait_execution(started.name)
        self.assertGreater(ended.windows, 4)
        self.check_everywhere(name, 2, arrays)

    def test_validate_only_moves_nothing(self):
        name, arrays = STATE.format("dry"), [Array("w", "f32", (12, 8))]
        self.create_and_write(name, arrays, ROWS)
        answer = self.controller.reshards.StartExecution(
            reshard_pb2.StartExecutionRequest(
                state=name,
                expected_generation=1,
                targets=targets(arrays, COLUMNS),
                validate_only=True,
            ),
            timeout=20,
        )
        self.assertEqual(answer.name, "")
        self.assertEqual(answer.summary.total_bytes, 12 * 8 * 4)
        self.assertEqual(
            self.controller.states.GetState(state_pb2.GetStateRequest(name=name)).generation, 1
        )

    def test_a_repeated_request_id_starts_one_execution(self):
        name, arrays = STATE.format("idempotent"), [Array("w", "f32", (12, 8))]
        self.create_and_write(name, arrays, ROWS)
        request = reshard_pb2.StartExecutionRequest(
            state=name, expected_generation=1, targets=targets(arrays, COLUMNS), request_id="once"
        )
        first = self.controller.reshards.StartExecution(request, timeout=20)
        second = self.controller.reshards.StartExecution(request, timeout=20)
        self.assertEqual(first.name, second.name)
        self.controller.wait_execution(first.name)
        self.assertEqual(
            self.controller.reshards.StartExecution(request, timeout=20).name, first.name
        )
        self.check_everywhere(name, 2, arrays)

    def test_reading_a_retired_generation_fails_at_once(self):
        """It names the generation that is there; a call that waited would end with
        DEADLINE_EXCEEDED."""
        name, arrays = STATE.format("retired"), [Array("w", "f32", (12, 8))]
        self.create_and_write(name, arrays, ROWS)
        self.move(name, 1, targets(arrays, COLUMNS))

        def refused():
            try:
                self.controller.read(name, 1, CALL_SECONDS)
            except grpc.RpcError as error:
                return error
            return None

        error = self.wait_until("generation 1 is retired", refused)
        self.assertEqual(error.code(), grpc.StatusCode.NOT_FOUND)
        info = errors.error_info(error)
        self.assertEqual(
            (info.reason, info.metadata["latest_generation"]), ("GENERATION_RETIRED", "2")
        )

    def test_a_retired_generation_is_gone_and_a_deleted_state_too(self):
        name, arrays = STATE.format("gone"), [Array("w", "f32", (12, 8))]
        self.create_and_write(name, arrays, ROWS)
        self.move(name, 1, targets(arrays, COLUMNS))
        self.check_everywhere(name, 2, arrays)
        # os.walk, unlike rglob, does not mind folders that go away while it looks.
        buffers = lambda: [file for _, _, files in os.walk(self.cluster.buffers) for file in files]
        before = len(buffers())
        self.controller.states.DeleteState(state_pb2.DeleteStateRequest(name=name), timeout=20)
        self.wait_until("its buffers are freed", lambda: len(buffers()) < before)
        listed = self.controller.states.ListStates(state_pb2.ListStatesRequest(), timeout=20).states
        self.assertNotIn(name, [state.name for state in listed])


if __name__ == "__main__":
    unittest.main()
