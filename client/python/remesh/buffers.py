# SPDX-License-Identifier: Apache-2.0
"""The memory that a worker shares with its trainers: maps it, and writes into it.

A file is mapped once for all shards in it, when the first of them is looked at. NumPy arrays keep
it mapped while they live, and the memory of a retired generation is freed only when its last
mapping is gone.
"""

import concurrent.futures
import dataclasses
import hashlib
import mmap
import os
import threading
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from remesh import device_memory
from remesh.elements import bit_width, numpy_dtype
from remesh.layout import Box
from remesh.v1 import local_pb2

# How memory is mapped. PRIVATE: it may be written, no one else sees that, and each page written is
# copied.
READ = "read"
WRITE = "write"
PRIVATE = "private"
_ACCESS = {READ: mmap.ACCESS_READ, WRITE: mmap.ACCESS_WRITE, PRIVATE: mmap.ACCESS_COPY}
SLICE_BYTES = 8 << 20


@dataclasses.dataclass(frozen=True)
class Shard:
    """A box of an array on one device of this host."""

    info: local_pb2.Shard  # array name, device id, box, element type ...
    _memory: Any  # what holds it: has part(offset, bytes)

    @property
    def bytes(self) -> Union[np.ndarray, device_memory.CudaBytes]:
        """info.bytes bytes, dense row-major over the box, packed below a byte. Mapped on first use,
        by any thread."""
        return self._memory.part(self.info.offset, self.info.bytes)

    @property
    def box(self) -> Box:
        """Where the shard is in the array."""
        return Box.of(self.info.box)

    def values(self) -> np.ndarray:
        """The same memory in the box's shape; bf16 and fp8 as unsigned integers. Types smaller than
        a byte, and memory of a GPU, have no such view (TypeError): see CudaBytes."""
        content = self.bytes
        if isinstance(content, device_memory.CudaBytes):
            hint = 'torch.as_tensor(shard.bytes, device="cuda") shares its memory'
            raise TypeError(f"{self.info.array}: on a GPU; {hint}")
        if bit_width(self.info.element_type) < 8:
            raise TypeError(
                f"{self.info.array}: {self.info.element_type} is packed below a byte; use .bytes"
            )
        return content.view(numpy_dtype(self.info.element_type)).reshape(self.box.shape)


def map_shards(
    shards: Iterable[local_pb2.Shard],
    access: str = READ,
    *,
    worker_socket: str = "",
    private: bool = False,
) -> List[Shard]:
    """The shards of a worker's answer, mapped to be read (READ), written (WRITE) or, with
    private=True, written by this process alone.
    worker_socket: needed for memory of GPUs. Nothing is opened before a shard is looked at: see
    open_all()."""
    memories: Dict[str, Any] = {}
    result = []
    for info in shards:
        key = info.path or info.device_memory.token
        if key not in memories:
            memories[key] = _memory_of(info, PRIVATE if private else access, worker_socket)
        result.append(Shard(info, memories[key]))
    return result


def _memory_of(info: local_pb2.Shard, access: str, worker_socket: str) -> Any:
    """What holds the shard, not opened yet."""
    if info.path:
        return FileMap(info.path, access)
    return _DeviceMap(worker_socket, info.device_memory, access != READ)


def open_all(shards: Sequence[Shard]) -> None:
    """Opens what holds the shards now. FileNotFoundError or ConnectionError if their generation was
    retired since the worker answered."""
    for shard in shards:
        shard._memory.open()  # pylint: disable=protected-access


def identity(shards: Sequence[Shard]) -> bytes:
    """Of the files that hold the shards: another one once the worker has lost them and made new
    ones. Equal for all processes of the host. FileNotFoundError."""
    found = []
    for path in sorted({shard.info.path for shard in shards if shard.info.path}):
        status = os.stat(path)
        found.append((path, status.st_dev, status.st_ino))
    return hashlib.sha256(repr(found).encode()).digest()


