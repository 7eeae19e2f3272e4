# SPDX-License-Identifier: Apache-2.0
"""Lends a trainer's own memory as the source of a reshard, so that a state need not exist twice on
its host.

    # Memory that can be lent, or CudaTensorMemory(tensor.data_ptr(), ...).
    memory = HostMemory(1 << 30)
    weights = memory.array(0, 4096)  # the trainer's array, in that memory
    trainer.lend(state, [memory], [Place("w", device=0, memory=0, offset=0)])
    # The same for tensors on GPUs, wherever they are.
    trainer.lend_tensors(state, [TensorPlace("w", device=0, tensor=weights)])

From then on no process may write into the memory until its generation is retired, which
trainer.wait_returned() waits for, or until trainer.unseal() takes the memory back. Memory of
cudaMalloc exists no longer than its process: when the process ends, the state loses it (Lease).
"""

import ctypes
import dataclasses
import fcntl
import math
import mmap
import os
import weakref
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from remesh import device_memory
from remesh.v1 import sharding_pb2

_F_ADD_SEALS, _F_SEAL_SHRINK = (
    1033,
    2,
)  # fcntl.h; Python has these names from 3.8 on, but not on every platform


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a shard of this host lies. It is dense and row-major over its box; elements smaller
    than a byte are packed."""

    array: str
    device: int  # id in the state's numbering
    memory: int  # index into the lent memories
    offset: int  # bytes, a multiple of 16
    box: Optional[sharding_pb2.Box] = None  # which box, if the device has several of the array


class HostMemory:
    """Host memory that can be lent; zero at first."""

    kind, device_uuid = "host", ""

    def __init__(self, count: int):
        self.bytes = count
        self.descriptor = os.memfd_create("remesh-trainer", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, count)
        fcntl.fcntl(self.descriptor, _F_ADD_SEALS, _F_SEAL_SHRINK)
        self._map = mmap.mmap(self.descriptor, count)

    def array(self, offset: int, count: int, dtype=np.uint8) -> np.ndarray:
        """`count` elements of the memory, from byte `offset` on."""
        return np.frombuffer(self._map, dtype, count, offset)

    def close(self) -> None:
        """Closes this object's descriptor. The worker and arrays of the memory keep it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self):
        self.close()


@dataclasses.dataclass(frozen=True)
class Allocation:
    """Memory in an allocation that the driver shares by a legacy IPC handle (local.proto,
    IpcAllocation)."""

    handle: bytes  # 64 bytes
    bytes: int  # of the whole allocation
    offset: int = 0  # of the memory in the allocation


class CudaTensorMemory:
    """The GPU allocation that holds an address, such as torch's data_ptr(). The driver shares
    memory of cudaMalloc (the default of torch and JAX) by a legacy IPC handle, and memory that
    CUDA's virtual memory management made for sharing by a descriptor (torch:
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True). ValueError for any other memory, such as a
    pool's (cudaMallocAsync) or a worker's buffer, with the reason. Offsets count from the begin of
    the allocation; base_offset is the offset of the address.

    Keep a reference to the tensor, in `tensors` or elsewhere, until the worker has given the memory
    back.
    """

    kind = "cuda"

    def __init__(self, address: int):
        driver = device_memory.driver()
        self._driver, self._device = driver, _device_of(driver, address)
        self.descriptor, self.ipc, self.tensors = -1, None, []
        with driver.on(self._device):
            self.base, self.bytes = driver.allocation(address)
            self.base_offset = address - self.base
            if driver.attribute(_LEGACY_IPC, address):
                handle = (ctypes.c_ubyte * 64)()
                driver.call(
                    "cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_ulonglong(self.base)
                )
                self.ipc = Allocation(bytes(handle), self.bytes)
            else:
                self.descriptor = _export(driver, address, self.base)
        self.device_uuid = driver.uuid(self._device)

    def synchronize(self) -> None:
        """Waits for all work that this process has given the GPU."""
        with self._driver.on(self._device):
            self._driver.call("cuCtxSynchronize")

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self):
        if hasattr(self, "descriptor"):
            self.close()


@dataclasses.dataclass(frozen=True)
class TensorPlace:
    """A contiguous tensor on a GPU that is a shard of this host."""

    array: str
    device: int  # id in the state's numbering
    tensor: (
        Any  # a tensor of torch or JAX (on one device), or an object with __cuda_array_interface__
    )
    box: Optional[sharding_pb2.Box] = None  # as in Place


def memories_of(tensors: Sequence[TensorPlace]) -> Tuple[List[CudaTensorMemory], List[Place]]:
    """The arguments of Trainer.lend() for these tensors. An allocation that holds several of them
    appears once. ValueError for a tensor that cannot be lent."""
    driver, memories, places = device_memory.driver(), [], []
    for one in tensors:
        address, count = span(one.tensor)
        with driver.on(_device_of(driver, address)):
            base, _ = driver.allocation(address)
        index = next((i for i, memory in enumerate(memories) if memory.base == base), len(memories))
        if index == len(memories):
            memories.append(CudaTensorMemory(address))
        memory, offset = memories[index], address - base
        if offset + count > memory.bytes:
            raise ValueError(
                f"{one.array}: {count} bytes at {address:#x} reach beyond the allocation that they "
                "begin in"
            )
        if offset % _ALIGNMENT:
            raise ValueError(
                f"{one.array}: begins {offset} bytes into its allocation, must be a multiple of "
                f"{_ALIGNMENT}"
            )
        memory.tensors.append(one.tensor)
        places.append(Place(one.array, one.device, index, offset, one.box))
    return memories, places


