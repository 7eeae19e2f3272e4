# SPDX-License-Identifier: Apache-2.0
"""The server goes and comes back between executions: states and generations are all there, and work
goes on."""

import unittest

import grpc
from remesh.v1 import reshard_pb2, state_pb2

from harness import Array, ClusterTest, salted, targets, text_sharding

ROWS = text_sharding("{devices=[6,1]<=[6]}", 0, 1, 2, 3, 4, 5)
COLUMNS = text_sharding("{devices=[1,6]<=[6]}", 5, 4, 3, 2, 1, 0)
MOVED, FRESH, BUILDING = (f"jobs/test/states/{name}" for name in ("moved", "fresh", "building"))
ARRAYS = [*salted("w", "bf16", (31, 17)), Array("b", "f32", (20, 6))]


class ServerRestartTest(ClusterTest):
    def setUp(self):
        if self._states():
            return
        self.create_and_write(MOVED, ARRAYS, ROWS)
        self.create_and_write(FRESH, ARRAYS, COLUMNS)
        self.move(MOVED, 1, targets(ARRAYS, COLUMNS))
        self.controller.create_state(self.state_of(BUILDING, ARRAYS, ROWS))

    def test_killed(self):
        self._survives(self.cluster.kill_server)

    def test_stopped(self):
        self._survives(self.cluster.stop_server)

    def _survives(self, end_server):
        before = self._states()
        self.assertEqual(set(before), {MOVED, FRESH, BUILDING})
        end_server()
        with self.assertRaises(grpc.RpcError) as refused:
            self.controller.states.GetState(state_pb2.GetStateRequest(name=MOVED), timeout=5)
        self.assertEqual(refused.exception.code(), grpc.StatusCode.UNAVAILABLE)
        # Readers need no server: their worker answers.
        generation = before[MOVED].generation
        self.check_everywhere(MOVED, generation, ARRAYS)

        self.cluster.start_server()
        self.wait_until(
            "every state is as it was",
            lambda: self._comparable(self._states()) == self._comparable(before),
        )
        self.check_everywhere(MOVED, generation, ARRAYS)
        self.check_everywhere(FRESH, 1, ARRAYS)
        there = text_sharding("{devices=[2,3]<=[6]}", 0, 1, 2, 3, 4, 5)
        back = COLUMNS
        self.move(MOVED, generation, targets(ARRAYS, there))
        self.move(MOVED, generation + 1, targets(ARRAYS, back))
        self.check_everywhere(MOVED, generation + 2, ARRAYS)

    def _states(self):
        """Name -> state; empty while the server cannot be reached."""
        try:
            listed = self.controller.states.ListStates(
                state_pb2.ListStatesRequest(), timeout=10, wait_for_ready=True
            )
            return {state.name: state for state in listed.states}
        except grpc.RpcError:
            return {}

    @staticmethod
    def _comparable(states):
        return {
            name: (
                state.generation,
                state.phase,
                state.spec.SerializeToString(deterministic=True),
                state.sealed_shards,
                state.total_shards,
                state.total_bytes,
            )
            for name, state in states.items()
        }


class ExecutionsAfterRestartTest(ClusterTest):
    def test_an_execution_that_ended_is_still_told(self):
        name = "jobs/test/states/history"
        self.create_and_write(name, ARRAYS, ROWS)
        ended = self.move(name, 1, targets(ARRAYS, COLUMNS))
        self.cluster.kill_server()
        self.cluster.start_server()
        found = self.wait_until("the server answers", lambda: self._get(ended.name))
        self.assertEqual((found.phase, found.target_generation), (ended.phase, 2))

    def _get(self, name):
        try:
            return self.controller.reshards.GetExecution(
                reshard_pb2.GetExecutionRequest(name=name), timeout=10
            )
        except grpc.RpcError as error:
            self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE, error.details())
            return None


if __name__ == "__main__":
    unittest.main()
