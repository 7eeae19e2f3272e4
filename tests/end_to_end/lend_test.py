# SPDX-License-Identifier: Apache-2.0
"""Trainers lend memory of their own as the source of a move; over files, and over simulated
GPUs."""

import contextlib
import dataclasses
import os
import signal
import struct
import subprocess
import sys
import time
import unittest

import grpc
from remesh import errors, lending, oracle
from remesh.trainer import ExecutionFailed, Trainer
from remesh.v1 import local_pb2, plan_pb2, reshard_pb2, state_pb2

from harness import DEVICE, Array, ClusterTest, targets, text_sharding

ROWS = text_sharding("{devices=[4,1]<=[4]}", 0, 1, 2, 3)
COLUMNS = text_sharding("{devices=[1,4]<=[4]}", 3, 2, 1, 0)
ARRAYS = [Array("w", "f32", (64, 32)), Array("b", "bf16", (16, 8))]
BITS = {"f32": 32, "bf16": 16}
# Large enough, in windows small enough, that a move takes a while.
LARGE = [Array(f"w{i}", "f32", (1024, 4096)) for i in range(4)]
SLOW = plan_pb2.PlanOptions(window_bytes=8 << 10)


class SimMemory(lending.HostMemory):
    """What a trainer's memory on a simulated GPU is."""

    kind = "sim"

    def __init__(self, local: int):
        super().__init__(1 << 20)
        self.device_uuid = f"sim:{local}"


class SimAllocation(lending.HostMemory):
    """What cudaMalloc makes, on a simulated GPU: it ends with this process. Its handle:
    worker/device/testing/sim_memory.h."""

    kind = "sim"

    def __init__(self, local: int, count: int = 1 << 20):
        super().__init__(count)
        self.device_uuid = f"sim:{local}"
        inode = os.fstat(self.descriptor).st_ino
        handle = struct.pack(
            "=8sQQQ32s", b"sim-ipc1", os.getpid(), self.descriptor, inode, self.device_uuid.encode()
        )
        self.ipc = lending.Allocation(handle, count)

    def part(self, offset: int, count: int) -> "SimPart":
        return SimPart(self, offset, count)


class SimPart:
    """Some bytes of an allocation, lent as a memory of their own."""

    kind = "sim"

    def __init__(self, whole: SimAllocation, offset: int, count: int):
        self.device_uuid, self.bytes, self._whole = whole.device_uuid, count, whole
        self.ipc = dataclasses.replace(whole.ipc, offset=offset)

    def array(self, offset: int, count: int):
        return self._whole.array(self.ipc.offset + offset, count)


