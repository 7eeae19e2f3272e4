# SPDX-License-Identifier: Apache-2.0
"""Trainers lend memory of their own as the source of a move; over files, and over simulated GPUs."""
import os
import signal
import subprocess
import sys
import unittest

import grpc
from remesh import errors, lending, oracle
from remesh.v1 import local_pb2, state_pb2

from harness import DEVICE, Array, ClusterTest, targets, text_sharding

ROWS = text_sharding("{devices=[4,1]<=[4]}", 0, 1, 2, 3)
COLUMNS = text_sharding("{devices=[1,4]<=[4]}", 3, 2, 1, 0)
ARRAYS = [Array("w", "f32", (64, 32)), Array("b", "bf16", (16, 8))]
BITS = {"f32": 32, "bf16": 16}


class SimMemory(lending.HostMemory):
    """What a trainer's memory on a simulated GPU is."""
    kind = "sim"

    def __init__(self, local: int):
        super().__init__(1 << 20)
        self.device_uuid = f"sim:{local}"


def lend_host(trainer, name, arrays, device_ids, on_devices=False):
    """Lends a host's shards of `arrays`, by rows over four devices, with what the oracle says in them. Returns the memories."""
    memories = [SimMemory(local) for local, _ in enumerate(device_ids)] if on_devices else [lending.HostMemory(1 << 20)]
    places, offset = [], 0
    for array in arrays:
        rows, columns = array.shape
        for local, device in enumerate(device_ids):
            memory = local if on_devices else 0
            low, high = [rows // 4 * device, 0], [rows // 4 * (device + 1), columns]
            count = rows // 4 * columns * BITS[array.element_type] // 8
            oracle.fill(memories[memory].array(offset, count), array.name, array.element_type, array.shape, low, high, array.salt)
            places.append(lending.Place(array.name, device, memory, offset))
            offset += (count + 15) // 16 * 16
    sealed = trainer.lend(name, memories, places)
    assert sealed.sealed_shards == sealed.total_shards == len(places), sealed
    return memories


class LendTest(ClusterTest):
    HOSTS = 2

    def test_lent_memory_is_the_source_of_a_move_and_then_free(self):
        name = self._create("lent")
        memories = self._lend_everywhere(name)
        self.controller.wait_ready(name, 20)
        self.move(name, 1, targets(ARRAYS, COLUMNS))
        self.check_everywhere(name, 2, ARRAYS)
        self.wait_until("the workers have let go of it", lambda: not any(self._maps(host) for host in self.cluster.host_names))
        # It is the trainers' again.
        for memory in memories:
            memory.array(0, 100)[:] = 0
        self.check_everywhere(name, 2, ARRAYS)
        self._delete(name)

    @unittest.skipUnless(DEVICE == "sim", "no memory of devices here")
    def test_lent_memory_of_devices(self):
        name = self._create("devices")
        for host in self.cluster.host_names:
            lend_host(self.trainers[host], name, ARRAYS, self.cluster.device_ids(host), on_devices=True)
        self.controller.wait_ready(name, 20)
        self.move(name, 1, targets(ARRAYS, COLUMNS))
        self.check_everywhere(name, 2, ARRAYS)
        self._delete(name)

    def test_a_trainer_that_dies_after_it_lent_costs_nothing(self):
        name = self._create("orphan")
        lend_host(self.trainers["host-0"], name, ARRAYS, self.cluster.device_ids("host-0"))
        lender = subprocess.run([sys.executable, __file__, "lend", self.cluster.server_address, self.cluster.worker_socket("host-1"), name,
                                 *map(str, self.cluster.device_ids("host-1"))], timeout=60, check=False)
        self.assertEqual(lender.returncode, -signal.SIGKILL)
        self.controller.wait_ready(name, 20)
        self.move(name, 1, targets(ARRAYS, COLUMNS))
        self.check_everywhere(name, 2, ARRAYS)
        self._delete(name)

    def test_a_lender_takes_it_back_and_lends_again(self):
        name, arrays = "jobs/lend/states/dirty", [Array("w", "f32", (64, 32))]
        self.controller.create_state(self.state_of(name, arrays, ROWS))
        memories = [lend_host(self.trainers[host], name, arrays, self.cluster.device_ids(host)) for host in self.cluster.host_names]
        self.controller.wait_ready(name, 20)
        self.trainers["host-0"].unseal(name)
        self.wait_until("the state waits", lambda: self._state(name).phase == state_pb2.State.BUILDING)
        memories[0][0].array(0, 4)[:] ^= 0xFF
        with self.assertRaises(grpc.RpcError) as refusal:
            self.controller.start_reshard(name, 1, targets(arrays, COLUMNS))
        self.assertEqual(errors.error_info(refusal.exception).reason, "STATE_NOT_READY")
        lend_host(self.trainers["host-0"], name, arrays, self.cluster.device_ids("host-0"))
        self.controller.wait_ready(name, 20)
        self.move(name, 1, targets(arrays, COLUMNS))
        self.check_everywhere(name, 2, arrays)
        self._delete(name)

    def test_a_worker_that_is_restarted_asks_to_be_lent_again(self):
        name = self._create("again")
        self._lend_everywhere(name)
        self.controller.wait_ready(name, 20)
        self.cluster.workers["host-1"].kill()
        self.cluster.start_worker("host-1")
        self.wait_until("the state waits", lambda: self._state(name).phase == state_pb2.State.BUILDING)
        lend_host(self.trainers["host-1"], name, ARRAYS, self.cluster.device_ids("host-1"))
        self.controller.wait_ready(name, 20)
        self.move(name, 1, targets(ARRAYS, COLUMNS))
        self.check_everywhere(name, 2, ARRAYS)
        self._delete(name)

    def test_readers_are_told(self):
        name = self._create("read")
        self._lend_everywhere(name)
        self.controller.wait_ready(name, 20)
        with self.assertRaises(grpc.RpcError) as refusal:
            self.controller.local.GetShards(local_pb2.GetShardsRequest(state=name, generation=1), timeout=20)
        self.assertEqual(errors.error_info(refusal.exception).reason, "SHARDS_LENT")
        self._delete(name)

    # ---- steps ----

    def _create(self, name: str) -> str:
        name = f"jobs/lend/states/{name}"
        self.controller.create_state(self.state_of(name, ARRAYS, ROWS))
        return name

    def _lend_everywhere(self, name: str):
        return [memory for host in self.cluster.host_names
                for memory in lend_host(self.trainers[host], name, ARRAYS, self.cluster.device_ids(host))]

    def _maps(self, host: str) -> bool:
        """Whether the worker has any trainer's memory mapped."""
        with open(f"/proc/{self.cluster.workers[host].popen.pid}/maps", encoding="utf8") as maps:
            return "remesh-trainer" in maps.read()

    def _state(self, name: str) -> state_pb2.State:
        return self.controller.states.GetState(state_pb2.GetStateRequest(name=name), timeout=20)

    def _delete(self, name: str) -> None:
        self.controller.states.DeleteState(state_pb2.DeleteStateRequest(name=name), timeout=20)


def _lend_and_die(server: str, worker_socket: str, name: str, *device_ids: str) -> None:
    from remesh.trainer import Trainer  # pylint: disable=import-outside-toplevel
    lend_host(Trainer(server, worker_socket), name, ARRAYS, [int(device) for device in device_ids])
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1:2] == ["lend"]:
        _lend_and_die(*sys.argv[2:])
    unittest.main()
