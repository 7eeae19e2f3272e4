# SPDX-License-Identifier: Apache-2.0
"""remesh.lending against a driver and a worker's socket that only pretend."""

import contextlib
import ctypes
import os
import pathlib
import shutil
import socket
import tempfile
import threading
import types
import unittest
from unittest import mock

from remesh import lending

MALLOC, POOL, MANAGED, HOST, VMM, OTHER = (0x10000 * (i + 1) for i in range(6))
SIZE = 0x8000


class FakeDriver:
    """One GPU with an allocation of each kind."""

    def __init__(self):
        self.called = []

    def _known(self, address):
        return next(
            (
                base
                for base in (MALLOC, POOL, MANAGED, HOST, VMM, OTHER)
                if base <= address < base + SIZE
            ),
            None,
        )

    def attribute(self, number, address, kind=ctypes.c_int):
        base = self._known(address)
        return {
            2: base and (1 if base == HOST else 2),
            8: int(base == MANAGED),
            9: 3,
            10: int(base == MALLOC),
            17: 1 if base == POOL else None,
        }[number]

    def allocation(self, address):
        return self._known(address), SIZE

    @contextlib.contextmanager
    def on(self, device):
        assert device == 3
        yield

    def uuid(self, device):
        return f"GPU-{device}"

    def try_call(self, name, *_):
        self.called.append(name)
        return 0

    def call(self, name, *arguments):
        self.called.append(name)
        if name == "cuIpcGetMemHandle":
            assert arguments[1].value == MALLOC
            ctypes.memmove(arguments[0], b"h" * 64, 64)
        elif name == "cuMemRetainAllocationHandle" and arguments[1].value != VMM:
            raise RuntimeError(f"{name}: CUDA_ERROR_INVALID_VALUE")
        elif name == "cuMemExportToShareableHandle":
            arguments[0]._obj.value = os.memfd_create("exported", os.MFD_CLOEXEC)


def torch_tensor(address, count, contiguous=True):
    return types.SimpleNamespace(
        data_ptr=lambda: address,
        numel=lambda: count // 2,
        element_size=lambda: 2,
        is_contiguous=lambda: contiguous,
    )


class MemoryTest(unittest.TestCase):
    def setUp(self):
        self.driver = FakeDriver()
        patch = mock.patch("remesh.device_memory.driver", return_value=self.driver)
        patch.start()
        self.addCleanup(patch.stop)

    def test_what_cuda_malloc_made_goes_by_its_handle(self):
        memory = lending.CudaTensorMemory(MALLOC + 0x100)
        self.assertEqual(memory.ipc, lending.Allocation(b"h" * 64, SIZE))
        self.assertEqual(
            (memory.bytes, memory.base_offset, memory.device_uuid, memory.descriptor),
            (SIZE, 0x100, "GPU-3", -1),
        )
        memory.synchronize()
        self.assertEqual(self.driver.called, ["cuIpcGetMemHandle", "cuCtxSynchronize"])

    def test_virtual_memory_goes_by_a_descriptor(self):
        memory = lending.CudaTensorMemory(VMM)
        self.assertIsNone(memory.ipc)
        os.fstat(memory.descriptor)
        self.assertEqual(self.driver.called[-1], "cuMemRelease")

    def test_any_other_is_refused_and_says_why(self):
        for address, why in (
            (POOL, "of a pool"),
            (MANAGED, "managed"),
            (HOST, "of the host"),
            (OTHER, "neither by cudaMalloc"),
            (8, "not CUDA's"),
        ):
            with self.assertRaisesRegex(ValueError, why):
                lending.CudaTensorMemory(address)

    def test_an_allocation_is_lent_once_for_all_its_tensors(self):
        first, second = torch_tensor(MALLOC + 0x1000, 64), types.SimpleNamespace(
            __cuda_array_interface__={
                "shape": (4, 4),
                "typestr": "<f4",
                "data": (MALLOC, False),
                "strides": None,
            }
        )
        other = types.SimpleNamespace(
            block_until_ready=lambda: None, unsafe_buffer_pointer=lambda: VMM + 0x20, nbytes=32
        )
        memories, places = lending.memories_of(
            [
                lending.TensorPlace("a", 7, first),
                lending.TensorPlace("b", 7, other),
                lending.TensorPlace("c", 7, second),
            ]
        )
        self.assertEqual([memory.base for memory in memories], [MALLOC, VMM])
        self.assertEqual(
            [(place.memory, place.offset) for place in places], [(0, 0x1000), (1, 0x20), (0, 0)]
        )
        self.assertEqual(memories[0].tensors, [first, second])

    def test_tensors_that_cannot_be_shards_are_refused(self):
        for tensor, why in (
            (torch_tensor(MALLOC, 64, contiguous=False), "contiguous"),
            (torch_tensor(MALLOC + 8, 64), "multiple of 16"),
            (torch_tensor(MALLOC + SIZE - 16, 64), "beyond the allocation"),
        ):
            with self.assertRaisesRegex(ValueError, why):
                lending.memories_of([lending.TensorPlace("a", 7, tensor)])