def lend_host(trainer, name, arrays, device_ids, make=None, write=""):
    """Lends a host's shards of `arrays`, by rows over four devices, with what the oracle says in
    them. make: of a local device's memory; None: the host's for all. Returns the memories."""
    memories = (
        [make(local) for local, _ in enumerate(device_ids)]
        if make
        else [lending.HostMemory(1 << 20)]
    )
    places, offset = [], 0
    for array in arrays:
        rows, columns = array.shape
        for local, device in enumerate(device_ids):
            memory = local if make else 0
            low, high = [rows // 4 * device, 0], [rows // 4 * (device + 1), columns]
            count = rows // 4 * columns * BITS[array.element_type] // 8
            oracle.fill(
                memories[memory].array(offset, count),
                array.name,
                array.element_type,
                array.shape,
                low,
                high,
                array.salt,
            )
            places.append(lending.Place(array.name, device, memory, offset))
            offset += (count + 15) // 16 * 16
    sealed = trainer.lend(name, memories, places, write=write)
    assert sealed.sealed_shards == sealed.total_shards == len(places), sealed
    return memories


class LendSteps(ClusterTest):
    """What tests of lending share."""

    HOSTS = 2

    def _create(self, name: str, arrays=None) -> str:
        name = f"jobs/lend/states/{name}"
        self.controller.create_state(self.state_of(name, arrays or ARRAYS, ROWS))
        return name

    def _lend(self, name: str, host: str, make=None, arrays=None, write: str = ""):
        return lend_host(
            self.trainers[host], name, arrays or ARRAYS, self.cluster.device_ids(host), make, write
        )

    def _lend_everywhere(self, name: str, make=None):
        return [
            memory for host in self.cluster.host_names for memory in self._lend(name, host, make)
        ]

    def _maps(self, host: str) -> int:
        """How many memories of trainers the worker has mapped."""
        with open(f"/proc/{self.cluster.workers[host].popen.pid}/maps", encoding="utf8") as maps:
            return maps.read().count("remesh-trainer")

    def _state(self, name: str) -> state_pb2.State:
        return self.controller.states.GetState(state_pb2.GetStateRequest(name=name), timeout=20)

    def _delete(self, name: str) -> None:
        self.controller.states.DeleteState(state_pb2.DeleteStateRequest(name=name), timeout=20)


class LendTest(LendSteps):
    def test_lent_memory_is_the_source_of_a_move_and_then_free(self):
        name = self._create("lent")
        memories = self._lend_everywhere(name)
        self.controller.wait_ready(name, 20)
        self.move(name, 1, targets(ARRAYS, COLUMNS))
        self.check_everywhere(name, 2, ARRAYS)
        self.wait_until(
            "the workers have let go of it",
            lambda: not any(self._maps(host) for host in self.cluster.host_names),
        )
        # It is the trainers' again.
        for memory in memories:
            memory.array(0, 100)[:] = 0
        self.check_everywhere(name, 2, ARRAYS)
        self._delete(name)

    @unittest.skipUnless(DEVICE == "sim", "no memory of devices here")
    def test_lent_memory_of_devices(self):
        name = self._create("devices")
        for host in self.cluster.host_names:
            lend_host(self.trainers[host], name, ARRAYS, self.cluster.device_ids(host), SimMemory)
        self.controller.wait_ready(name, 20)
        self.move(name, 1, targets(ARRAYS, COLUMNS))
        self.check_everywhere(name, 2, ARRAYS)
        self._delete(name)

    def test_a_trainer_that_dies_after_it_lent_costs_nothing(self):
        name = self._create("orphan")
        lend_host(self.trainers["host-0"], name, ARRAYS, self.cluster.device_ids("host-0"))
        lender = subprocess.run(
            [
                sys.executable,
                __file__,
                "lend",
                self.cluster.server_address,
                self.cluster.worker_socket("host-1"),
                name,
                *map(str, self.cluster.device_ids("host-1")),
            ],
            timeout=60,
            check=False,
        )
        self.assertEqual(lender.returncode, -signal.SIGKILL)
        self.controller.wait_ready(name, 20)
        self.move(name, 1, targets(ARRAYS, COLUMNS))
        self.check_everywhere(name, 2, ARRAYS)
        self._delete(name)

    def test_a_lender_takes_it_back_and_lends_again(self):
        name, arrays = "jobs/lend/states/dirty", [Array("w", "f32", (64, 32))]
        self.controller.create_state(self.state_of(name, arrays, ROWS))
        memories = [
            lend_host(self.trainers[host], name, arrays, self.cluster.device_ids(host))
            for host in self.cluster.host_names
        ]
        self.controller.wait_ready(name, 20)
        self.trainers["host-0"].unseal(name, write="1")
        self.wait_until(
            "the state waits", lambda: self._state(name).phase == state_pb2.State.BUILDING
        )
        memories[0][0].array(0, 4)[:] ^= 0xFF
        with self.assertRaises(grpc.RpcError) as refusal:
            self.controller.start_reshard(name, 1, targets(arrays, COLUMNS))
        self.assertEqual(errors.error_info(refusal.exception).reason, "STATE_NOT_READY")
        lend_host(
            self.trainers["host-0"], name, arrays, self.cluster.device_ids("host-0"), write="1"
        )
        self.trainers["host-1"].seal(name, write="1")  # joins it with what it holds
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
        self.wait_until(
            "the state waits", lambda: self._state(name).phase == state_pb2.State.BUILDING
        )
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
            self.controller.local.GetShards(
                local_pb2.GetShardsRequest(state=name, generation=1), timeout=20
            )
        self.assertEqual(errors.error_info(refusal.exception).reason, "SHARDS_LENT")
        self._delete(name)


@unittest.skipUnless(DEVICE == "sim", "no memory of devices here")
class AllocationTest(LendSteps):
    """Memory that is there no longer than its trainer: what cudaMalloc makes."""

    BUFFER_BYTES = 1 << 30

    def test_what_cuda_malloc_makes_is_the_source_of_a_move_and_then_closed(self):
        name = self._create("malloc")
        memories = self._lend_everywhere(name, SimAllocation)
        self.controller.wait_ready(name, 20)
        self.move(name, 1, targets(ARRAYS, COLUMNS))
        for trainer in self.trainers.values():
            trainer.wait_returned(name)
        self.assertFalse(any(self._maps(host) for host in self.cluster.host_names))
        for memory in memories:
            memory.array(0, 100)[:] = 0
        self.check_everywhere(name, 2, ARRAYS)
        self._delete(name)

    def test_an_allocation_is_lent_in_two_parts(self):
        name = self._create("parts")
        wholes = [SimAllocation(0) for _ in self.cluster.host_names]
        for host, whole in zip(self.cluster.host_names, wholes):
            self._lend_parts(
                name, host, [whole.part(offset, 1 << 18) for offset in (1 << 18, 3 << 18)]
            )
        self.controller.wait_ready(name, 20)
        for host in self.cluster.host_names:
            self.assertEqual(self._maps(host), 2, "an allocation is mapped once")
        self.move(name, 1, targets(ARRAYS, COLUMNS))
        self.check_everywhere(name, 2, ARRAYS)
        self._delete(name)

    def test_taken_back_and_lent_again(self):
        name = self._create("back")
        self._lend_everywhere(name, SimAllocation)
        self.controller.wait_ready(name, 20)
        self.trainers["host-0"].unseal(name, write="1")
        self.assertFalse(self._maps("host-0"))
        self.wait_until(
            "the state waits", lambda: self._state(name).phase == state_pb2.State.BUILDING
        )
        self._lend(name, "host-0", SimAllocation, write="1")
        self.trainers["host-1"].seal(name, write="1")  # joins it with what it holds
        self.controller.wait_ready(name, 20)
        self.move(name, 1, targets(ARRAYS, COLUMNS))
        self.check_everywhere(name, 2, ARRAYS)
        self._delete(name)

    def test_a_lender_that_dies_before_a_move(self):
        name = self._create("before")
        self._lend(name, "host-0", SimAllocation)
        with self._lender(name, "host-1", "small") as lender:
            self.controller.wait_ready(name, 20)
            lender.kill()
        # A child that it forked lives on, and has nothing of it.
        self.wait_until(
            "the state waits", lambda: self._state(name).phase == state_pb2.State.BUILDING
        )
        self.wait_until("the worker has closed it", lambda: not self._maps("host-1"))
        with self.assertRaises(grpc.RpcError) as refusal:
            self.controller.start_reshard(name, 1, targets(ARRAYS, COLUMNS))
        self.assertEqual(errors.error_info(refusal.exception).reason, "STATE_NOT_READY")
        self._lend(name, "host-1", SimAllocation)
        self.controller.wait_ready(name, 20)
        self.move(name, 1, targets(ARRAYS, COLUMNS))
        self.check_everywhere(name, 2, ARRAYS)
        self._delete(name)

    def test_a_lender_that_dies_during_a_move(self):
        name = self._create("during", LARGE)
        self._lend(name, "host-0", large_allocation, LARGE)
        with self._lender(name, "host-1", "large") as lender:
            self.controller.wait_ready(name, 20)
            execution = self.controller.start_reshard(name, 1, targets(LARGE, COLUMNS), SLOW).name
            self.wait_until(
                "bytes move",
                lambda: any(host.windows_done > 2 for host in self._execution(execution).hosts),
            )
            lender.kill()
        with self.assertRaises(ExecutionFailed) as failure:
            self.controller.wait_execution(execution, 60)
        self.assertEqual(
            errors.info_of(failure.exception.execution.error).reason,
            "SOURCE_LOST",
            failure.exception,
        )
        self.wait_until(
            "the state waits", lambda: self._state(name).phase == state_pb2.State.BUILDING
        )
        self.wait_until("the worker has closed it", lambda: not self._maps("host-1"))
        self._lend(name, "host-1", large_allocation, LARGE)
        self.controller.wait_ready(name, 20)
        self.move(name, 1, targets(LARGE, COLUMNS))
        self.check_everywhere(name, 2, LARGE)
        self._delete(name)

    def test_forged_handles_are_refused_and_change_nothing(self):
        name = self._create("forged")
        for forge in (
            lambda ipc: dataclasses.replace(ipc, handle=bytes(64)),
            lambda ipc: dataclasses.replace(ipc, handle=ipc.handle[:63]),
            lambda ipc: dataclasses.replace(ipc, handle=ipc.handle[:24] + b"\1" + ipc.handle[25:]),
            lambda ipc: dataclasses.replace(ipc, bytes=1 << 40),
            lambda ipc: dataclasses.replace(ipc, offset=1 << 62),
        ):

            def make(local, forge=forge):
                memory = SimAllocation(local)
                memory.ipc = forge(memory.ipc)
                return memory

            with self.assertRaises(grpc.RpcError) as refusal:
                self._lend(name, "host-0", make)
            self.assertEqual(refusal.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertRegex(refusal.exception.details(), r"memories\[0\].*ipc")
        self.assertFalse(self._maps("host-0"))
        self._lend_everywhere(name, SimAllocation)
        self.controller.wait_ready(name, 20)
        self._delete(name)

    def _lend_parts(self, name: str, host: str, parts) -> None:
        """The first device's arrays in a part each, the second's in memory of its own."""
        second, places = SimAllocation(1), []
        for local, device in enumerate(self.cluster.device_ids(host)):
            for index, array in enumerate(ARRAYS):
                rows, columns = array.shape
                count = rows // 4 * columns * BITS[array.element_type] // 8
                memory, number, offset = (
                    (parts[index], index, 64) if local == 0 else (second, 2, index << 16)
                )
                oracle.fill(
                    memory.array(offset, count),
                    array.name,
                    array.element_type,
                    array.shape,
                    [rows // 4 * device, 0],
                    [rows // 4 * (device + 1), columns],
                    array.salt,
                )
                places.append(lending.Place(array.name, device, number, offset))
        self.trainers[host].lend(name, [*parts, second], places)

    @contextlib.contextmanager
    def _lender(self, name: str, host: str, size: str):
        """Another process that lends a host's shards, and then waits."""
        command = [
            sys.executable,
            __file__,
            "lend-" + size,
            self.cluster.server_address,
            self.cluster.worker_socket(host),
            name,
            *map(str, self.cluster.device_ids(host)),
        ]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as lender:
            try:
                self.assertEqual(lender.stdout.readline(), b"lent\n")
                yield lender
            finally:
                lender.kill()

    def _execution(self, name: str) -> reshard_pb2.Execution:
        return self.controller.reshards.GetExecution(
            reshard_pb2.GetExecutionRequest(name=name), timeout=20
        )


def large_allocation(local: int) -> SimAllocation:
    return SimAllocation(local, 64 << 20)


def _lend_and_wait(size: str, server: str, worker_socket: str, name: str, *device_ids: str) -> None:
    arrays, make = (LARGE, large_allocation) if size == "lend-large" else (ARRAYS, SimAllocation)
    trainer = Trainer(server, worker_socket)
    lend_host(trainer, name, arrays, [int(device) for device in device_ids], make)
    if os.fork() == 0:
        os.closerange(0, 3)
        time.sleep(10)
        os._exit(0)  # pylint: disable=protected-access
    print("lent", flush=True)
    sys.stdin.read()


def _lend_and_die(server: str, worker_socket: str, name: str, *device_ids: str) -> None:
    lend_host(Trainer(server, worker_socket), name, ARRAYS, [int(device) for device in device_ids])
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1:2] == ["lend"]:
        _lend_and_die(*sys.argv[2:])
    if sys.argv[1:2] in (["lend-small"], ["lend-large"]):
        _lend_and_wait(*sys.argv[1:])
        sys.exit(0)
    unittest.main()
