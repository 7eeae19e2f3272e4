# SPDX-License-Identifier: Apache-2.0
"""A worker or the server dies around the commit of a state that is written once: the state is
committed whole, or not at all."""

import shutil
import unittest

import grpc
from remesh import errors
from remesh.trainer import Trainer
from remesh.v1 import local_pb2, state_pb2

from harness import CALL_SECONDS, Array, ClusterTest, text_sharding

ARRAYS = [Array("w", "f32", (8, 8))]
BOTH = text_sharding("{devices=[2,1]<=[2]}", 0, 1)
VICTIM = "host-1"


class WriteOnceTest(ClusterTest):
    HOSTS, DEVICES_PER_HOST = 2, 1
    saves = 0

    def setUp(self):
        WriteOnceTest.saves += 1
        self.name = f"jobs/test/states/save.000001.{self.saves:08d}"
        self.create()

    def tearDown(self):
        self.controller.states.DeleteState(
            state_pb2.DeleteStateRequest(name=self.name), timeout=CALL_SECONDS
        )

    def create(self):
        state = self.state_of(self.name, ARRAYS, BOTH)
        state.write_once = True
        self.uid = self.controller.create_state(state).uid

    def get(self) -> state_pb2.State:
        return self.controller.states.GetState(
            state_pb2.GetStateRequest(name=self.name), timeout=CALL_SECONDS
        )

    def local(self, host: str):
        return self.trainers[host].local

    def read(self, host: str, **wait) -> local_pb2.ShardsResponse:
        request = local_pb2.GetShardsRequest(
            state=self.name, generation=1, state_uid=self.uid, **wait
        )
        return self.local(host).GetShards(request, timeout=CALL_SECONDS, wait_for_ready=True)

    def refused(self, call, *args) -> str:
        with self.assertRaises(grpc.RpcError) as refusal:
            call(*args)
        info = errors.error_info(refusal.exception)
        return info.reason if info else str(refusal.exception)

    def restart(self, wait: bool = True) -> None:
        self.cluster.start_worker(VICTIM, wait=wait)
        self.trainers.pop(VICTIM).close()
        self.trainers[VICTIM] = Trainer(
            self.cluster.server_address, self.cluster.worker_socket(VICTIM)
        )

    def test_killed_between_its_seal_and_the_commit(self):
        self.write_everywhere(self.name, ARRAYS, [VICTIM])
        self.cluster.workers[VICTIM].kill()
        self.cluster.kill_server()
        # Trainers call before the server has reported the state to the worker's next life.
        self.restart(wait=False)
        self.assertEqual(self.refused(self.read, VICTIM), "GENERATION_NOT_FOUND")
        local = self.local(VICTIM)
        self.assertEqual(
            self.refused(local.Unseal, local_pb2.UnsealRequest(state=self.name, write="2")),
            "WRITE_ONCE",
        )
        self.assertEqual(
            self.refused(local.Release, local_pb2.ReleaseRequest(state=self.name)),
            "GENERATION_READABLE",
        )
        self.cluster.start_server()
        self.cluster.wait_workers()
        self.assertEqual(self.get().phase, state_pb2.State.BUILDING)
        self.write_everywhere(self.name, ARRAYS, ["host-0"])
        for host in self.trainers:
            self.assertEqual(self.read(host, wait=True).state_uid, self.uid)
        self.controller.wait_ready(self.name, CALL_SECONDS)
        self.check_everywhere(self.name, 1, ARRAYS)

    def test_killed_before_it_learns_of_the_commit(self):
        self.write_everywhere(self.name, ARRAYS)
        self.cluster.workers[VICTIM].kill()  # before or after CommitWrite
        self.restart()
        self.assertEqual(len(self.read(VICTIM, wait=True).shards), 1)
        self.check_everywhere(self.name, 1, ARRAYS)

    def test_a_host_that_lost_its_committed_shards_gives_out_no_memory(self):
        self.write_everywhere(self.name, ARRAYS)
        self.read(VICTIM, wait=True)
        self.cluster.workers[VICTIM].kill()
        for folder in (self.cluster.buffers / VICTIM).glob("jobs*"):
            shutil.rmtree(folder)
        self.restart()
        self.wait_until("the host has lost its shards", lambda: VICTIM in self.get().lost_hosts)
        request = local_pb2.AllocateRequest(state=self.name, wait=True)
        self.assertEqual(
            self.refused(lambda: self.local(VICTIM).Allocate(request, timeout=CALL_SECONDS)),
            "STATE_COMMITTED",
        )
        self.assertNotEqual(self.get().phase, state_pb2.State.BUILDING)

    def test_a_process_of_an_earlier_world_seals_nothing(self):
        former = self.uid
        self.tearDown()
        self.create()
        request = local_pb2.AllocateRequest(state=self.name, wait=True, state_uid=self.uid)
        self.assertEqual(
            self.local("host-0").Allocate(request, timeout=CALL_SECONDS).state_uid, self.uid
        )
        late = local_pb2.SealRequest(state=self.name, state_uid=former)
        self.assertEqual(self.refused(self.local("host-0").Seal, late), "STATE_REPLACED")
        self.assertEqual(self.get().sealed_shards, 0)

    def test_a_trainer_learns_all_from_its_worker(self):
        host = self.local(VICTIM).GetHost(local_pb2.GetHostRequest(wait=True), timeout=CALL_SECONDS)
        self.assertEqual(
            (host.host, host.server_address, host.attached),
            (VICTIM, self.cluster.server_address, True),
        )
        self.assertEqual(
            [device.id for device in host.devices], list(self.cluster.device_ids(VICTIM))
        )
        self.assertTrue(host.cluster_uid)


if __name__ == "__main__":
    unittest.main()
