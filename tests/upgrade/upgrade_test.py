# SPDX-License-Identifier: Apache-2.0
"""Today's binaries go on with what older ones left on disk: every archive of make_data.py that
REMESH_UPGRADE_DATA names (separated by colons; scripts/upgrade-data makes them), and always one
that today's own made."""

import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

import grpc
from remesh import oracle
from remesh.testing import LocalCluster
from remesh.trainer import Trainer
from remesh.v1 import reshard_pb2, state_pb2

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import layout  # pylint: disable=wrong-import-position
import make_data  # pylint: disable=wrong-import-position

SECONDS = 30.0


def unpack(archive: pathlib.Path, cluster: LocalCluster) -> dict:
    """Journal and buffers to where a cluster that has not started yet will look. Returns what was
    made."""
    with tarfile.open(archive) as files:
        for entry in files.getmembers():
            top, _, rest = entry.name.partition("/")
            if entry.name != "made.json" and rest:
                entry.name = rest
                # As a user would restore them: worker and server take only files of their own.
                entry.uid, entry.gid, entry.uname, entry.gname = os.geteuid(), os.getegid(), "", ""
                files.extract(entry, {"journal": cluster.root, "buffers": cluster.buffers}[top])
        return json.load(files.extractfile("made.json"))


class UpgradeTest(unittest.TestCase):
    def archives(self) -> list:
        own = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "own.tar"
        subprocess.run([sys.executable, HERE / "make_data.py", own], check=True, timeout=120)
        return [
            own,
            *map(pathlib.Path, filter(None, os.environ.get("REMESH_UPGRADE_DATA", "").split(":"))),
        ]

    def test_states_are_there_and_can_be_moved(self):
        for archive in self.archives():
            cluster = LocalCluster(
                layout.bin_dir(), layout.HOSTS, layout.DEVICES // layout.HOSTS, layout.BYTES
            )
            self.addCleanup(cluster.close)
            made = unpack(archive, cluster)
            with self.subTest(version=made["version"]), cluster:
                self.check(cluster, made)
                print(f"upgrade: what {made['version']} left is there and moves", flush=True)

    def check(self, cluster: LocalCluster, made: dict):
        trainers = [
            Trainer(cluster.server_address, cluster.worker_socket(host))
            for host in cluster.host_names
        ]
        for trainer in trainers:
            self.addCleanup(trainer.close)
        ready = trainers[0].wait_ready(layout.MOVED, SECONDS)
        self.assertEqual(ready.generation, made["generation"])
        self.check_elements(trainers, made["generation"])
        phases = {
            state.name: state_pb2.State.Phase.Name(state.phase)
            for state in trainers[0]
            .states.ListStates(state_pb2.ListStatesRequest(), timeout=SECONDS)
            .states
        }
        self.assertEqual(phases, made["states"])
        self.check_deleted(cluster)
        if layout.SEALED in made["states"]:
            self.check_elements(trainers, 1, layout.SEALED)
        if layout.ONCE in made["states"]:
            self.check_once(trainers)
        targets = reshard_pb2.Targets(
            shardings={"all": make_data.sharding(layout.ROWS)},
            arrays=[
                reshard_pb2.TargetArray(name=name, sharding={"ref": "all"})
                for name, _, _ in layout.ARRAYS
            ],
        )
        trainers[0].wait_execution(
            trainers[0].start_reshard(layout.MOVED, made["generation"], targets).name, SECONDS
        )
        self.check_elements(trainers, made["generation"] + 1)

    def check_once(self, trainers):
        """It is whole, has the step that was set, and stays so."""
        self.check_elements(trainers, 1, layout.ONCE)
        once = trainers[0].states.GetState(
            state_pb2.GetStateRequest(name=layout.ONCE), timeout=SECONDS
        )
        self.assertTrue(once.write_once)
        self.assertEqual(once.step, layout.ONCE_STEP)
        late = state_pb2.UpdateStateRequest(
            name=layout.ONCE, uid=once.uid, step=layout.ONCE_STEP + 1
        )
        with self.assertRaises(grpc.RpcError) as refused:
            trainers[0].states.UpdateState(late, timeout=SECONDS)
        self.assertEqual(refused.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)

    def check_deleted(self, cluster: LocalCluster):
        """What was deleted while a host was away goes there, too. Older archives have none of
        it."""
        give_up = time.monotonic() + SECONDS
        while layout.folders(cluster, layout.DELETED) and time.monotonic() < give_up:
            time.sleep(0.05)
        self.assertEqual(layout.folders(cluster, layout.DELETED), [])

    def check_elements(self, trainers, generation: int, state: str = layout.MOVED):
        count = 0
        for trainer in trainers:
            for shard in trainer.read(state, generation, SECONDS):
                info = shard.info
                self.assertIsNone(
                    oracle.check(
                        shard.bytes,
                        info.array,
                        info.element_type,
                        info.shape,
                        info.box.lo,
                        info.box.hi,
                        0,
                    )
                )
                count += info.bytes
        self.assertEqual(count, 96 * 64 * 4 + 8 * 4 * 8)


if __name__ == "__main__":
    unittest.main()
