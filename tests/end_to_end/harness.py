# SPDX-License-Identifier: Apache-2.0
"""A server and workers as real processes, and states whose every element the oracle knows.

Needs REMESH_BIN_DIR (folder of the binaries) and the Python package in PYTHONPATH; ctest sets both.
"""

import dataclasses
import os
import pathlib
import sys
import time
import unittest
from typing import Dict, Iterable, List, Set, Tuple

import numpy as np
from remesh import oracle
from remesh.device_memory import CudaBytes
from remesh.testing import LocalCluster
from remesh.trainer import Shard, Trainer
from remesh.v1 import reshard_pb2, sharding_pb2, state_pb2, topology_pb2

DEVICE = os.environ.get("REMESH_TEST_DEVICE", "host")
BIN_DIR = pathlib.Path(os.environ["REMESH_BIN_DIR"])
CALL_SECONDS = 20.0
EXECUTION_SECONDS = 60.0

# What is where: (array, device, lo, hi).
Places = Set[Tuple[str, int, Tuple[int, ...], Tuple[int, ...]]]


@dataclasses.dataclass(frozen=True)
class Array:
    """A test array. A narrow type needs several, with salts of their own, to tell every element
    apart: see salted()."""

    name: str
    element_type: str
    shape: Tuple[int, ...]
    salt: int = 0


def salted(name: str, element_type: str, shape: Tuple[int, ...]) -> List[Array]:
    """As many arrays of one kind as the oracle needs salts."""
    return [
        Array(f"{name}.{salt}", element_type, shape, salt)
        for salt in range(oracle.salt_count(element_type))
    ]


def sanitized() -> bool:
    """Whether the binaries run under a sanitizer, which has a heap of its own."""
    return any(
        start in (BIN_DIR / "remesh-server").read_bytes()
        for start in (b"__asan_init", b"__tsan_init")
    )


def devices(*ids: int) -> sharding_pb2.DeviceList:
    return sharding_pb2.DeviceList(ids=ids)


def text_sharding(text: str, *ids: int) -> sharding_pb2.Sharding:
    """XLA's text over these devices."""
    return sharding_pb2.Sharding(hlo_text=text, devices=devices(*ids))


def targets(arrays: Iterable[Array], sharding: sharding_pb2.Sharding) -> reshard_pb2.Targets:
    """All arrays to one sharding."""
    return reshard_pb2.Targets(
        shardings={"all": sharding},
        arrays=[
            reshard_pb2.TargetArray(name=array.name, sharding=sharding_pb2.Sharding(ref="all"))
            for array in arrays
        ],
    )


