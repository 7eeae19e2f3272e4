# SPDX-License-Identifier: Apache-2.0
"""Maps buffers in GPU memory that a worker made into its trainer's process (local.proto,
DeviceMemory).

The worker hands out a file descriptor over a Unix socket of its own, and the CUDA driver maps the
descriptor's memory into this process. The memory stays mapped until the last array of it is gone,
whatever the worker does.
"""

import array
import contextlib
import ctypes
import functools
import mmap
import os
import socket
import threading
from typing import Tuple

import numpy as np

from remesh import dlpack

PATIENCE_SECONDS = 10.0
_ANSWER_BYTES = 4096


def connect(worker_socket: str, timeout_seconds: float = PATIENCE_SECONDS) -> socket.socket:
    """Connects to the worker's socket of handles."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(timeout_seconds)
        connection.connect(worker_socket + ".handles")
    except OSError:
        connection.close()
        raise
    return connection


def ask(connection: socket.socket, question: bytes, descriptor: int = -1) -> str:
    """Sends a question, with a descriptor if there is one, and returns the worker's answer; "" if
    the worker closed the connection."""
    with_it = (
        [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        if descriptor >= 0
        else []
    )
    connection.sendmsg([question], with_it)
    return connection.recv(_ANSWER_BYTES).decode(errors="replace")


def token_in(worker_socket: str, answer: str) -> str:
    """The token in an answer of the worker. ConnectionError, with the reason, if there is none."""
    if not answer.startswith("ok "):
        raise ConnectionError(f"{worker_socket}.handles: {answer or 'closed without an answer'}")
    return answer[3:]


def receive_handle(worker_socket: str, token: str) -> int:
    """The descriptor of the memory with this token; the caller must close it. ConnectionError, with
    the reason, if there is none."""
    with connect(worker_socket) as connection:
        connection.send(token.encode())
        space = socket.CMSG_SPACE(array.array("i").itemsize)
        answer, ancillary, _, _ = connection.recvmsg(_ANSWER_BYTES, space, socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    if answer != b"ok" or len(descriptors) != 1:
        for descriptor in descriptors:
            os.close(descriptor)
        raise ConnectionError(
            f"{worker_socket}.handles: "
            f"{answer.decode(errors='replace') or 'closed without an answer'}"
        )
    return descriptors[0]


def send_handle(worker_socket: str, descriptor: int) -> str:
    """Sends the worker a descriptor of memory to lend. Returns its token, which can be used once,
    within a minute."""
    with connect(worker_socket) as connection:
        return token_in(worker_socket, ask(connection, b"lend", descriptor))


def map_memory(worker_socket: str, memory, writable: bool):
    """Maps the memory of a remesh.v1.DeviceMemory. Returns an object whose part(offset, bytes) is
    the bytes of a shard."""
    descriptor = receive_handle(worker_socket, memory.token)
    try:
        if memory.kind == "sim":
            return _SimMemory(descriptor, writable)
        return CudaMemory(descriptor, memory.bytes, memory.device_uuid)
    finally:
        os.close(descriptor)


class _SimMemory:
    """Memory of a simulated device."""

    def __init__(self, descriptor: int, writable: bool):
        self._map = mmap.mmap(
            descriptor, 0, access=mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        )

    def part(self, offset: int, count: int) -> np.ndarray:
        return np.frombuffer(self._map, np.uint8, count, offset)


class CudaBytes:
    """`count` bytes on a GPU. torch.as_tensor(it, device="cuda"), cupy.asarray(it) and
    jax.dlpack.from_dlpack(it) share the memory and keep it mapped. To view it as another type use
    the framework: torch.as_tensor(it, device="cuda").view(torch.bfloat16).
    """

    def __init__(self, memory: "CudaMemory", offset: int, count: int):
        self.memory, self.pointer, self.count = memory, memory.pointer + offset, count

    @property
    def __cuda_array_interface__(self):
        return {
            "version": 3,
            "shape": (self.count,),
            "typestr": "|u1",
            "data": (self.pointer, False),
            "strides": None,
        }

    def __dlpack__(self, stream=None, **_):
        return dlpack.capsule(self.pointer, self.count, dlpack.CUDA, self.memory.device, self)

    def __dlpack_device__(self):
        return dlpack.CUDA, self.memory.device

    def __len__(self):
        return self.count

    def write(self, content: np.ndarray) -> None:
        """Copies `content` from the host into this memory. ValueError unless it has exactly `count`
        bytes."""
        source = np.ascontiguousarray(content).view(np.uint8).reshape(-1)
        if source.size != self.count:
            raise ValueError(f"content: {source.size} bytes, must be {self.count}")
        self.memory.call(
            "cuMemcpyHtoD_v2",
            ctypes.c_ulonglong(self.pointer),
            ctypes.c_void_p(source.ctypes.data),
            ctypes.c_size_t(self.count),
        )

    def read(self) -> np.ndarray:
        """Returns a copy on the host, as uint8."""
        copy = np.empty(self.count, np.uint8)
        self.memory.call(
            "cuMemcpyDtoH_v2",
            ctypes.c_void_p(copy.ctypes.data),
            ctypes.c_ulonglong(self.pointer),
            ctypes.c_size_t(self.count),
        )
        return copy


class CudaMemory:
    """Memory that another process made by CUDA's virtual memory management, mapped for this
    process's primary context."""

    def __init__(self, descriptor: int, count: int, device_uuid: str):
        cuda = driver()
        device = cuda.find(device_uuid)
        cuda.use(device)
        granularity = cuda.granularity(device)
        self._driver, self.device = cuda, device
        self._bytes = (max(count, 1) + granularity - 1) // granularity * granularity
        self._handle, self._mapped, self.pointer = ctypes.c_ulonglong(), False, 0
        address = ctypes.c_ulonglong()
        cuda.call(
            "cuMemImportFromShareableHandle",
            ctypes.byref(self._handle),
            ctypes.c_void_p(descriptor),
            POSIX_DESCRIPTOR,
        )
        cuda.call(
            "cuMemAddressReserve",
            ctypes.byref(address),
            ctypes.c_size_t(self._bytes),
            ctypes.c_size_t(0),
            ctypes.c_ulonglong(0),
            ctypes.c_ulonglong(0),
        )
        self.pointer = address.value
        cuda.call(
            "cuMemMap",
            address,
            ctypes.c_size_t(self._bytes),
            ctypes.c_size_t(0),
            self._handle,
            ctypes.c_ulonglong(0),
        )
        self._mapped = True
        cuda.call(
            "cuMemSetAccess",
            address,
            ctypes.c_size_t(self._bytes),
            ctypes.byref(access(device)),
            ctypes.c_size_t(1),
        )

    def part(self, offset: int, count: int) -> CudaBytes:
        return CudaBytes(self, offset, count)

    def call(self, name: str, *arguments) -> None:
        """Calls a function of the driver on this GPU. RuntimeError if it fails."""
        self._driver.use(self.device)
        self._driver.call(name, *arguments)

    def __del__(self):
        if not getattr(self, "pointer", 0):
            return
        self._driver.use(self.device)
        if self._mapped:
            self._driver.try_call(
                "cuMemUnmap", ctypes.c_ulonglong(self.pointer), ctypes.c_size_t(self._bytes)
            )
        self._driver.try_call(
            "cuMemAddressFree", ctypes.c_ulonglong(self.pointer), ctypes.c_size_t(self._bytes)
        )
        if self._handle.value:
            self._driver.try_call("cuMemRelease", self._handle)


