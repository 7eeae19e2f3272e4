# SPDX-License-Identifier: Apache-2.0
"""Server and workers of two versions work beside each other, and take each other's place: today's
with each that REMESH_OLDER_BINARIES names (folders, separated by colons; scripts/upgrade-data makes
them), and always with themselves."""

import contextlib
import dataclasses
import os
import pathlib
import sys
import unittest
from typing import Iterator, List, Tuple

from remesh import oracle
from remesh.testing import LocalCluster
from remesh.trainer import Trainer
from remesh.v1 import reshard_pb2, sharding_pb2, state_pb2

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import layout  # pylint: disable=wrong-import-position
import make_data  # pylint: disable=wrong-import-position

SECONDS = 30.0
STATE = "jobs/mixed/states/state"
SCALAR = ("scalar", "f32", ())  # as an optimizer's step is: its shards have boxes of no dimensions


@dataclasses.dataclass(frozen=True)
class Versions:
    """Who is of today's version: the server, and each worker."""

    server: bool
    workers: Tuple[bool, bool]


OLD, NEW = Versions(False, (False, False)), Versions(True, (True, True))
# While the state is written, and after that.
COURSES = {
    "a new server": (Versions(True, (False, False)),) * 2,
    "new workers": (Versions(False, (True, True)),) * 2,
    "one new worker": (Versions(True, (False, True)),) * 2,
    "an upgrade": (OLD, NEW),
    "an upgrade of the workers": (OLD, Versions(False, (True, True))),
    "a downgrade": (NEW, OLD),
}


class Cluster(LocalCluster):
    """Its programs come from `older` or from the build."""

    def __init__(self, older: pathlib.Path):
        super().__init__(
            layout.bin_dir(), layout.HOSTS, layout.DEVICES // layout.HOSTS, layout.BYTES
        )
        self.folders = {False: older, True: layout.bin_dir()}

    def start(self, versions: Versions) -> None:
        self.bin_dir = self.folders[versions.server]
        self.start_server()
        for host, is_new in zip(self.host_names, versions.workers):
            self.bin_dir = self.folders[is_new]
            self.start_worker(host, wait=False)
        self.wait_workers()

    def stop(self) -> None:
        for process in (*self.workers.values(), self.server):
            process.stop()


@contextlib.contextmanager
def trainers_of(cluster: Cluster) -> Iterator[List[Trainer]]:
    with contextlib.ExitStack() as open_ones:
        yield [
            open_ones.enter_context(
                contextlib.closing(Trainer(cluster.server_address, cluster.worker_socket(host)))
            )
            for host in cluster.host_names
        ]


def with_scalar(cluster: Cluster) -> state_pb2.State:
    state = make_data.state(cluster, STATE)
    name, kind, shape = SCALAR
    state.spec.arrays.append(
        state_pb2.StateArray(
            name=name,
            shape=shape,
            element_type=kind,
            sharding=make_data.sharding("{replicated}"),
        )
    )
    return state


def write(trainers: list) -> None:
    for trainer in trainers:
        for shard in trainer.allocate(STATE, SECONDS):
            info = shard.info
            oracle.fill(
                shard.bytes, info.array, info.element_type, info.shape, info.box.lo, info.box.hi, 0
            )
        trainer.seal(STATE)
    trainers[0].wait_ready(STATE, SECONDS)


class MixedTest(unittest.TestCase):
    def test_versions_work_beside_each_other(self):
        named = filter(None, os.environ.get("REMESH_OLDER_BINARIES", "").split(":"))
        for older in (layout.bin_dir(), *map(pathlib.Path, named)):
            for name, (before, after) in COURSES.items():
                with self.subTest(older=older, course=name):
                    self.check(older, before, after)

    def check(self, older: pathlib.Path, before: Versions, after: Versions):
        cluster = Cluster(older)
        self.addCleanup(cluster.close)
        cluster.start(before)
        with trainers_of(cluster) as trainers:
            trainers[0].create_state(with_scalar(cluster))
            write(trainers)
        if after != before:
            cluster.stop()
            cluster.start(after)
        with trainers_of(cluster) as trainers:
            trainers[0].wait_ready(STATE, SECONDS)
            # The buffers are still those that were assigned, whoever says so.
            for trainer in trainers:
                trainer.unseal(STATE, write="second")
            write(trainers)
            self.move(trainers)
        cluster.close()

    def move(self, trainers: list):
        targets = reshard_pb2.Targets(
            shardings={"all": make_data.sharding(layout.COLUMNS)},
            arrays=[
                reshard_pb2.TargetArray(name=name, sharding=sharding_pb2.Sharding(ref="all"))
                for name, _, _ in layout.ARRAYS
            ],
        )
        trainers[0].wait_execution(trainers[0].start_reshard(STATE, 1, targets).name, SECONDS)
        read = {}
        for trainer in trainers:
            for shard in trainer.read(STATE, 2, SECONDS):
                info = shard.info
                wrong = oracle.check(
                    shard.bytes,
                    info.array,
                    info.element_type,
                    info.shape,
                    info.box.lo,
                    info.box.hi,
                    0,
                )
                self.assertIsNone(wrong)
                read[info.array] = read.get(info.array, 0) + info.bytes
        self.assertEqual(read, {"weight": 96 * 64 * 4, "step": 8 * 4 * 8, "scalar": 4 * 4})


if __name__ == "__main__":
    unittest.main()
