# SPDX-License-Identifier: Apache-2.0
"""Moves to where a state is already, whole or in part."""

import unittest

import grpc
from remesh import errors
from remesh.v1 import plan_pb2, reshard_pb2, state_pb2

from harness import CALL_SECONDS, Array, ClusterTest, salted, targets, text_sharding

ARRAYS = [*salted("w", "bf16", (36, 10)), Array("b", "f32", (60, 3)), Array("c", "f32", (24, 6))]
ROWS = text_sharding("{devices=[6,1]<=[6]}", 0, 1, 2, 3, 4, 5)
# The same places, in other words.
ROWS_ALSO = text_sharding("{devices=[6,1]0,1,2,3,4,5}", 0, 1, 2, 3, 4, 5)
COLUMNS = text_sharding("{devices=[1,2]<=[2]}", 3, 0)


def moved_bytes(execution: reshard_pb2.Execution) -> int:
    """What any worker did for it."""
    return sum(
        host.sent_bytes + host.received_bytes + host.copied_bytes for host in execution.hosts
    )


class StayTest(ClusterTest):
    def state(self, name: str) -> state_pb2.State:
        return self.controller.states.GetState(
            state_pb2.GetStateRequest(name=name), timeout=CALL_SECONDS
        )

    def start(self, name: str, to: reshard_pb2.Targets = None, **more) -> reshard_pb2.Execution:
        request = reshard_pb2.StartExecutionRequest(
            state=name, expected_generation=1, targets=to, **more
        )
        return self.controller.reshards.StartExecution(request, timeout=CALL_SECONDS)

    def get(self, name: str) -> reshard_pb2.Execution:
        return self.controller.reshards.GetExecution(
            reshard_pb2.GetExecutionRequest(name=name), timeout=CALL_SECONDS
        )

    def check_stayed(self, execution: reshard_pb2.Execution) -> None:
        self.assertEqual(moved_bytes(execution), 0)
        self.assertEqual((execution.source_generation, execution.target_generation), (1, 1))
        self.assertEqual(execution.phase, reshard_pb2.Execution.SUCCEEDED)
        self.assertEqual(
            (execution.summary.total_bytes, list(execution.hosts), execution.windows), (0, [], 0)
        )

    # Was: every byte was copied, and the state had generation 2.
    def test_an_equal_layout_moves_nothing(self):
        name = "jobs/stay/states/equal"
        self.create_and_write(name, ARRAYS, ROWS)
        places = self.check_everywhere(name, 1, ARRAYS)
        started = self.start(name, targets(ARRAYS, ROWS_ALSO), request_id="once")
        self.check_stayed(started)
        self.assertEqual(self.controller.wait_execution(started.name), started)
        self.assertEqual(self.start(name, targets(ARRAYS, ROWS_ALSO), request_id="once"), started)
        self.assertEqual(
            (self.state(name).generation, self.state(name).phase), (1, state_pb2.State.READY)
        )
        self.assertEqual(self.check_everywhere(name, 1, ARRAYS), places)
        dry = self.start(name, targets(ARRAYS, ROWS), validate_only=True)
        self.assertEqual(
            (dry.name, dry.plan, dry.target_generation, dry.summary.total_bytes), ("", "", 1, 0)
        )
        # It is remembered as any other, also by the next server.
        self.cluster.stop_server()
        self.cluster.start_server()
        self.controller.wait_ready(name, CALL_SECONDS)
        self.assertEqual(self.get(started.name), started)
        self.assertEqual(self.start(name, targets(ARRAYS, ROWS_ALSO), request_id="once"), started)
        listed = self.controller.reshards.ListExecutions(
            reshard_pb2.ListExecutionsRequest(parent="jobs/stay"), timeout=CALL_SECONDS
        )
        self.assertIn(started, list(listed.executions))
        # The state moves on as if nothing had been asked.
        execution = self.move(name, 1, targets(ARRAYS, COLUMNS))
        self.assertEqual(execution.target_generation, 2)
        self.check_everywhere(name, 2, ARRAYS, ["host-0", "host-1"])

    def test_a_plan_that_leads_here_moves_nothing(self):
        name = "jobs/stay/states/by-plan"
        self.create_and_write(name, ARRAYS, ROWS)
        there = self.start(name, targets(ARRAYS, COLUMNS), validate_only=True)
        execution = self.controller.wait_execution(self.start(name, plan=there.plan).name)
        self.assertEqual(execution.target_generation, 2)
        again = self.controller.start_reshard(name, 2, plan=there.plan)
        self.assertEqual(
            (again.phase, again.target_generation, again.plan),
            (reshard_pb2.Execution.SUCCEEDED, 2, there.plan),
        )
        self.assertEqual(moved_bytes(again), 0)

    # Was: INVALID_ARGUMENT, "is an array of the state and must be named".
    def test_an_array_without_a_target_stays(self):
        name = "jobs/stay/states/part"
        self.create_and_write(name, ARRAYS, ROWS)
        before = self.check_everywhere(name, 1, ARRAYS)
        part = targets(ARRAYS[:-1], COLUMNS)
        whole = reshard_pb2.Targets(shardings={"all": COLUMNS, "rows": ROWS}, arrays=part.arrays)
        whole.arrays.add(name="c").sharding.ref = "rows"
        validated = self.start(name, whole, validate_only=True)
        execution = self.controller.wait_execution(self.start(name, part).name)
        self.assertEqual(execution.plan, validated.plan)  # the same question
        after = self.check_everywhere(name, execution.target_generation, ARRAYS)
        stays = lambda places: {place for place in places if place[0] == "c"}
        self.assertEqual(stays(after), stays(before))
        self.assertEqual({device for array, device, _, _ in after if array == "b"}, {0, 3})
        # What GetState says is what the next move starts from.
        spec = self.state(name).spec
        self.assertEqual(spec.shardings[spec.arrays[-1].sharding.ref], ROWS)
        back = self.move(name, 2, targets(ARRAYS, ROWS))
        self.assertEqual(self.check_everywhere(name, back.target_generation, ARRAYS), before)

    def test_an_array_does_not_stay_where_it_cannot(self):
        name = "jobs/stay/states/cannot"
        self.create_and_write(name, ARRAYS, ROWS)
        with self.assertRaises(grpc.RpcError) as refusal:
            self.start(
                name,
                targets(ARRAYS[:-1], COLUMNS),
                options=plan_pb2.PlanOptions(lost_device_ids=[5]),
            )
        self.assertEqual(refusal.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        info = errors.error_info(refusal.exception)
        self.assertEqual((info.metadata["field"], info.metadata["value"]), ("targets.arrays", "c"))
        self.assertIn(
            "without a target it stays on device 5, which is lost", refusal.exception.details()
        )


if __name__ == "__main__":
    unittest.main()
