# SPDX-License-Identifier: Apache-2.0
"""Trainers write a state again, each at its own time: it is READY, moves and is DEGRADED only with
the shards of one write."""

import unittest

import grpc
from remesh import errors
from remesh.trainer import Trainer
from remesh.v1 import plan_pb2, state_pb2

from harness import CALL_SECONDS, Array, ClusterTest, targets, text_sharding

OLD, NEW = [Array("w", "f32", (8, 8), 1)], [Array("w", "f32", (8, 8), 7)]
ROWS = text_sharding("{devices=[2,1]<=[2]}", 0, 1)
COLUMNS = text_sharding("{devices=[1,2]<=[2]}", 0, 1)
COPIES = text_sharding("{devices=[1,1,2]<=[2] last_tile_dim_replicate}", 0, 1)
ONE = text_sharding("{maximal device=0}", 0)


class WritesTest(ClusterTest):
    HOSTS, DEVICES_PER_HOST = 2, 1

    def get(self, name: str) -> state_pb2.State:
        return self.controller.states.GetState(
            state_pb2.GetStateRequest(name=name), timeout=CALL_SECONDS
        )

    def await_writes(self, name: str, writes: list) -> None:
        """A host tells of its write when it begins, and once more when it has sealed."""

        def are_sealed() -> bool:
            state = self.get(name)
            told = [(one.host, one.write) for one in state.host_writes]
            return told == writes and not state.unsealed_hosts

        self.wait_until(f"the writes are {writes}, all sealed", are_sealed)
        self.assertEqual(self.get(name).phase, state_pb2.State.BUILDING)

    def rewrite(self, name: str, host: str, write: str) -> None:
        self.trainers[host].unseal(name, write)
        self.write_everywhere(name, NEW, [host], write)

    def restart(self, host: str) -> None:
        self.cluster.workers[host].kill()
        self.cluster.start_worker(host)
        self.trainers.pop(host).close()
        self.trainers[host] = Trainer(self.cluster.server_address, self.cluster.worker_socket(host))

    def refused(self, name: str, generation: int, to) -> grpc.RpcError:
        with self.assertRaises(grpc.RpcError) as refusal:
            self.controller.start_reshard(name, generation, to)
        self.assertEqual(errors.error_info(refusal.exception).reason, "STATE_NOT_READY")
        return refusal.exception

    # Regression: it was READY, and a move took the rows of both contents.
    def test_a_state_that_one_host_has_written_again_is_not_ready(self):
        name = "jobs/test/states/torn"
        self.create_and_write(name, OLD, ROWS)
        self.rewrite(name, "host-1", "7")
        self.await_writes(name, [("host-0", ""), ("host-1", "7")])
        self.assertIn(
            "is BUILDING, not READY; no write on host-0, write 7 on host-1",
            self.refused(name, 1, targets(NEW, COLUMNS)).details(),
        )
        self.restart("host-1")
        self.await_writes(name, [("host-0", ""), ("host-1", "7")])
        self.rewrite(name, "host-0", "7")
        self.assertEqual(self.controller.wait_ready(name, CALL_SECONDS).write, "7")
        self.move(name, 1, targets(NEW, COLUMNS))
        self.check_everywhere(name, 2, NEW)
        self.assertEqual(self.get(name).write, "")

    # Regression: it was LOST, and the error did not say what helps.
    def test_a_state_with_a_copy_is_degraded_and_moves_without_the_lost_host(self):
        name = "jobs/test/states/copies"
        self.create_and_write(name, NEW, COPIES)
        self.cluster.workers["host-1"].kill()
        try:
            self.wait_until(
                "it is DEGRADED", lambda: self.get(name).phase == state_pb2.State.DEGRADED
            )
            refusal = self.refused(name, 1, targets(NEW, ONE))
            self.assertIn(
                f"remeshctl reshard {name} -f TARGETS --lose-absent-hosts (or --lost-devices 1) ",
                refusal.details(),
            )
            self.assertEqual(errors.error_info(refusal).metadata["lost_device_ids"], "1")
            self.move(name, 1, targets(NEW, ONE), plan_pb2.PlanOptions(lost_device_ids=[1]))
            self.assertEqual(self.get(name).phase, state_pb2.State.READY)
            self.check_everywhere(name, 2, NEW, ["host-0"])
        finally:
            self.restart("host-1")


if __name__ == "__main__":
    unittest.main()
