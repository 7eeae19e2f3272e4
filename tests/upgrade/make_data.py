# SPDX-License-Identifier: Apache-2.0
"""What a cluster of this version leaves on disk, as a tar for upgrade tests of later versions:
make_data.py ARCHIVE.

Runs a server and two workers of REMESH_BIN_DIR and stops them. It leaves a state that was moved
once, one that was sealed and never moved, one that was written once and committed, with a step set
before, one that is not sealed, and one that was deleted while a host was away, so that only the
other has confirmed. The archive has `journal/` (the server's files), `buffers/` (each worker's
folder) and `made.json`, which says what must be found again.
"""

import json
import pathlib
import sys
import tarfile
import time

import remesh
from remesh import oracle
from remesh.testing import LocalCluster
from remesh.trainer import Trainer
from remesh.v1 import reshard_pb2, sharding_pb2, state_pb2, topology_pb2

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import layout  # pylint: disable=wrong-import-position

SECONDS = 30.0


def sharding(text: str) -> sharding_pb2.Sharding:
    return sharding_pb2.Sharding(
        hlo_text=text, devices=sharding_pb2.DeviceList(ids=range(layout.DEVICES))
    )


def state(cluster: LocalCluster, name: str) -> state_pb2.State:
    hosts = [
        topology_pb2.Host(
            name=host,
            device_ids=cluster.device_ids(host),
            nics=1,
            nic_bytes_per_second=1e9,
            fabric_bytes_per_second=1e10,
        )
        for host in cluster.host_names
    ]
    return state_pb2.State(
        name=name,
        spec=state_pb2.StateSpec(
            topology=topology_pb2.Topology(hosts=hosts),
            shardings={"all": sharding(layout.ROWS)},
            arrays=[
                state_pb2.StateArray(
                    name=array,
                    shape=shape,
                    element_type=kind,
                    sharding=sharding_pb2.Sharding(ref="all"),
                )
                for array, kind, shape in layout.ARRAYS
            ],
        ),
    )


def write(cluster: LocalCluster, trainers: list, name: str) -> None:
    created = state(cluster, name)
    created.write_once = name == layout.ONCE
    uid = trainers[0].create_state(created).uid
    if name == layout.ONCE:
        trainers[0].states.UpdateState(
            state_pb2.UpdateStateRequest(name=name, uid=uid, step=layout.ONCE_STEP), timeout=SECONDS
        )
    for trainer in trainers:
        for shard in trainer.allocate(name, SECONDS):
            info = shard.info
            oracle.fill(
                shard.bytes, info.array, info.element_type, info.shape, info.box.lo, info.box.hi, 0
            )
        trainer.seal(name)
    trainers[0].wait_ready(name, SECONDS)


def delete_on_one_host(cluster: LocalCluster, trainer: Trainer) -> None:
    """Deletes a state while the last host is away, and waits until the first has freed it."""
    cluster.workers[cluster.host_names[-1]].stop()
    trainer.states.DeleteState(state_pb2.DeleteStateRequest(name=layout.DELETED), timeout=SECONDS)
    give_up = time.monotonic() + SECONDS
    while layout.folders(cluster, layout.DELETED) != cluster.host_names[-1:]:
        if time.monotonic() > give_up:
            raise TimeoutError(f"the deleted state is on {layout.folders(cluster, layout.DELETED)}")
        time.sleep(0.05)


def fill(cluster: LocalCluster) -> None:
    trainers = [
        Trainer(cluster.server_address, cluster.worker_socket(host)) for host in cluster.host_names
    ]
    for name in (layout.MOVED, layout.SEALED, layout.ONCE, layout.DELETED):
        write(cluster, trainers, name)
    targets = reshard_pb2.Targets(
        shardings={"all": sharding(layout.COLUMNS)},
        arrays=[
            reshard_pb2.TargetArray(name=array, sharding=sharding_pb2.Sharding(ref="all"))
            for array, _, _ in layout.ARRAYS
        ],
    )
    trainers[0].wait_execution(trainers[0].start_reshard(layout.MOVED, 1, targets).name, SECONDS)
    trainers[0].create_state(state(cluster, layout.UNSEALED))
    for trainer in trainers:
        trainer.read(layout.MOVED, 2, SECONDS)  # committed there, too
    delete_on_one_host(cluster, trainers[0])
    for trainer in trainers:
        trainer.close()


def main() -> None:
    archive = pathlib.Path(sys.argv[1])
    with LocalCluster(
        layout.bin_dir(), layout.HOSTS, layout.DEVICES // layout.HOSTS, layout.BYTES
    ) as cluster:
        fill(cluster)
        for process in (*cluster.workers.values(), cluster.server):
            process.stop()
        made = cluster.root / "made.json"
        states = {
            layout.MOVED: "READY",
            layout.SEALED: "READY",
            layout.ONCE: "READY",
            layout.UNSEALED: "BUILDING",
        }
        made.write_text(
            json.dumps({"version": remesh.__version__, "states": states, "generation": 2})
        )
        with tarfile.open(archive, "w") as files:
            files.add(made, "made.json")
            for path in sorted(cluster.root.glob("journal.db*")):
                if path.suffix != ".ballast":  # 16 MiB of nothing; the server makes it again
                    files.add(path, f"journal/{path.name}")
            for host in cluster.host_names:
                files.add(cluster.buffers / host, f"buffers/{host}")
    print(f"{archive}: what remesh {remesh.__version__} left, {archive.stat().st_size} bytes")


if __name__ == "__main__":
    main()
