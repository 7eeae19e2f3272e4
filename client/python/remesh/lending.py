# SPDX-License-Identifier: Apache-2.0
"""A trainer's own memory as the source of a reshard, so that a state need not exist twice on its host.

    memory = HostMemory(1 << 30)                             # memory that can be lent; or CudaTensorMemory(tensor.data_ptr(), ...)
    weights = memory.array(0, 4096)                          # the trainer's array, in it
    trainer.lend(state, [memory], [Place("w", device=0, memory=0, offset=0)])

From then on nobody writes into it until the generation that it holds is retired, or trainer.unseal() takes it back.
"""
import ctypes
import dataclasses
import fcntl
import mmap
import os
from typing import Optional

import numpy as np

from remesh import device_memory
from remesh.v1 import sharding_pb2

_F_ADD_SEALS, _F_SEAL_SHRINK = 1033, 2  # fcntl.h; Python names them from 3.8 on, not on every platform


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a shard of this host lies: dense and row-major over its box, packed below a byte."""
    array: str
    device: int  # id in the state's numbering
    memory: int  # index into the memories that are lent
    offset: int  # bytes, a multiple of 16
    box: Optional[sharding_pb2.Box] = None  # which, where a device has several of the array


class HostMemory:
    """Memory of the host that can be lent: zero at first."""
    kind, device_uuid = "host", ""

    def __init__(self, count: int):
        self.bytes = count
        self.descriptor = os.memfd_create("remesh-trainer", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, count)
        fcntl.fcntl(self.descriptor, _F_ADD_SEALS, _F_SEAL_SHRINK)
        self._map = mmap.mmap(self.descriptor, count)

    def array(self, offset: int, count: int, dtype=np.uint8) -> np.ndarray:
        """`count` elements from that byte on."""
        return np.frombuffer(self._map, dtype, count, offset)

    def close(self) -> None:
        """Lets go of it here: whoever else has it, the worker or an array, keeps it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self):
        self.close()


class CudaTensorMemory:
    """The allocation of a GPU that holds this address, as torch's data_ptr() says it, where the driver can share it by a descriptor:
    memory of CUDA's virtual memory management that was made for that (torch: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True). Any
    other is refused, by name. Offsets count from the allocation's begin: base_offset is the address's own.

    Synchronise the streams that write into it before it is lent, and keep a reference to the tensor until it is given back."""
    kind = "cuda"

    def __init__(self, address: int):
        driver = device_memory.driver()
        device = ctypes.c_int()
        driver.call("cuPointerGetAttribute", ctypes.byref(device), _DEVICE_ORDINAL, ctypes.c_ulonglong(address))
        driver.use(device.value)
        base, count, handle = ctypes.c_ulonglong(), ctypes.c_size_t(), ctypes.c_ulonglong()
        driver.call("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(count), ctypes.c_ulonglong(address))
        try:
            driver.call("cuMemRetainAllocationHandle", ctypes.byref(handle), ctypes.c_void_p(base.value))
        except RuntimeError as error:
            raise ValueError(f"memory at {address:#x} was not made by CUDA's virtual memory management, and cannot be lent: {error}") from error
        descriptor = ctypes.c_int(-1)
        try:
            driver.call("cuMemExportToShareableHandle", ctypes.byref(descriptor), handle, device_memory.POSIX_DESCRIPTOR, ctypes.c_ulonglong(0))
        except RuntimeError as error:
            raise ValueError(f"memory at {address:#x} was not made to be shared by a descriptor, and cannot be lent: {error}") from error
        finally:
            driver.try_call("cuMemRelease", handle)
        self.descriptor, self.bytes = descriptor.value, count.value
        self.base_offset = address - base.value
        self.device_uuid = driver.uuid(device.value)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self):
        if hasattr(self, "descriptor"):
            self.close()


_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