class ClusterTest(unittest.TestCase):
    """One cluster a class; what its processes logged is printed beside a failure."""

    HOSTS = 3
    DEVICES_PER_HOST = 2
    BUFFER_BYTES = 64 << 20
    SERVER_CONFIG, WORKER_CONFIG = (), ()
    DEVICE_BUFFERS = "device"
    ASSIGNED_IDS = False
    TLS = CLUSTER_TLS = None  # of the trainers; of the cluster's own calls

    @classmethod
    def setUpClass(cls):
        cls.cluster = LocalCluster(
            BIN_DIR,
            cls.HOSTS,
            cls.DEVICES_PER_HOST,
            cls.BUFFER_BYTES,
            device=DEVICE,
            tls=cls.CLUSTER_TLS,
            device_buffers=cls.DEVICE_BUFFERS,
            server_config=cls.SERVER_CONFIG,
            worker_config=cls.WORKER_CONFIG,
            assigned_ids=cls.ASSIGNED_IDS,
        )
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.__enter__()
        cls.trainers = {
            host: Trainer(cls.cluster.server_address, cls.cluster.worker_socket(host), cls.TLS)
            for host in cls.cluster.host_names
        }
        cls.addClassCleanup(lambda: [trainer.close() for trainer in cls.trainers.values()])
        cls.controller = cls.trainers[cls.cluster.host_names[0]]

    def run(self, result=None):
        before = result and len(result.failures) + len(result.errors)
        super().run(result)
        if result and len(result.failures) + len(result.errors) > before:
            for process in [self.cluster.server, *self.cluster.workers.values()]:
                print(
                    f"---- {self.id()}: end of {process.name}'s log\n{process.log_tail(25)}",
                    file=sys.stderr,
                )

    # ---- states ----

    def topology(self) -> topology_pb2.Topology:
        return topology_pb2.Topology(
            hosts=[
                topology_pb2.Host(
                    name=host,
                    device_ids=self.cluster.device_ids(host),
                    nics=1,
                    nic_bytes_per_second=1e9,
                    fabric_bytes_per_second=1e10,
                )
                for host in self.cluster.host_names
            ]
        )

    def state_of(
        self, name: str, arrays: Iterable[Array], sharding: sharding_pb2.Sharding
    ) -> state_pb2.State:
        """All arrays in one sharding, not created yet."""
        return state_pb2.State(
            name=name,
            spec=state_pb2.StateSpec(
                topology=self.topology(),
                shardings={"all": sharding},
                arrays=[
                    state_pb2.StateArray(
                        name=array.name,
                        shape=array.shape,
                        element_type=array.element_type,
                        sharding=sharding_pb2.Sharding(ref="all"),
                    )
                    for array in arrays
                ],
            ),
        )

    def create_and_write(
        self, name: str, arrays: List[Array], sharding: sharding_pb2.Sharding, hosts=None
    ) -> state_pb2.State:
        """A READY state at generation 1 that holds what the oracle says. hosts: those that hold a
        shard of it; None: all."""
        self.controller.create_state(self.state_of(name, arrays, sharding))
        self.write_everywhere(name, arrays, hosts)
        return self.controller.wait_ready(name, CALL_SECONDS)

    def write_everywhere(
        self, name: str, arrays: List[Array], hosts=None, write: str = ""
    ) -> Dict[str, List[Shard]]:
        """Writes what the oracle says into every shard and seals it. Returns each host's shards,
        still writable."""
        salts = {array.name: array.salt for array in arrays}
        written = {}
        for host in hosts or self.trainers:
            written[host] = self.trainers[host].allocate(name, CALL_SECONDS)
            for shard in written[host]:
                info = shard.info
                on_gpu = isinstance(shard.bytes, CudaBytes)
                bytes_ = np.zeros(info.bytes, np.uint8) if on_gpu else shard.bytes
                oracle.fill(
                    bytes_,
                    info.array,
                    info.element_type,
                    info.shape,
                    info.box.lo,
                    info.box.hi,
                    salts[info.array],
                )
                if on_gpu:
                    shard.bytes.write(bytes_)
            self.trainers[host].seal(name, write)
        return written

    def move(
        self, state: str, generation: int, to: reshard_pb2.Targets, options=None
    ) -> reshard_pb2.Execution:
        """Runs an execution to its end; it must SUCCEED."""
        started = self.controller.start_reshard(state, generation, to, options)
        return self.controller.wait_execution(started.name, EXECUTION_SECONDS)

    def check_everywhere(
        self, state: str, generation: int, arrays: List[Array], hosts=None
    ) -> Places:
        """Every element of every shard on these hosts, or all, is right. Returns what is
        where."""
        salts: Dict[str, int] = {array.name: array.salt for array in arrays}
        places: Places = set()
        for host in hosts or self.trainers:
            for shard in self.trainers[host].read(state, generation, CALL_SECONDS):
                info = shard.info
                self.assertIn(info.device, self.cluster.device_ids(host))
                bytes_ = shard.bytes.read() if isinstance(shard.bytes, CudaBytes) else shard.bytes
                wrong = oracle.check(
                    bytes_,
                    info.array,
                    info.element_type,
                    info.shape,
                    info.box.lo,
                    info.box.hi,
                    salts[info.array],
                )
                self.assertIsNone(wrong, f"{info.array} on device {info.device}: {wrong}")
                places.add((info.array, info.device, tuple(info.box.lo), tuple(info.box.hi)))
        return places

    def wait_until(self, what: str, condition, timeout_seconds: float = CALL_SECONDS):
        """Polls until `condition` gives something true, and returns that."""
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            result = condition()
            if result:
                return result
            time.sleep(0.05)
        self.fail(f"not within {timeout_seconds} s: {what}")


def element_count(places: Places, array: str) -> int:
    """Elements of an array in all its places, replicas counted each."""
    total = 0
    for name, _, lo, hi in places:
        if name == array:
            count = 1
            for low, high in zip(lo, hi):
                count *= high - low
            total += count
    return total