# Constants of cuda.h.
POSIX_DESCRIPTOR = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
_PINNED = 1  # CU_MEM_ALLOCATION_TYPE_PINNED
_DEVICE = 1  # CU_MEM_LOCATION_TYPE_DEVICE
_READ_WRITE = 3  # CU_MEM_ACCESS_FLAGS_PROT_READWRITE
_RECOMMENDED = 1  # CU_MEM_ALLOC_GRANULARITY_RECOMMENDED


class _Access(ctypes.Structure):
    _fields_ = [
        ("location_type", ctypes.c_int),
        ("location_id", ctypes.c_int),
        ("flags", ctypes.c_int),
    ]


class _Properties(ctypes.Structure):  # CUmemAllocationProp
    _fields_ = [
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location_type", ctypes.c_int),
        ("location_id", ctypes.c_int),
        ("win32", ctypes.c_void_p),
        ("compression", ctypes.c_ubyte),
        ("rdma", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    ]


def access(device: int) -> _Access:
    """Of the GPU, to memory mapped on it."""
    return _Access(_DEVICE, device, _READ_WRITE)


def shareable(device: int) -> _Properties:
    """Of memory on the GPU that is shared by a descriptor."""
    return _Properties(
        type=_PINNED, handle_types=POSIX_DESCRIPTOR, location_type=_DEVICE, location_id=device
    )


class _Driver:
    """Calls libcuda through ctypes, so that users need not install a binding."""

    def __init__(self):
        self._lib = ctypes.CDLL("libcuda.so.1")
        self._contexts = {}
        self._lock = threading.Lock()
        self.call("cuInit", 0)

    def try_call(self, name: str, *arguments) -> int:
        return getattr(self._lib, name)(*arguments)

    def call(self, name: str, *arguments) -> None:
        result = self.try_call(name, *arguments)
        if result == 0:
            return
        text = ctypes.c_char_p()
        self._lib.cuGetErrorName(result, ctypes.byref(text))
        raise RuntimeError(f"{name}: {text.value.decode() if text.value else result}")

    def find(self, uuid: str) -> int:
        """The driver's number of the GPU with this UUID, as nvidia-smi prints it. RuntimeError if
        this process does not see that GPU."""
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        for device in range(count.value):
            if uuid == self.uuid(device):
                return device
        raise RuntimeError(
            f"the worker's buffers are on {uuid}, which this process does not see "
            "(CUDA_VISIBLE_DEVICES?)"
        )

    def uuid(self, device: int) -> str:
        found = (ctypes.c_ubyte * 16)()
        self.call("cuDeviceGetUuid_v2", ctypes.byref(found), device)
        text = bytes(found).hex()
        return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def use(self, device: int) -> None:
        """Sets the GPU's primary context, which frameworks use too, as this thread's current
        context."""
        with self._lock:
            if device not in self._contexts:
                context = ctypes.c_void_p()
                self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
                self._contexts[device] = context
        self.call("cuCtxSetCurrent", self._contexts[device])

    @contextlib.contextmanager
    def on(self, device: int):
        """use() for the time of a block: afterwards the thread's current context is what it was, so
        that the caller's GPU does not change."""
        former = ctypes.c_void_p()
        self.call("cuCtxGetCurrent", ctypes.byref(former))
        self.use(device)
        try:
            yield
        finally:
            self.call("cuCtxSetCurrent", former)

    def attribute(self, number: int, address: int, kind=ctypes.c_int):
        """A pointer's attribute (CUpointer_attribute) from the driver; None if the pointer is not
        CUDA's or does not have the attribute."""
        value = kind()
        failed = self.try_call(
            "cuPointerGetAttribute", ctypes.byref(value), number, ctypes.c_ulonglong(address)
        )
        return None if failed else value.value

    def allocation(self, address: int) -> Tuple[int, int]:
        """Begin and size in bytes of the allocation that holds an address. REQUIRES: use() of its
        GPU."""
        base, count = ctypes.c_ulonglong(), ctypes.c_size_t()
        self.call(
            "cuMemGetAddressRange_v2",
            ctypes.byref(base),
            ctypes.byref(count),
            ctypes.c_ulonglong(address),
        )
        return base.value, count.value

    def granularity(self, device: int) -> int:
        size = ctypes.c_size_t()
        self.call(
            "cuMemGetAllocationGranularity",
            ctypes.byref(size),
            ctypes.byref(shareable(device)),
            _RECOMMENDED,
        )
        return size.value


@functools.lru_cache(maxsize=None)
def driver() -> _Driver:
    """The driver object of this process. OSError without libcuda."""
    return _Driver()