class _LazyMap:
    """Memory that is opened once, by whichever thread comes first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: Any = None

    def open(self) -> Any:
        """What was opened; opens it if nothing has."""
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def _open(self) -> Any:
        raise NotImplementedError


class FileMap(_LazyMap):
    """A file that holds shards."""

    def __init__(self, path: str, access: str):
        super().__init__()
        self._path, self._access = path, access

    def part(self, offset: int, count: int) -> np.ndarray:
        """`count` bytes from `offset` on."""
        if count == 0:
            return np.empty(0, np.uint8)
        return np.frombuffer(self.open(), np.uint8, count, offset)

    def _open(self) -> Any:
        with open(self._path, "r+b" if self._access == WRITE else "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=_ACCESS[self._access])


class _DeviceMap(_LazyMap):
    """Memory of a GPU that holds shards."""

    def __init__(self, worker_socket: str, memory: local_pb2.DeviceMemory, writable: bool):
        super().__init__()
        self._arguments = (worker_socket, memory, writable)

    def part(self, offset: int, count: int) -> Union[np.ndarray, device_memory.CudaBytes]:
        """`count` bytes from `offset` on."""
        return self.open().part(offset, count)

    def _open(self) -> Any:
        return device_memory.map_memory(*self._arguments)


def write(
    jobs: Iterable[Tuple[Shard, Any]], threads: int = 2, slice_bytes: int = SLICE_BYTES
) -> int:
    """Writes each content into its shard, and returns the number of bytes.

    jobs: pairs of a shard that State.allocate() returned and an array or bytes-like object of
    exactly its bytes, row-major. Files are written by pwrite(), which is faster into new pages than
    stores into a mapping, `slice_bytes` at a time by as many threads. Contents are read until the
    call returns. ValueError, before anything is written, for a content of another size; OSError if
    a write fails. May be called by several threads for different shards."""
    plain = [(shard, _plain_bytes(shard, content)) for shard, content in jobs]
    files = [(shard, content) for shard, content in plain if shard.info.path]
    for shard, content in plain:
        if not shard.info.path:
            _store(shard, content)
    descriptors: Dict[str, int] = {}
    try:
        for shard, _ in files:
            if shard.info.path not in descriptors:
                descriptors[shard.info.path] = os.open(shard.info.path, os.O_WRONLY | os.O_CLOEXEC)
        slices = []
        for shard, content in files:
            descriptor = descriptors[shard.info.path]
            slices += [(descriptor, *part) for part in _slices(shard, content, slice_bytes)]
        _write_all(slices, threads)
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)
    return sum(content.nbytes for _, content in plain)


def _plain_bytes(shard: Shard, content: Any) -> memoryview:
    """The content as bytes, without a copy if it is row-major already."""
    if not isinstance(content, np.ndarray):
        content = np.frombuffer(content, np.uint8)
    array = np.ascontiguousarray(content)
    if array.nbytes != shard.info.bytes:
        expected = f"{shard.info.bytes}, those of {shard.box} of {shard.info.element_type}"
        raise ValueError(f"{shard.info.array}: content of {array.nbytes} bytes must be {expected}")
    return memoryview(array.reshape(-1).view(np.uint8))


def _store(shard: Shard, content: memoryview) -> None:
    """Into memory of a GPU, real or simulated."""
    source, memory = np.frombuffer(content, np.uint8), shard.bytes
    if isinstance(memory, device_memory.CudaBytes):
        memory.write(source)
    else:
        memory[:] = source


def _slices(
    shard: Shard, content: memoryview, slice_bytes: int
) -> Iterator[Tuple[int, memoryview]]:
    for begin in range(0, content.nbytes, slice_bytes):
        yield shard.info.offset + begin, content[begin : begin + slice_bytes]


def _write_all(slices: Sequence[Tuple[int, int, memoryview]], threads: int) -> None:
    """By `threads` threads, this one among them."""
    remaining = iter(slices)
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                one: Optional[Tuple[int, int, memoryview]] = next(remaining, None)
            if one is None:
                return
            _pwrite(*one)

    others = min(threads, len(slices)) - 1
    if others <= 0:
        work()
        return
    with concurrent.futures.ThreadPoolExecutor(others, "remesh-write") as pool:
        futures = [pool.submit(work) for _ in range(others)]
        work()
        for future in futures:
            future.result()


def _pwrite(descriptor: int, offset: int, content: memoryview) -> None:
    done = 0
    while done < content.nbytes:
        done += os.pwrite(descriptor, content[done:], offset + done)
