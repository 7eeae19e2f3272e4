# SPDX-License-Identifier: Apache-2.0
"""Law 5: bad input of every kind gets a code and a reason that name field and value; the server
lives on, nothing is left behind."""

import math
import unittest

import grpc
from remesh import errors
from remesh.v1 import (
    local_pb2,
    plan_pb2,
    plan_pb2_grpc,
    reshard_pb2,
    sharding_pb2,
    state_pb2,
    topology_pb2,
    worker_pb2,
    worker_pb2_grpc,
)

from harness import Array, ClusterTest, devices, targets, text_sharding

INVALID = grpc.StatusCode.INVALID_ARGUMENT
PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
NOT_FOUND = grpc.StatusCode.NOT_FOUND

STATE = "jobs/test/states/victim"
ARRAYS = [Array("w", "f32", (12, 8))]
ROWS = text_sharding("{devices=[6,1]<=[6]}", 0, 1, 2, 3, 4, 5)
COLUMNS = text_sharding("{devices=[1,4]<=[4]}", 0, 1, 2, 3)
ELSEWHERE = text_sharding("{replicated}", 0, 1, 2, 3, 4, 5)


def box_sharding(*entries):
    """entries: (device, lo, hi)."""
    return sharding_pb2.Sharding(
        boxes=sharding_pb2.BoxSharding(
            devices=[
                sharding_pb2.DeviceBoxes(device=device, boxes=[sharding_pb2.Box(lo=lo, hi=hi)])
                for device, lo, hi in entries
            ]
        )
    )


class BadInputTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.plans = plan_pb2_grpc.PlanServiceStub(cls.cluster.channel())
        cls.workers = worker_pb2_grpc.WorkerServiceStub(cls.cluster.channel())

    def setUp(self):
        listed = self.controller.states.ListStates(state_pb2.ListStatesRequest(), timeout=10).states
        if STATE not in [state.name for state in listed]:
            self.create_and_write(STATE, ARRAYS, ROWS)
        self._pid = self.cluster.server.popen.pid

    def tearDown(self):
        """Whatever was refused: the same server, the same single state, and it still moves."""
        self.assertTrue(self.cluster.server.alive())
        self.assertEqual(self.cluster.server.popen.pid, self._pid)
        listed = self.controller.states.ListStates(state_pb2.ListStatesRequest(), timeout=10).states
        self.assertEqual(
            [(state.name, state.generation, state.phase) for state in listed],
            [(STATE, 1, state_pb2.State.READY)],
        )

    def refused(self, code, fragments, call, *arguments, **keywords):
        """`call` is refused with `code`; message and metadata hold every fragment."""
        with self.assertRaises(grpc.RpcError) as refusal:
            call(*arguments, timeout=20, **keywords)
        error = refusal.exception
        self.assertEqual(error.code(), code, error.details())
        info = errors.error_info(error)
        self.assertIsNotNone(info, f"no ErrorInfo with: {error.details()}")
        self.assertEqual(info.domain, "remesh")
        self.assertRegex(info.reason, r"^[A-Z][A-Z0-9_]+[A-Z0-9]$")
        for fragment in fragments:
            self.assertIn(fragment, error.details())
            self.assertIn(
                fragment,
                " ".join([*info.metadata.values(), *info.metadata.keys()]),
                errors.describe(error),
            )
        return info

    # ---- plans ----

    def spec(self, **changes):
        """A good PlanSpec, with changes to its single array."""
        array = {
            "name": "w",
            "shape": [12, 8],
            "element_type": "f32",
            "source": ROWS,
            "target": COLUMNS,
            **changes,
        }
        return plan_pb2.PlanSpec(topology=self.topology(), arrays=[plan_pb2.ArraySpec(**array)])

    def plan_refused(self, fragments, spec, code=INVALID):
        return self.refused(
            code, fragments, self.plans.CreatePlan, plan_pb2.CreatePlanRequest(spec=spec)
        )

    def test_undecodable_op_sharding(self):
        self.plan_refused(
            ["arrays[0].source.op_sharding"],
            self.spec(
                source=sharding_pb2.Sharding(op_sharding=b"\xff\xff\xff", devices=devices(0))
            ),
        )

    def test_op_sharding_that_contradicts_itself(self):
        self.plan_refused(
            ["arrays[0].target"],
            self.spec(
                target=sharding_pb2.Sharding(
                    op_sharding=b"\x08\x03\x1a\x02\x02\x02\x22\x02\x00\x00",
                    devices=devices(0, 1, 2, 3),
                )
            ),
        )

    def test_text_that_does_not_parse(self):
        self.plan_refused(
            ["arrays[0].source.hlo_text"],
            self.spec(source=text_sharding("{devices=[6,1<=[6]}", 0, 1, 2, 3, 4, 5)),
        )

    def test_overflowing_tile_assignment(self):
        self.plan_refused(
            ["arrays[0].source.hlo_text"],
            self.spec(
                source=text_sharding(
                    "{devices=[4294967296,4294967296]<=[18446744073709551616]}", 0, 1
                )
            ),
        )

    def test_huge_iota_over_few_devices(self):
        self.plan_refused(
            ["arrays[0].source"],
            self.spec(source=text_sharding("{devices=[1000000000,1]<=[1000000000]}", 0, 1)),
        )

    def test_overflowing_shape(self):
        self.plan_refused(["arrays[0].shape"], self.spec(shape=[2**62, 2**62]))

    def test_negative_extent(self):
        self.plan_refused(["arrays[0].shape[1]", "-8"], self.spec(shape=[12, -8]))

    def test_wrong_rank(self):
        self.plan_refused(["arrays[0]"], self.spec(shape=[12, 8, 2]))

    def test_unknown_element_type(self):
        self.plan_refused(["arrays[0].element_type", "f33"], self.spec(element_type="f33"))

    def test_duplicate_device(self):
        self.plan_refused(
            ["arrays[0].target.devices", "3"],
            self.spec(target=text_sharding("{devices=[1,4]<=[4]}", 0, 3, 2, 3)),
        )

    def test_device_that_no_host_has(self):
        self.plan_refused(
            ["99"], self.spec(target=text_sharding("{devices=[1,4]<=[4]}", 0, 1, 2, 99))
        )

    def test_wrong_number_of_devices(self):
        self.plan_refused(
            ["arrays[0].target"], self.spec(target=text_sharding("{devices=[1,4]<=[4]}", 0, 1, 2))
        )

    def test_huge_device_range(self):
        self.plan_refused(
            ["arrays[0].target.devices"],
            self.spec(
                target=sharding_pb2.Sharding(
                    hlo_text="{replicated}",
                    devices=sharding_pb2.DeviceList(
                        range=sharding_pb2.DeviceList.Range(start=0, count=2**62)
                    ),
                )
            ),
        )

    def test_source_that_does_not_cover(self):
        self.plan_refused(
            ["arrays[0].source"],
            self.spec(source=box_sharding((0, [0, 0], [6, 8]), (1, [6, 0], [12, 7]))),
        )

    def test_box_outside_the_array(self):
        self.plan_refused(
            ["arrays[0].source.boxes"], self.spec(source=box_sharding((0, [0, 0], [13, 8])))
        )

    def test_duplicate_array(self):
        spec = self.spec()
        spec.arrays.append(spec.arrays[0])
        self.plan_refused(["arrays[1].name", "w"], spec)

    def test_reference_to_nothing(self):
        self.plan_refused(
            ["arrays[0].target.ref", "nowhere"],
            self.spec(target=sharding_pb2.Sharding(ref="nowhere")),
        )

    def test_bandwidth_that_is_no_number(self):
        for value in (math.nan, math.inf, 0.0, -1.0):
            spec = self.spec()
            spec.topology.hosts[1].nic_bytes_per_second = value
            self.plan_refused(["topology.hosts[1].nic_bytes_per_second"], spec)

    def test_host_named_twice(self):
        spec = self.spec()
        spec.topology.hosts[1].name = spec.topology.hosts[0].name
        self.plan_refused(["topology.hosts[1].name", spec.topology.hosts[0].name], spec)

    def test_device_on_two_hosts(self):
        spec = self.spec()
        spec.topology.hosts[1].device_ids[0] = 0
        self.plan_refused(["topology.hosts[1].device_ids", "0"], spec)

    def test_domains_in_a_circle(self):
        spec = self.spec()
        for name, parent in (("a", "b"), ("b", "a")):
            spec.topology.domains.append(
                topology_pb2.Domain(
                    name=name,
                    parent=parent,
                    egress_bytes_per_second=1e9,
                    ingress_bytes_per_second=1e9,
                )
            )
        self.plan_refused(["topology.domains"], spec)

    def test_negative_window(self):
        spec = self.spec()
        spec.options.window_bytes = -1
        self.plan_refused(["options.window_bytes", "-1"], spec)

    def test_partial_on_one_side(self):
        partial = sharding_pb2.Sharding(
            dtensor=sharding_pb2.DTensorSharding(
                mesh_shape=[2], placements=[{"partial": {"reduce_op": "sum"}}]
            ),
            devices=devices(0, 1),
        )
        self.plan_refused(["arrays[0]"], self.spec(source=partial))

    def test_memory_limit_that_no_plan_keeps(self):
        spec = self.spec()
        spec.options.memory_limit_bytes = 8
        info = self.plan_refused(["8"], spec, code=grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertEqual(info.reason, "MEMORY_LIMIT")

    def test_lost_devices_that_held_the_only_copy(self):
        spec = self.spec()
        spec.options.lost_device_ids.append(4)
        info = self.plan_refused(["w", "4", "[8:10,0:2]"], spec, code=grpc.StatusCode.DATA_LOSS)
        self.assertEqual(info.reason, "DATA_LOSS")

    def test_unknown_plan(self):
        self.refused(
            NOT_FOUND,
            ["plans/none"],
            self.plans.GetPlan,
            plan_pb2.GetPlanRequest(name="plans/none"),
        )

    def test_negative_page_size(self):
        self.refused(
            INVALID,
            ["page_size", "-1"],
            self.plans.ListPlans,
            plan_pb2.ListPlansRequest(page_size=-1),
        )

    def test_page_token_from_nowhere(self):
        self.refused(
            INVALID,
            ["page_token"],
            self.plans.ListPlans,
            plan_pb2.ListPlansRequest(page_token="%%%"),
        )

    # ---- states ----

    def create_refused(self, code, fragments, state):
        return self.refused(
            code,
            fragments,
            self.controller.states.CreateState,
            state_pb2.CreateStateRequest(state=state),
        )

    def test_state_name_of_another_form(self):
        for name in (
            "",
            "victim",
            "jobs//states/x",
            "jobs/a/states/../b",
            "jobs/a/states/" + "x" * 1000,
        ):
            self.create_refused(INVALID, ["name"], self.state_of(name, ARRAYS, ROWS))

    def test_state_that_exists(self):
        self.create_refused(
            grpc.StatusCode.ALREADY_EXISTS, [STATE], self.state_of(STATE, ARRAYS, ROWS)
        )

    def test_state_without_arrays(self):
        self.create_refused(INVALID, ["arrays"], self.state_of("jobs/test/states/empty", [], ROWS))

    def test_state_that_is_not_covered(self):
        self.create_refused(
            INVALID,
            ["arrays[0]"],
            self.state_of("jobs/test/states/hole", ARRAYS, box_sharding((0, [0, 0], [6, 8]))),
        )

    def test_state_on_a_host_without_worker(self):
        state = self.state_of("jobs/test/states/elsewhere", ARRAYS, ROWS)
        state.spec.topology.hosts[2].name = "nobody"
        info = self.create_refused(PRECONDITION, ["nobody"], state)
        self.assertEqual(info.reason, "HOST_NOT_ATTACHED")

    def test_unknown_state(self):
        name = "jobs/test/states/absent"
        self.refused(
            NOT_FOUND, [name], self.controller.states.GetState, state_pb2.GetStateRequest(name=name)
        )
        self.refused(
            NOT_FOUND,
            [name],
            self.controller.states.DeleteState,
            state_pb2.DeleteStateRequest(name=name),
        )

    # ---- executions ----

    def start_refused(self, code, fragments, **fields):
        request = {
            "state": STATE,
            "expected_generation": 1,
            "targets": targets(ARRAYS, COLUMNS),
            **fields,
        }
        return self.refused(
            code,
            fragments,
            self.controller.reshards.StartExecution,
            reshard_pb2.StartExecutionRequest(**request),
        )

    def test_wrong_generation(self):
        self.assertEqual(
            self.start_refused(PRECONDITION, ["7"], expected_generation=7).reason,
            "GENERATION_MISMATCH",
        )
        self.start_refused(INVALID, ["expected_generation", "0"], expected_generation=0)

    def test_execution_of_an_unknown_state(self):
        self.start_refused(NOT_FOUND, ["jobs/test/states/absent"], state="jobs/test/states/absent")

    def test_targets_that_name_an_array_twice_or_another(self):
        twice = targets([*ARRAYS, *ARRAYS], COLUMNS)
        self.start_refused(INVALID, ["w", "more than once"], targets=twice)
        self.start_refused(
            INVALID, ["v"], targets=targets([*ARRAYS, Array("v", "f32", (1,))], COLUMNS)
        )

    def test_plan_with_another_source(self):
        plan = self.plans.CreatePlan(
            plan_pb2.CreatePlanRequest(spec=self.spec(source=COLUMNS, target=ELSEWHERE)), timeout=20
        ).plan
        request = reshard_pb2.StartExecutionRequest(
            state=STATE, expected_generation=1, plan=plan.name
        )
        info = self.refused(PRECONDITION, [], self.controller.reshards.StartExecution, request)
        self.assertEqual(info.reason, "PLAN_SOURCE_MISMATCH")
        request.lose_absent_hosts = True
        self.refused(
            INVALID, ["lose_absent_hosts"], self.controller.reshards.StartExecution, request
        )

    def test_neither_targets_nor_plan(self):
        request = reshard_pb2.StartExecutionRequest(state=STATE, expected_generation=1)
        self.refused(INVALID, [], self.controller.reshards.StartExecution, request)

    def test_donation(self):
        info = self.start_refused(PRECONDITION, [], options=plan_pb2.PlanOptions(donate=True))
        self.assertEqual(info.reason, "DONATION_UNSUPPORTED")

    def test_unknown_execution(self):
        name = "jobs/test/executions/absent"
        for call, request in (
            (self.controller.reshards.GetExecution, reshard_pb2.GetExecutionRequest(name=name)),
            (
                self.controller.reshards.CancelExecution,
                reshard_pb2.CancelExecutionRequest(name=name),
            ),
        ):
            self.refused(NOT_FOUND, [name], call, request)

    # ---- workers ----

    def test_forgetting_a_live_worker(self):
        self.refused(
            PRECONDITION,
            ["host-0"],
            self.workers.ForgetWorker,
            worker_pb2.ForgetWorkerRequest(name="workers/host-0"),
        )

    def test_shards_that_are_not_there(self):
        local = self.controller.local
        self.refused(
            NOT_FOUND,
            ["jobs/test/states/absent"],
            local.Allocate,
            local_pb2.AllocateRequest(state="jobs/test/states/absent"),
        )
        self.refused(
            NOT_FOUND, ["9"], local.GetShards, local_pb2.GetShardsRequest(state=STATE, generation=9)
        )
        self.refused(
            INVALID, ["generation", "0"], local.GetShards, local_pb2.GetShardsRequest(state=STATE)
        )
        self.refused(PRECONDITION, [STATE], local.Allocate, local_pb2.AllocateRequest(state=STATE))
        self.refused(PRECONDITION, [STATE], local.Release, local_pb2.ReleaseRequest(state=STATE))

    # ---- what gRPC itself refuses ----

    def test_a_frame_that_is_no_message(self):
        raw = self.cluster.channel().unary_unary(
            "/remesh.v1.PlanService/CreatePlan",
            request_serializer=bytes,
            response_deserializer=bytes,
        )
        with self.assertRaises(grpc.RpcError) as refusal:
            raw(b"\xff" * 64, timeout=20)
        self.assertNotEqual(refusal.exception.code(), grpc.StatusCode.UNAVAILABLE)

    def test_a_message_beyond_the_limit(self):
        spec = self.spec()
        spec.shardings["padding"].op_sharding = bytes(65 << 20)
        with self.assertRaises(grpc.RpcError) as refusal:
            self.plans.CreatePlan(plan_pb2.CreatePlanRequest(spec=spec), timeout=60)
        self.assertEqual(refusal.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)


if __name__ == "__main__":
    unittest.main()