def span(tensor) -> Tuple[int, int]:
    """Address and size in bytes of a contiguous tensor on a GPU."""
    if hasattr(tensor, "data_ptr"):  # torch
        if not tensor.is_contiguous():
            raise ValueError("a tensor that is lent must be contiguous")
        return tensor.data_ptr(), tensor.numel() * tensor.element_size()
    if hasattr(tensor, "unsafe_buffer_pointer"):  # JAX
        tensor.block_until_ready()  # what computes it may not have been given to the GPU yet
        return tensor.unsafe_buffer_pointer(), tensor.nbytes
    said = tensor.__cuda_array_interface__
    if said.get("strides") is not None:
        raise ValueError("a tensor that is lent must be contiguous")
    return said["data"][0], math.prod(said["shape"]) * np.dtype(said["typestr"]).itemsize


class Lease:
    """A connection that tells the worker that this process lives. An allocation that is shared by a
    handle exists no longer than the process that made it. When close() is called or the process
    ends, the memory lent by the lease is lost. A forked child closes its copy of the connection."""

    def __init__(self, worker_socket: str):
        self._worker_socket, self._process = worker_socket, os.getpid()
        self._connection = device_memory.connect(worker_socket)
        self._answer_may_come = False  # to an earlier question: a new one would take it for its own
        _leases.add(self)  # before anything may fork
        try:
            self.token = device_memory.token_in(
                worker_socket, device_memory.ask(self._connection, b"lease")
            )
        except OSError:
            self.close()
            raise

    def held(self, timeout_seconds: float = device_memory.PATIENCE_SECONDS) -> bool:
        """Whether the worker still has memory open that was lent by this lease, which may have
        ended. ConnectionError if the worker does not say, TimeoutError if it does not answer in
        time. A forked child has lent nothing."""
        if self._process != os.getpid():
            return False
        question = f"held {self.token}".encode()
        answer = (
            "" if self.closed() or self._answer_may_come else self._ask(question, timeout_seconds)
        )
        if (
            not answer
        ):  # if the worker closed this connection, it may be alive and still read the memory
            try:
                with device_memory.connect(self._worker_socket, timeout_seconds) as another:
                    answer = device_memory.ask(another, question)
            except (ConnectionRefusedError, FileNotFoundError):
                return False  # the worker is gone, and has no memory open
        if not answer:
            raise ConnectionError(
                f"{self._worker_socket}.handles: the worker does not say whether it still has the "
                "memory that was lent"
            )
        return answer == "yes"

    def _ask(self, question: bytes, timeout_seconds: float) -> str:
        self._connection.settimeout(timeout_seconds)
        self._answer_may_come = True  # stays so after a timeout or an interrupt
        try:
            answer = device_memory.ask(self._connection, question)
        except ConnectionError:
            answer = ""
        self._answer_may_come = False
        return answer

    def closed(self) -> bool:
        return self._connection.fileno() < 0

    def close(self) -> None:
        self._connection.close()


_leases = weakref.WeakSet()


def _let_go() -> None:
    for lease in list(_leases):
        lease.close()


os.register_at_fork(after_in_child=_let_go)


def _device_of(driver, address: int) -> int:
    """The GPU whose memory the address is in. ValueError for memory that cannot be shared with
    another process."""
    kind = driver.attribute(_MEMORY_TYPE, address)
    if kind != _DEVICE_MEMORY or driver.attribute(_IS_MANAGED, address):
        what = (
            "not CUDA's" if kind is None else "managed" if kind == _DEVICE_MEMORY else "of the host"
        )
        raise ValueError(f"memory at {address:#x} is {what}, and cannot be lent as a GPU's")
    return driver.attribute(_DEVICE_ORDINAL, address)


def _export(driver, address: int, base: int) -> int:
    """Exports memory of CUDA's virtual memory management as a descriptor. ValueError if it cannot
    be exported."""
    if driver.attribute(_MEMORY_POOL, address, ctypes.c_void_p):
        raise ValueError(
            f"memory at {address:#x} is of a pool (cudaMallocAsync), which shares none with other "
            "processes, and cannot be lent"
        )
    handle, descriptor = ctypes.c_ulonglong(), ctypes.c_int(-1)
    try:
        driver.call("cuMemRetainAllocationHandle", ctypes.byref(handle), ctypes.c_void_p(base))
    except RuntimeError as error:
        raise ValueError(
            f"memory at {address:#x} was made neither by cudaMalloc nor by CUDA's virtual memory "
            f"management, and cannot be lent: {error}"
        ) from error
    try:
        driver.call(
            "cuMemExportToShareableHandle",
            ctypes.byref(descriptor),
            handle,
            device_memory.POSIX_DESCRIPTOR,
            ctypes.c_ulonglong(0),
        )
    except RuntimeError as error:
        raise ValueError(
            f"memory at {address:#x} was not made to be shared by a descriptor, or another process "
            f"shares it with this one, and cannot be lent: {error}"
        ) from error
    finally:
        driver.try_call("cuMemRelease", handle)
    return descriptor.value


_ALIGNMENT = 16
# Constants of cuda.h.
_MEMORY_TYPE = 2  # CU_POINTER_ATTRIBUTE_MEMORY_TYPE
_IS_MANAGED = 8  # CU_POINTER_ATTRIBUTE_IS_MANAGED
_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
_LEGACY_IPC = 10  # CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE
_MEMORY_POOL = 17  # CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE
_DEVICE_MEMORY = 2  # CU_MEMORYTYPE_DEVICE