class LeaseTest(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        self.worker = str(folder / "socket")
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(self.server.close)
        self.server.bind(self.worker + ".handles")
        self.server.listen()

    def _lease(self, *answers):
        """The lease of a worker that gives these answers, and then its end of the connection."""
        ends = []

        def answer():
            ends.append(self.server.accept()[0])
            for one in answers:
                ends[0].recv(100)
                ends[0].send(one)

        thread = threading.Thread(target=answer)
        thread.start()
        self.addCleanup(thread.join)
        lease = lending.Lease(self.worker)
        self.addCleanup(lease.close)
        return lease, ends

    def test_it_is_held_until_the_worker_says_no_or_is_gone(self):
        lease, ends = self._lease(b"ok 0123", b"yes", b"no")
        self.assertEqual(lease.token, "0123")
        self.assertTrue(lease.held())
        self.assertFalse(lease.held())
        ends[0].close()
        self.server.close()
        self.assertFalse(lease.held())

    def test_a_worker_that_closed_the_connection_is_asked_by_another(self):
        lease, ends = self._lease(b"ok 0123")
        ends[0].close()

        def answer(said):
            with self.server.accept()[0] as end:
                self.assertEqual(end.recv(100), b"held 0123")
                if said:
                    end.send(said)

        for said in (b"yes", b"no", b""):
            thread = threading.Thread(target=answer, args=(said,))
            thread.start()
            if said:
                self.assertEqual(lease.held(), said == b"yes")
            else:
                with self.assertRaisesRegex(ConnectionError, "does not say"):
                    lease.held()
            thread.join()

    def test_a_late_answer_is_not_taken_for_that_to_the_next_question(self):
        lease, ends = self._lease(b"ok 0123")
        with self.assertRaises(TimeoutError):
            lease.held(0.01)
        ends[0].send(b"yes")

        def answer():
            with self.server.accept()[0] as end:
                self.assertEqual(end.recv(100), b"held 0123")
                end.send(b"no")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        self.assertFalse(lease.held())
        thread.join()

    def test_what_an_ended_lease_holds_is_asked_by_another_connection(self):
        lease, _ = self._lease(b"ok 0123")
        lease.close()

        def answer():
            with self.server.accept()[0] as end:
                self.assertEqual(end.recv(100), b"held 0123")
                end.send(b"yes")

        thread = threading.Thread(target=answer)
        thread.start()
        self.assertTrue(lease.held())
        thread.join()
        self.server.close()
        self.assertFalse(lease.held())

    def test_a_forked_child_has_lent_nothing(self):
        lease, _ = self._lease(b"ok 0123")
        child = os.fork()
        if child == 0:
            held = True
            try:
                held = lease.held()
            finally:
                os._exit(int(held))
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_a_worker_that_gives_none(self):
        with self.assertRaisesRegex(ConnectionError, "too many"):
            self._lease(b"there are too many leases")

    def test_a_forked_child_lets_go_of_it(self):
        lease, ends = self._lease(b"ok 0123")
        told, tells = os.pipe()
        child = os.fork()
        if child == 0:
            os.read(told, 1)
            os._exit(0)
        try:
            lease.close()
            ends[0].settimeout(20)
            self.assertEqual(ends[0].recv(10), b"")
        finally:
            os.write(tells, b"x")
            os.waitpid(child, 0)


if __name__ == "__main__":
    unittest.main()
