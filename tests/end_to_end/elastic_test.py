# SPDX-License-Identifier: Apache-2.0
"""Moves that choose the order of their devices, and moves away from devices that are gone."""

import unittest

import grpc
from remesh import errors
from remesh.v1 import plan_pb2, plan_pb2_grpc, reshard_pb2, state_pb2

from harness import Array, ClusterTest, salted, targets, text_sharding

ARRAYS = [*salted("w", "bf16", (36, 10)), *salted("q", "s4", (24, 7)), Array("b", "f32", (60, 3))]
ROWS = text_sharding("{devices=[6,1]<=[6]}", 0, 1, 2, 3, 4, 5)
FREE = plan_pb2.PlanOptions(free_target_order=True)
# Two halves, each on one device of every host.
HALVES = text_sharding("{devices=[2,1,3]<=[3,2]T(1,0) last_tile_dim_replicate}", 0, 1, 2, 3, 4, 5)


class ElasticTest(ClusterTest):
    def state(self, name: str) -> state_pb2.State:
        return self.controller.states.GetState(state_pb2.GetStateRequest(name=name), timeout=20)

    def check_on(self, hosts, name: str, generation: int):
        everyone = self.trainers
        self.trainers = {host: everyone[host] for host in hosts}
        try:
            return self.check_everywhere(name, generation, ARRAYS)
        finally:
            self.trainers = everyone

    def delete(self, name: str) -> None:
        self.controller.states.DeleteState(state_pb2.DeleteStateRequest(name=name), timeout=20)

    # ---- free target order ----

    def test_a_free_order_that_moves_nothing(self):
        name = "jobs/elastic/states/reversed"
        self.create_and_write(name, ARRAYS, ROWS)
        before = self.check_everywhere(name, 1, ARRAYS)
        backwards = targets(ARRAYS, text_sharding("{devices=[6,1]<=[6]}", 5, 4, 3, 2, 1, 0))
        execution = self.move(name, 1, backwards, FREE)
        self.assertEqual(
            (execution.target_generation, execution.summary.total_bytes, list(execution.hosts)),
            (1, 0, []),
        )
        self.assertEqual(
            [list(chosen.devices.ids) for chosen in execution.target_device_lists],
            [[0, 1, 2, 3, 4, 5]],
        )
        self.assertEqual(self.check_everywhere(name, 1, ARRAYS), before)
        self.delete(name)

    def test_the_state_follows_the_order_chosen(self):
        """Fewer devices, listed so that the given order would move nearly all; by targets and by
        the name of a plan."""
        name = "jobs/elastic/states/shrunk"
        for by_plan in (False, True):
            self.create_and_write(name, ARRAYS, ROWS)
            to = targets(ARRAYS, text_sharding("{devices=[4,1]<=[4]}", 5, 4, 1, 0))
            given = self.controller.reshards.StartExecution(
                reshard_pb2.StartExecutionRequest(
                    state=name, expected_generation=1, targets=to, validate_only=True
                ),
                timeout=20,
            )
            request = reshard_pb2.StartExecutionRequest(state=name, expected_generation=1)
            if by_plan:
                request.plan = self._plan(name, to)
            else:
                request.targets.CopyFrom(to)
                request.options.CopyFrom(FREE)
            started = self.controller.reshards.StartExecution(request, timeout=20)
            execution = self.controller.wait_execution(started.name)
            self.assertGreater(execution.summary.kept_bytes, given.summary.kept_bytes)
            (chosen,) = execution.target_device_lists
            self.assertEqual(sorted(chosen.devices.ids), [0, 1, 4, 5])
            self.assertEqual(set(chosen.arrays), {array.name for array in ARRAYS})
            # What GetState says, what Execution says and what is where agree.
            spec = self.state(name).spec
            sharding = spec.shardings[spec.arrays[0].sharding.ref]
            self.assertEqual(list(sharding.devices.ids), list(chosen.devices.ids))
            places = self.check_on(("host-0", "host-2"), name, 2)
            for array in ARRAYS:
                rows = -(-array.shape[0] // 4)
                for position, device in enumerate(chosen.devices.ids):
                    low, high = min(position * rows, array.shape[0]), min(
                        (position + 1) * rows, array.shape[0]
                    )
                    self.assertIn((array.name, device, (low, 0), (high, array.shape[1])), places)
            self.delete(name)

    def _plan(self, name: str, to: reshard_pb2.Targets) -> str:
        spec = plan_pb2.PlanSpec(options=FREE)
        state = self.state(name).spec
        spec.topology.CopyFrom(state.topology)
        spec.shardings["source"].CopyFrom(state.shardings["all"])
        spec.shardings["target"].CopyFrom(to.shardings["all"])
        for array in state.arrays:
            spec.arrays.append(
                plan_pb2.ArraySpec(
                    name=array.name,
                    shape=array.shape,
                    element_type=array.element_type,
                    source={"ref": "source"},
                    target={"ref": "target"},
                )
            )
        with self.cluster.channel() as channel:
            return (
                plan_pb2_grpc.PlanServiceStub(channel)
                .CreatePlan(plan_pb2.CreatePlanRequest(spec=spec), timeout=20)
                .plan.name
            )

    # ---- lost devices ----

    def test_a_host_that_is_gone_is_left_behind(self):
        name = "jobs/elastic/states/left"
        self.create_and_write(name, ARRAYS, HALVES)
        to = targets(ARRAYS, text_sharding("{devices=[1,4]<=[4]}", 3, 2, 1, 0))
        self._lose_host_2(name, state_pb2.State.DEGRADED)
        try:
            refusal = self._refused("STATE_NOT_READY", name, to, [])
            self.assertIn(f"{name} is DEGRADED", refusal.details())
            self.assertIn(
                f"remeshctl reshard {name} -f TARGETS --lose-absent-hosts (or --lost-devices 4,5) ",
                refusal.details(),
            )
            self._refused("STATE_NOT_READY", name, to, [4])  # device 5 held a part of it too
            self._refused("", name, targets(ARRAYS, ROWS), [4, 5])  # they cannot be targets
            execution = self.move(name, 1, to, plan_pb2.PlanOptions(lost_device_ids=[4, 5]))
            self.assertEqual({host.host for host in execution.hosts}, {"host-0", "host-1"})
            self.assertEqual(list(execution.lost_device_ids), [4, 5])
            state = self.state(name)
            self.assertEqual((state.generation, state.phase), (2, state_pb2.State.READY))
            self.check_on(("host-0", "host-1"), name, 2)
        finally:
            self.cluster.start_worker("host-2")
        # Back on the buffers that it left, it is refused as one of the past, and takes part
        # again.
        self.move(name, 2, targets(ARRAYS, ROWS))
        self.check_everywhere(name, 3, ARRAYS)
        self.delete(name)

    def test_absent_hosts_are_left_behind_without_naming_their_devices(self):
        name = "jobs/elastic/states/absent"
        self.create_and_write(name, ARRAYS, HALVES)
        to = targets(ARRAYS, text_sharding("{devices=[1,4]<=[4]}", 3, 2, 1, 0))
        self._lose_host_2(name, state_pb2.State.DEGRADED)
        try:
            part = targets(ARRAYS[:-1], to.shardings["all"])
            refusal = self._refused(
                "", name, part, [], lose_absent_hosts=True
            )  # b would stay there
            self.assertIn('targets.arrays: value "b" must be named', refusal.details())
            started = self.controller.start_reshard(name, 1, to, lose_absent_hosts=True)
            execution = self.controller.wait_execution(started.name)
            self.assertEqual({host.host for host in execution.hosts}, {"host-0", "host-1"})
            self.assertEqual(list(execution.lost_device_ids), [4, 5])
            state = self.state(name)
            self.assertEqual(
                (state.generation, state.phase),
                (execution.target_generation, state_pb2.State.READY),
            )
            self.check_on(("host-0", "host-1"), name, state.generation)
            # With no host lost it is like any other move: here, one that has nothing to do.
            again = self.controller.start_reshard(
                name, state.generation, to, lose_absent_hosts=True
            )
            self.assertEqual(
                (again.target_generation, list(again.lost_device_ids)), (state.generation, [])
            )
        finally:
            self.cluster.start_worker("host-2")
        self.delete(name)

    def test_what_only_the_lost_held_is_lost(self):
        name = "jobs/elastic/states/only"
        self.create_and_write(name, ARRAYS, ROWS)
        to = targets(ARRAYS, text_sharding("{devices=[1,4]<=[4]}", 3, 2, 1, 0))
        self._lose_host_2(name, state_pb2.State.LOST)
        try:
            self._refused("DATA_LOSS", name, to, [4, 5])
            self._refused("DATA_LOSS", name, to, [], lose_absent_hosts=True)
        finally:
            self.cluster.start_worker("host-2")
        self.wait_until(
            "the state is READY", lambda: self.state(name).phase == state_pb2.State.READY
        )
        self.check_everywhere(name, 1, ARRAYS)
        self.delete(name)

    def _lose_host_2(self, name: str, phase) -> None:
        self.cluster.workers["host-2"].kill()
        self.wait_until("the state has lost a host", lambda: self.state(name).phase == phase)

    def _refused(
        self, reason: str, name: str, to: reshard_pb2.Targets, lost, **more
    ) -> grpc.RpcError:
        with self.assertRaises(grpc.RpcError) as refusal:
            self.controller.start_reshard(
                name, 1, to, plan_pb2.PlanOptions(lost_device_ids=lost), **more
            )
        info = errors.error_info(refusal.exception)
        if reason:
            self.assertEqual(info.reason, reason)
        else:
            self.assertEqual(refusal.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        return refusal.exception


if __name__ == "__main__":
    unittest.main()
