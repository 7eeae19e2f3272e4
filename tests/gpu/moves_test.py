# SPDX-License-Identifier: Apache-2.0
"""Two workers on one GPU, which move a state by the real NCCL. Needs a GPU, its driver and NCCL:
scripts/gpu-check.

REMESH_BIN_DIR and PYTHONPATH as for the end-to-end tests; REMESH_NCCL_LIBRARY: where NCCL is, if
the linker does not know.
"""

import ctypes
import os
import sys
import time
import types
import unittest

import numpy as np

os.environ["REMESH_TEST_DEVICE"] = "cuda"

from remesh import device_memory, lending, oracle  # noqa: E402
from remesh.elements import bit_width  # noqa: E402
from remesh.trainer import ExecutionFailed, Trainer  # noqa: E402
from remesh.v1 import local_pb2, plan_pb2, reshard_pb2, sharding_pb2, state_pb2  # noqa: E402

from harness import Array, ClusterTest, salted, targets, text_sharding  # noqa: E402

ROWS = text_sharding("{devices=[2,1]<=[2]}", 0, 1)
COLUMNS = text_sharding("{devices=[1,2]<=[2]}", 1, 0)
# Every width, rows that begin inside bytes, and many small arrays.
KINDS = [
    *salted("narrow", "s4", (37, 51)),
    *salted("bits", "u2", (5, 9)),
    Array("b", "bf16", (61, 33)),
    Array("w", "f32", (257, 129)),
    Array("d", "f64", (16, 16)),
    *(Array(f"small{i}", "f32", (8, 6)) for i in range(300)),
]
LARGE = [Array(f"w{i}", "f32", (4096, 4096)) for i in range(12)]  # 805 MB
SLOW = plan_pb2.PlanOptions(window_bytes=1 << 20)


class GpuMovesTest(ClusterTest):
    """Shards are files, pinned while they move."""

    HOSTS = 2
    DEVICES_PER_HOST = 1
    BUFFER_BYTES = 3 << 30
    DEVICE_BUFFERS = "host"

    def test_every_element_arrives(self):
        name = "jobs/test/states/kinds"
        self.create_and_write(name, KINDS, ROWS)
        for generation, sharding in ((1, COLUMNS), (2, ROWS), (3, COLUMNS)):
            self.move(name, generation, targets(KINDS, sharding))
            self.check_everywhere(name, generation + 1, KINDS)

    def test_many_megabytes(self):
        name = "jobs/test/states/large"
        self.create_and_write(name, LARGE, ROWS)
        for generation, sharding in ((1, COLUMNS), (2, ROWS), (3, COLUMNS), (4, ROWS)):
            started = time.monotonic()
            ended = self.controller.wait_execution(
                self.controller.start_reshard(name, generation, targets(LARGE, sharding)).name
            )
            transfer = (
                ended.transfer_end_time.ToNanoseconds() - ended.transfer_start_time.ToNanoseconds()
            )
            print(
                f"805 MB, move {generation}: {time.monotonic() - started:.2f} s, transfer "
                f"{transfer / 1e9:.2f} s",
                file=sys.stderr,
            )
        self.check_everywhere(name, 5, LARGE)

    def test_cancelled_with_kernels_in_flight(self):
        name = "jobs/test/states/cancelled"
        execution = self._start_slow(name)
        self.controller.reshards.CancelExecution(
            reshard_pb2.CancelExecutionRequest(name=execution), timeout=20
        )
        with self.assertRaises(ExecutionFailed) as failure:
            self.controller.wait_execution(execution, timeout_seconds=90)
        self.assertEqual(failure.exception.execution.phase, reshard_pb2.Execution.CANCELLED)
        self._goes_on(name)

    def test_killed_with_kernels_in_flight(self):
        name, victim = "jobs/test/states/killed", "host-1"
        execution = self._start_slow(name)
        self.cluster.workers[victim].kill()
        with self.assertRaises(ExecutionFailed) as failure:
            self.controller.wait_execution(execution, timeout_seconds=120)
        self.assertIn(victim, str(failure.exception))
        self.trainers.pop(victim).close()
        self.cluster.start_worker(victim)
        self.trainers[victim] = Trainer(
            self.cluster.server_address, self.cluster.worker_socket(victim)
        )
        self.wait_until(
            "the state is READY again", lambda: self._state(name).phase == state_pb2.State.READY
        )
        self._goes_on(name)

    # ---- what tests share ----

    def _start_slow(self, name):
        self.create_and_write(name, LARGE[:6], ROWS)
        started = self.controller.start_reshard(name, 1, targets(LARGE[:6], COLUMNS), SLOW)
        self.wait_until(
            "bytes move",
            lambda: self._execution(started.name).phase == reshard_pb2.Execution.TRANSFERRING,
        )
        time.sleep(0.5)
        return started.name

    def _goes_on(self, name):
        self.check_everywhere(name, 1, LARGE[:6])
        self.move(name, 1, targets(LARGE[:6], COLUMNS))
        self.check_everywhere(name, 2, LARGE[:6])

    def _execution(self, name):
        return self.controller.reshards.GetExecution(
            reshard_pb2.GetExecutionRequest(name=name), timeout=20
        )

    def _state(self, name):
        return self.controller.states.GetState(state_pb2.GetStateRequest(name=name), timeout=20)


