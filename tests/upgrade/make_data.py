# SPDX-License-Identifier: Apache-2.0
"""What a cluster of this version leaves on disk, as a tar for upgrade tests of later versions: make_data.py ARCHIVE.

Runs a server and two workers of REMESH_BIN_DIR, writes a state, moves it once, declares a second one that is not sealed, and stops them. The
archive has `journal/` (the server's files), `buffers/` (each worker's folder) and `made.json`, which says what must be found again.
"""
import json
import pathlib
import sys
import tarfile

import remesh
from remesh import oracle
from remesh.local_cluster import LocalCluster
from remesh.trainer import Trainer
from remesh.v1 import reshard_pb2, sharding_pb2, state_pb2, topology_pb2

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import layout  # pylint: disable=wrong-import-position

SECONDS = 30.0


def sharding(text: str) -> sharding_pb2.Sharding:
    return sharding_pb2.Sharding(hlo_text=text, devices=sharding_pb2.DeviceList(ids=range(layout.DEVICES)))


def state(cluster: LocalCluster, name: str) -> state_pb2.State:
    hosts = [topology_pb2.Host(name=host, device_ids=cluster.device_ids(host), nics=1, nic_bytes_per_second=1e9, fabric_bytes_per_second=1e10)
             for host in cluster.host_names]
    return state_pb2.State(name=name, spec=state_pb2.StateSpec(
        topology=topology_pb2.Topology(hosts=hosts), shardings={"all": sharding(layout.ROWS)}, arrays=[
            state_pb2.StateArray(name=array, shape=shape, element_type=kind, sharding=sharding_pb2.Sharding(ref="all"))
            for array, kind, shape in layout.ARRAYS]))


def fill(cluster: LocalCluster) -> None:
    trainers = [Trainer(cluster.server_address, cluster.worker_socket(host)) for host in cluster.host_names]
    trainers[0].create_state(state(cluster, layout.MOVED))
    for trainer in trainers:
        for shard in trainer.allocate(layout.MOVED, SECONDS):
            info = shard.info
            oracle.fill(shard.bytes, info.array, info.element_type, info.shape, info.box.lo, info.box.hi, 0)
        trainer.seal(layout.MOVED)
    trainers[0].wait_ready(layout.MOVED, SECONDS)
    targets = reshard_pb2.Targets(shardings={"all": sharding(layout.COLUMNS)}, arrays=[
        reshard_pb2.TargetArray(name=array, sharding=sharding_pb2.Sharding(ref="all")) for array, _, _ in layout.ARRAYS])
    trainers[0].wait_execution(trainers[0].start_reshard(layout.MOVED, 1, targets).name, SECONDS)
    trainers[0].create_state(state(cluster, layout.UNSEALED))
    for trainer in trainers:
        trainer.read(layout.MOVED, 2, SECONDS)  # committed there, too
        trainer.close()


def main() -> None:
    archive = pathlib.Path(sys.argv[1])
    with LocalCluster(layout.bin_dir(), layout.HOSTS, layout.DEVICES // layout.HOSTS, layout.BYTES) as cluster:
        fill(cluster)
        for process in (*cluster.workers.values(), cluster.server):
            process.stop()
        made = cluster.root / "made.json"
        made.write_text(json.dumps({"version": remesh.__version__, "states": {layout.MOVED: "READY", layout.UNSEALED: "BUILDING"}, "generation": 2}))
        with tarfile.open(archive, "w") as files:
            files.add(made, "made.json")
            for path in sorted(cluster.root.glob("journal.db*")):
                if path.suffix != ".ballast":  # 16 MiB of nothing; the server makes it anew
                    files.add(path, f"journal/{path.name}")
            for host in cluster.host_names:
                files.add(cluster.buffers / host, f"buffers/{host}")
    print(f"{archive}: what remesh {remesh.__version__} left, {archive.stat().st_size} bytes")


if __name__ == "__main__":
    main()
