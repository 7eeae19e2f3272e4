#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How long a large job's layouts and the plan of its restore take, beside a real server.

    PYTHONPATH=build/release/python tests/benchmark/restore_plan.py [--bin-dir build/release/bin]

A job of 1,137 arrays, FSDP 512 x DP 8 over 4,096 devices, saves with two replicas and is restored
over other meshes, with 8 worker devices a host and with 1. Prints the size of the save's spec, the
seconds that its layout takes, and those of the plan: the server's answer to CreatePlan. A layout
that is refused is printed with its reason.
"""

import argparse
import itertools
import pathlib
import subprocess
import tempfile
import time

import grpc

from remesh import storage
from remesh.v1 import plan_pb2, plan_pb2_grpc, topology_pb2

ARRAYS, DEVICES_PER_HOST = 1137, 8
SHAPES = [
    ((8192, 8192), (1, None)),
    ((8192, 1024), (1, None)),
    ((8192, 28672), (1, None)),
    ((28672, 8192), (None, 1)),
    ((8192,), (1,)),
    ((8192,), (None,)),
    ((), ()),
]
SAVED = (8, 512)  # DP, FSDP
RESTORED = [(16, 256), (4, 512), (8, 256), (2, 384)]


def job(mesh):
    """The arrays of a job, and the hosts of its processes."""
    classes = [holders(shape, mesh, axes) for shape, axes in SHAPES]
    arrays = [
        storage.Array(f"params.layers.{i}.attention.wq.kernel", "bf16", classes[i % len(classes)])
        for i in range(ARRAYS)
    ]
    return arrays, list(range(mesh[0] * mesh[1] // DEVICES_PER_HOST))


def holders(shape, mesh, axes):
    """The boxes of a mesh, row-major over its devices; axes[d]: mesh axis that cuts dimension d."""
    entries = []
    for device, position in enumerate(itertools.product(*map(range, mesh))):
        tiles = [(position[axis], mesh[axis]) if axis is not None else (0, 1) for axis in axes]
        low = [extent * i // n for extent, (i, n) in zip(shape, tiles)]
        high = [extent * (i + 1) // n for extent, (i, n) in zip(shape, tiles)]
        entries.append((device // DEVICES_PER_HOST, low, high))
    return storage.Holders.of(shape, entries)


def hosts_of(count, devices):
    return [
        storage.Host(f"host-{i}", tuple(range(i * devices, (i + 1) * devices)), False)
        for i in range(count)
    ]


def topology(hosts):
    return topology_pb2.Topology(
        hosts=[
            topology_pb2.Host(name=host.name, preset="hgx-h100", device_ids=host.devices)
            for host in hosts
        ]
    )


def plan_spec(source, target, hosts):
    """The question that a restore asks: from the save's spec to the targets."""
    spec = plan_pb2.PlanSpec(topology=topology(hosts))
    for prefix, side in (("source.", source), ("target.", target)):
        for key, sharding in side.shardings.items():
            spec.shardings[prefix + key].CopyFrom(sharding)
            if sharding.HasField("devices") and sharding.devices.WhichOneof("form") == "ref":
                spec.shardings[prefix + key].devices.ref = prefix + sharding.devices.ref
        for key, devices in side.device_lists.items():
            spec.device_lists[prefix + key].CopyFrom(devices)
    wanted = {array.name: array.sharding.ref for array in target.arrays}
    for array in source.arrays:
        one = spec.arrays.add(name=array.name, shape=array.shape, element_type=array.element_type)
        one.source.ref = "source." + array.sharding.ref
        one.target.ref = "target." + wanted[array.name]
    return spec


def measure(stub, devices):
    arrays, saving = job(SAVED)
    hosts = hosts_of(len(saving), devices)
    start = time.monotonic()
    try:
        source = storage.spec(storage.stored(arrays, hosts, saving, 2))
    except storage.LayoutTooLarge as refused:
        print(f"{devices} worker devices a host: refused: {refused}")
        return
    seconds = time.monotonic() - start
    print(
        f"{devices} worker devices a host: spec {source.ByteSize() / 1024:.0f} KiB, storage "
        f"{seconds:.2f} s",
        flush=True,
    )
    for mesh in RESTORED:
        arrays, restoring = job(mesh)
        start = time.monotonic()
        try:
            target = storage.targets(storage.wanted(arrays, hosts, restoring))
        except storage.LayoutTooLarge as refused:
            print(f"  to {mesh[0]} x {mesh[1]}: refused: {refused}")
            continue
        wanted = time.monotonic() - start
        request = plan_pb2.CreatePlanRequest(
            spec=plan_spec(source, target, hosts), validate_only=True
        )
        start = time.monotonic()
        try:
            summary = stub.CreatePlan(request, timeout=300).plan.summary
            what = (
                f"{summary.windows} windows, {summary.crossing_bytes / 2**30:.1f} GiB between hosts"
            )
        except grpc.RpcError as refused:
            what = f"refused: {refused.details()}"
        print(
            f"  to DP {mesh[0]} x FSDP {mesh[1]}: targets {wanted:.2f} s, "
            f"{target.ByteSize() / 1024:.0f} KiB; plan {time.monotonic() - start:.2f} s; {what}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin-dir", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ports = pathlib.Path(folder) / "ports"
        argv = [
            options.bin_dir / "remesh-server",
            "--listen-address=127.0.0.1:0",
            "--metrics-address=",
            "--log-level=warning",
            f"--port-file={ports}",
            f"--journal-path={folder}/journal.db",
            f"--plan-store-path={folder}/plans.db",
        ]
        with subprocess.Popen(argv) as server:
            try:
                while not ports.exists() and server.poll() is None:
                    time.sleep(0.05)
                named = dict(
                    line.split(": ") for line in ports.read_text(encoding="ascii").splitlines()
                )
                with grpc.insecure_channel(
                    f"127.0.0.1:{named['listen_port']}", [("grpc.max_send_message_length", -1)]
                ) as channel:
                    for devices in (8, 1):
                        measure(plan_pb2_grpc.PlanServiceStub(channel), devices)
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
