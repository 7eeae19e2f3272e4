# SPDX-License-Identifier: Apache-2.0
"""The workers' section: bytes a second over real processes of this machine, and what bounds them.

scripts/bench worker [--gigabytes N] [--moves N]: four workers with a device each, f64[8000, 8000] arrays (512 MB each) from rows to
columns and back, over UCX on loopback.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import statistics
import sys
import time
import urllib.request

from report import table

TITLE = "Execution"
TARGETS = ["remesh-server", "remesh-worker", "python_proto"]
STATE = "jobs/bench/states/s"
WORKERS = 4
SIDE = 8000
ARRAY_BYTES = 8 * SIDE * SIDE
PHASES = ("reserving", "fetching", "opening", "transferring", "verifying", "verified", "committing")

LEGEND = """`remesh-server`, {workers} `remesh-worker`s (default settings) and the caller share this machine's {cores} cores; {arrays} × f64[{side}, {side}]
go from rows to columns and back: a quarter is copied inside its host, three quarters cross hosts as TCP over loopback. Every byte is hashed where it is read, where it arrives,
and once more at its origin before the commit. Medians of {moves} moves after one that is not counted (best in parentheses); load average before: {load}.
*Processor seconds* are the workers', which on a machine that does other things as well say more than wall time."""

BOUNDS = """What a byte costs, in the order of its way: hash at the origin (read); copy into the socket; copy out of it into UCX's buffer; copy to its place, or
unpacking; hash on arrival (read, from cache); hash at the origin again (read). Columns are packed first, and unpacked where they arrive. A byte inside a host: copy, hash of the
copy, hash of the source. Memory for the target generation is made anew, and the source generation's freed: in huge pages where the kernel gives them
(`worker/store/huge_pages.h`), otherwise page faults and zeroing cost more than all copies together."""


def measure(build, arguments):
    parser = argparse.ArgumentParser(prog="scripts/bench worker")
    parser.add_argument("--gigabytes", type=float, default=1.0, help="of the state (default 1)")
    parser.add_argument("--moves", type=int, default=6, help="to measure (default 6)")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(build / "python"))
    load = " ".join(f"{x:.1f}" for x in os.getloadavg())
    arrays = max(1, round(options.gigabytes * 1e9 / ARRAY_BYTES))
    with _cluster(build, arrays) as cluster:
        moves = _run(cluster, arrays, options.moves)
    size = arrays * ARRAY_BYTES
    legend = LEGEND.format(workers=WORKERS, cores=os.cpu_count(), arrays=arrays, side=SIDE, moves=options.moves, load=load)
    return [legend, "", *table(["figure", "rows → columns", "columns → rows"], _figures(moves, size)), "", BOUNDS]


def _figures(moves, size):
    def row(name, value, form, lowest=True):
        cells = []
        for way in (0, 1):
            values = [value(move) for move in moves[way::2]]
            best = min(values) if lowest else max(values)
            cells.append(f"{form.format(statistics.median(values))} ({form.format(best)})")
        return [name, *cells]
    yield row("GB/s, request to commit", lambda m: size / m["seconds"] / 1e9, "{:.2f}", lowest=False)
    yield row("GB/s, transfer and verification alone", lambda m: size / m["transfer_seconds"] / 1e9, "{:.2f}", lowest=False)
    yield row("processor seconds a GB", lambda m: (m["user"] + m["system"]) / size * 1e9, "{:.2f}")
    yield row("of these in the kernel", lambda m: m["system"] / size * 1e9, "{:.2f}")
    yield row("page faults a GB", lambda m: m["faults"] / size * 1e9, "{:.0f}")
    for phase in PHASES:
        yield row(f"seconds {phase}, mean of the workers", lambda m, phase=phase: m["phases"][phase], "{:.3f}")
    yield row("memcpy of as much on one core, GB/s", lambda m: m["memcpy"], "{:.2f}", lowest=False)


def _cluster(build, arrays):
    from remesh.local_cluster import LocalCluster  # built by TARGETS
    return LocalCluster(build / "bin", WORKERS, devices_per_host=1, buffer_bytes=2 * arrays * ARRAY_BYTES)