class GpuBuffersTest(GpuMovesTest):
    """The same with shards in the GPU's own memory; what a killed worker had there is with the
    keeper."""

    DEVICE_BUFFERS = "device"

    def test_worker_killed_with_the_trainer_absent(self):
        name = "jobs/test/states/kept"
        self.create_and_write(name, KINDS, ROWS)
        shard = self.controller.local.GetShards(
            local_pb2.GetShardsRequest(state=name, generation=1), timeout=20
        ).shards[0]
        self.assertEqual(shard.device_memory.kind, "cuda")
        self.assertRegex(shard.device_memory.device_uuid, "^GPU-")
        for host in self.cluster.host_names:
            self.trainers.pop(host).close()
            self.cluster.workers[host].kill()
        for host in self.cluster.host_names:
            self.cluster.start_worker(host)
            self.trainers[host] = Trainer(
                self.cluster.server_address, self.cluster.worker_socket(host)
            )
        type(self).controller = self.trainers["host-0"]
        self.wait_until(
            "the state is READY again", lambda: self._state(name).phase == state_pb2.State.READY
        )
        self.check_everywhere(name, 1, KINDS)
        self.move(name, 1, targets(KINDS, COLUMNS))
        self.check_everywhere(name, 2, KINDS)

    def test_a_trainer_keeps_what_it_has_mapped(self):
        name = "jobs/test/states/mapped"
        self.create_and_write(name, KINDS, ROWS)
        mapped = self.controller.read(name, 1)
        before = [shard.bytes.read() for shard in mapped]
        self.move(name, 1, targets(KINDS, COLUMNS))
        self.move(name, 2, targets(KINDS, ROWS))
        for shard, bytes_before in zip(mapped, before):
            self.assertTrue((shard.bytes.read() == bytes_before).all())

    def test_between_the_gpu_and_the_host(self):
        name, to_host = "jobs/test/states/kinds-of-memory", sharding_pb2.Sharding()
        to_host.CopyFrom(COLUMNS)
        to_host.memory_kind = "pinned_host"
        self.create_and_write(name, KINDS, ROWS)
        self.move(name, 1, targets(KINDS, to_host))
        self.check_everywhere(name, 2, KINDS)
        self.move(name, 2, targets(KINDS, ROWS))
        self.check_everywhere(name, 3, KINDS)

    def test_lent_memory(self):
        """This process's own: by a descriptor, from CUDA's virtual memory management."""
        name, arrays = "jobs/test/states/lent", [Array("w", "f32", (256, 128))]
        self.controller.create_state(self.state_of(name, arrays, ROWS))
        lent = {host: CudaShareable(1 << 20) for host in self.cluster.host_names}
        for host, memory in lent.items():
            places = self._places(arrays, self.cluster.device_ids(host)[0], memory)
            memories, _ = lending.memories_of(places)
            self.assertEqual([one.ipc for one in memories], [None])
            self.trainers[host].lend_tensors(name, places)
        self.controller.wait_ready(name, 20)
        self.move(name, 1, targets(arrays, COLUMNS))
        self.check_everywhere(name, 2, arrays)
        for memory in lent.values():
            memory.free()

    def test_a_workers_buffer_is_refused(self):
        """CUDA exports no memory that another process exported."""
        name, arrays = "jobs/test/states/lender", [Array("w", "f32", (256, 128))]
        self.create_and_write(name, arrays, ROWS)
        shard = self.controller.read(name, 1)[0]
        with self.assertRaisesRegex(ValueError, "another process shares it"):
            lending.CudaTensorMemory(shard.bytes.pointer)

    def test_lent_memory_of_cuda_malloc(self):
        """This process's own: by a handle of the legacy IPC, which the workers open once for both
        arrays, and close."""
        name, arrays = "jobs/test/states/malloc", [
            Array("w", "f32", (256, 128)),
            Array("b", "bf16", (64, 32)),
        ]
        self.controller.create_state(self.state_of(name, arrays, ROWS))
        lent = {host: CudaMallocked(1 << 20) for host in self.cluster.host_names}
        for host, memory in lent.items():
            places = self._places(arrays, self.cluster.device_ids(host)[0], memory)
            memories, _ = lending.memories_of(places)
            self.assertEqual(len(memories), 1)
            self.assertEqual(len(memories[0].ipc.handle), 64)
            self.trainers[host].lend_tensors(name, places)
        self.controller.wait_ready(name, 20)
        self.move(name, 1, targets(arrays, COLUMNS))
        for host, memory in lent.items():
            self.trainers[host].wait_returned(name)
            memory.free()
        self.check_everywhere(name, 2, arrays)
        # The same addresses, perhaps, and nothing of what was there.
        self.move(name, 2, targets(arrays, ROWS))
        self.check_everywhere(name, 3, arrays)

    def _places(self, arrays, device, memory):
        """Fills rows of the arrays, those of one device, into the memory."""
        places, offset = [], 4096
        for array in arrays:
            rows, columns = array.shape
            content = np.zeros(rows // 2 * columns * bit_width(array.element_type) // 8, np.uint8)
            oracle.fill(
                content,
                array.name,
                array.element_type,
                array.shape,
                [rows // 2 * device, 0],
                [rows // 2 * (device + 1), columns],
                array.salt,
            )
            places.append(lending.TensorPlace(array.name, device, memory.write(offset, content)))
            offset += content.size + 256
        return places

    def test_memory_of_a_pool_is_refused(self):
        driver = device_memory.driver()
        driver.use(0)
        address = ctypes.c_ulonglong()
        driver.call("cuMemAllocAsync", ctypes.byref(address), ctypes.c_size_t(4096), None)
        driver.call("cuCtxSynchronize")
        with self.assertRaisesRegex(ValueError, "of a pool"):
            lending.CudaTensorMemory(address.value)
        driver.call("cuMemFreeAsync", address, None)


class CudaMemory:
    """Memory of this process on the GPU, at _address."""

    def __init__(self):
        self._driver = device_memory.driver()
        self._driver.use(0)
        self._address = ctypes.c_ulonglong()

    def write(self, offset: int, content: np.ndarray):
        """Copies it there. Returns the tensor that it is."""
        address = self._address.value + offset
        self._driver.call(
            "cuMemcpyHtoD_v2",
            ctypes.c_ulonglong(address),
            ctypes.c_void_p(content.ctypes.data),
            ctypes.c_size_t(content.size),
        )
        return types.SimpleNamespace(
            __cuda_array_interface__={
                "version": 3,
                "shape": (content.size,),
                "typestr": "|u1",
                "data": (address, False),
                "strides": None,
            }
        )


class CudaMallocked(CudaMemory):
    """What cudaMalloc makes: cuMemAlloc is what it calls."""

    def __init__(self, count: int):
        super().__init__()
        self._driver.call("cuMemAlloc_v2", ctypes.byref(self._address), ctypes.c_size_t(count))

    def free(self) -> None:
        self._driver.call("cuMemFree_v2", self._address)


class CudaShareable(CudaMemory):
    """What CUDA's virtual memory management makes to be shared by a descriptor, as torch's
    expandable segments are."""

    def __init__(self, count: int):
        super().__init__()
        granularity = self._driver.granularity(0)
        self._bytes = ctypes.c_size_t((count + granularity - 1) // granularity * granularity)
        self._handle, zero = ctypes.c_ulonglong(), ctypes.c_ulonglong(0)
        properties, access = device_memory.shareable(0), device_memory.access(0)
        self._driver.call(
            "cuMemCreate", ctypes.byref(self._handle), self._bytes, ctypes.byref(properties), zero
        )
        self._driver.call(
            "cuMemAddressReserve",
            ctypes.byref(self._address),
            self._bytes,
            ctypes.c_size_t(0),
            zero,
            zero,
        )
        self._driver.call(
            "cuMemMap", self._address, self._bytes, ctypes.c_size_t(0), self._handle, zero
        )
        self._driver.call(
            "cuMemSetAccess", self._address, self._bytes, ctypes.byref(access), ctypes.c_size_t(1)
        )

    def free(self) -> None:
        self._driver.call("cuMemUnmap", self._address, self._bytes)
        self._driver.call("cuMemAddressFree", self._address, self._bytes)
        self._driver.call("cuMemRelease", self._handle)


if __name__ == "__main__":
    unittest.main(verbosity=2)
