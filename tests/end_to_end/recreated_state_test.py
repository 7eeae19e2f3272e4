# SPDX-License-Identifier: Apache-2.0
"""A state is deleted while a host is away, and made again: what the host still holds never shows up
in the new one."""

import unittest

import grpc
from remesh.trainer import Trainer
from remesh.v1 import state_pb2

from harness import CALL_SECONDS, Array, ClusterTest, targets, text_sharding

NAME = "jobs/test/states/again"
OLD, NEW = [Array("w", "f32", (8, 8), 1)], [Array("w", "f32", (8, 8), 7)]
BOTH = text_sharding("{devices=[2,1]<=[2]}", 0, 1)
COLUMNS = text_sharding("{devices=[1,2]<=[2]}", 0, 1)
ONE = text_sharding("{maximal device=0}", 0)


class RecreatedStateTest(ClusterTest):
    HOSTS, DEVICES_PER_HOST = 2, 1

    def get(self):
        return self.controller.states.GetState(
            state_pb2.GetStateRequest(name=NAME), timeout=CALL_SECONDS
        )

    def delete(self):
        self.controller.states.DeleteState(
            state_pb2.DeleteStateRequest(name=NAME), timeout=CALL_SECONDS
        )

    def lose_host_1(self):
        self.cluster.workers["host-1"].kill()
        self.wait_until("host-1 is lost", lambda: self.get().phase == state_pb2.State.LOST)

    def restart_host_1(self):
        self.cluster.start_worker("host-1")
        self.trainers.pop("host-1").close()
        self.trainers["host-1"] = Trainer(
            self.cluster.server_address, self.cluster.worker_socket("host-1")
        )

    def tearDown(self):
        self.delete()

    def test_buffers_of_the_old_state_do_not_make_the_new_one_ready(self):
        self.create_and_write(NAME, OLD, BOTH)
        self.lose_host_1()
        self.delete()
        self.controller.create_state(self.state_of(NAME, NEW, ONE))
        self.restart_host_1()
        self.delete()
        self.controller.create_state(self.state_of(NAME, NEW, BOTH))
        self.write_everywhere(NAME, NEW, ["host-0"])
        with self.assertRaises(grpc.RpcError) as waited:
            self.controller.wait_ready(NAME, 2)
        self.assertEqual(waited.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        state = self.get()
        self.assertEqual((state.phase, state.sealed_shards), (state_pb2.State.BUILDING, 1))
        self.write_everywhere(NAME, NEW, ["host-1"])
        self.controller.wait_ready(NAME, CALL_SECONDS)
        self.move(NAME, 1, targets(NEW, COLUMNS))
        self.check_everywhere(NAME, 2, NEW)

    def test_a_later_generation_of_the_old_state_is_neither_read_nor_in_the_way(self):
        self.create_and_write(NAME, OLD, BOTH)
        self.move(NAME, 1, targets(OLD, COLUMNS))
        uid = self.get().uid
        self.lose_host_1()
        self.delete()
        self.create_and_write(NAME, NEW, ONE, ["host-0"])
        self.assertNotEqual(self.get().uid, uid)
        self.restart_host_1()
        self.wait_until(
            "host-1 has forgotten the old state", lambda: not self.readable_on_host_1(2)
        )
        self.move(NAME, 1, targets(NEW, BOTH))
        self.check_everywhere(NAME, 2, NEW)

    def readable_on_host_1(self, generation):
        try:
            return self.trainers["host-1"].read(NAME, generation, 0.5)
        except grpc.RpcError:
            return []


if __name__ == "__main__":
    unittest.main()