def _run(cluster, arrays, count):
    from remesh.trainer import Trainer
    trainers = [Trainer(cluster.server_address, cluster.worker_socket(host)) for host in cluster.host_names]
    _create(trainers, cluster, arrays)
    moves = []
    for generation in range(1, count + 2):
        before, phases_before = _usage(cluster), _phases(cluster)
        move = _move(trainers[0], generation, arrays)
        after, phases_after = _usage(cluster), _phases(cluster)
        move |= {key: after[key] - before[key] for key in after}
        move["phases"] = {phase: (phases_after[phase] - phases_before[phase]) / WORKERS for phase in PHASES}
        move["memcpy"] = _memcpy_gigabytes_a_second()
        print(f"move {generation}: {json.dumps(move)}", file=sys.stderr)
        moves.append(move)
    # The first is not like the others: nobody has touched the memory before.
    moves = moves[1:]
    return moves if len(moves) % 2 == 0 or len(moves) == 1 else moves[:-1]


def _sharding(way):
    from remesh.v1 import sharding_pb2
    text = [f"{{devices=[{WORKERS},1]<=[{WORKERS}]}}", f"{{devices=[1,{WORKERS}]<=[{WORKERS}]}}"][way]
    return sharding_pb2.Sharding(hlo_text=text, devices=sharding_pb2.DeviceList(ids=range(WORKERS)))


def _create(trainers, cluster, arrays):
    from remesh.v1 import state_pb2, topology_pb2
    hosts = [topology_pb2.Host(name=host, device_ids=cluster.device_ids(host), nics=1, nic_bytes_per_second=12.5e9,
                               fabric_bytes_per_second=1e11) for host in cluster.host_names]
    # The first move, which is not counted, goes from columns to rows.
    spec = state_pb2.StateSpec(topology=topology_pb2.Topology(hosts=hosts), shardings={"all": _sharding(1)})
    for array in range(arrays):
        added = spec.arrays.add(name=f"w{array}", shape=[SIDE, SIDE], element_type="f64")
        added.sharding.ref = "all"
    trainers[0].create_state(state_pb2.State(name=STATE, spec=spec))
    for trainer in trainers:
        for shard in trainer.allocate(STATE):
            shard.bytes[:] = 7
        trainer.seal(STATE)
    trainers[0].wait_ready(STATE, 60)


def _move(trainer, generation, arrays):
    from remesh.v1 import reshard_pb2, sharding_pb2
    targets = reshard_pb2.Targets(shardings={"all": _sharding((generation + 1) % 2)}, arrays=[
        reshard_pb2.TargetArray(name=f"w{array}", sharding=sharding_pb2.Sharding(ref="all")) for array in range(arrays)])
    started = time.monotonic()
    ended = trainer.wait_execution(trainer.start_reshard(STATE, generation, targets).name)
    seconds = time.monotonic() - started
    transfer = ended.transfer_end_time.ToNanoseconds() - ended.transfer_start_time.ToNanoseconds()
    return {"seconds": seconds, "transfer_seconds": transfer / 1e9, "windows": ended.windows}


def _usage(cluster):
    """Processor seconds and page faults of all workers so far."""
    total = collections.Counter()
    ticks = os.sysconf("SC_CLK_TCK")
    for worker in cluster.workers.values():
        fields = pathlib.Path(f"/proc/{worker.popen.pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += {"user": int(fields[11]) / ticks, "system": int(fields[12]) / ticks, "faults": int(fields[7])}
    return total


def _phases(cluster):
    """Seconds that attempts spent in each phase, summed over the workers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    total = collections.Counter()
    for host in cluster.host_names:
        port = re.search(r"metrics_port: (\d+)", (cluster.root / f"{host}.ports").read_text())[1]
        text = opener.open(f"http://127.0.0.1:{port}/metrics", timeout=30).read().decode()
        for phase, seconds in re.findall(r'remesh_worker_phase_seconds_sum\{phase="(\w+)"\} (\S+)', text):
            total[phase] += float(seconds)
    return total


def _memcpy_gigabytes_a_second():
    import numpy
    source, target = numpy.ones(1 << 27, numpy.uint8), numpy.zeros(1 << 27, numpy.uint8)
    numpy.copyto(target, source)
    started = time.process_time()
    numpy.copyto(target, source)
    return len(source) / (time.process_time() - started) / 1e9
