# SPDX-License-Identifier: Apache-2.0
"""The messages' section: what a message costs beside its bytes.

scripts/bench messages [--moves N]. Needs root, `ip` and `tc`: without them it says SKIP and writes
nothing.
"""

import argparse
import dataclasses
import json
import os
import statistics
import sys

import numpy

import namespaces
from report import table

TITLE = "What a message costs"
TARGETS = [
    "remesh-server",
    "remesh-worker",
    "remesh-worker-sim",
    "remesh-keeper",
    "remesh_fake_nccl",
    "python_proto",
]
STATE = "jobs/bench/states/s"
DEVICES = 72  # a host's
PEERS = (1, 4, 16, 64)
SIZES = tuple(1 << exponent for exponent in (12, 14, 16, 18, 20, 22, 24))
BYTES_MAX = 512 << 20  # of a move that is measured
SAME_BYTES = 567 << 20  # of the two moves that are compared: whole pages a message in either
COUNTED_BYTES_MIN = 16 << 20  # below, a tick of the processor's account is most of the seconds
RATIO_MAX = 1.2
TURNS = 3
SIMULATED = "the fake NCCL between simulated GPUs"  # of which only processor seconds say something

LEGEND = """Two workers of {devices} devices each, in network namespaces of their own with a veth
pair that nothing limits, share this machine's {cores} cores with the server. *p* devices of one
host send to *p* of the other, every one to every one, messages of one size; then back. *Transfer*
is from the first grant to the last host that verified, *processor seconds* are both workers', from
{counted} MiB on. Medians of {moves} moves after two that are not counted, and of {turns} turns where two are
compared. The fit is t = c + bytes ÷ R + messages × g, by least squares of relative errors. Load
average before: {load}."""


@dataclasses.dataclass(frozen=True)
class Case:
    devices: int  # of either host
    peers: int  # that each device sends to
    message_bytes: int

    @property
    def messages(self):
        return self.devices * self.peers

    @property
    def bytes(self):
        return self.messages * self.message_bytes


@dataclasses.dataclass(frozen=True)
class Measured:
    case: Case
    windows: int
    seconds: float  # of the transfer
    cpu_seconds: float  # of both workers


@dataclasses.dataclass(frozen=True)
class Fit:
    constant_seconds: float
    bytes_per_second: float
    message_seconds: float
    error: float  # the median of |fitted / measured - 1|


def measure(build, arguments):
    parser = argparse.ArgumentParser(prog="scripts/bench messages")
    parser.add_argument("--moves", type=int, default=8, help="to measure of each case (default 8)")
    options = parser.parse_args(arguments)
    namespaces.skip_unless_possible()
    sys.path.insert(0, str(build / "python"))
    load = " ".join(f"{x:.1f}" for x in os.getloadavg())
    lines = [
        LEGEND.format(
            devices=DEVICES,
            moves=options.moves,
            turns=TURNS,
            cores=os.cpu_count(),
            load=load,
            counted=COUNTED_BYTES_MIN >> 20,
        )
    ]
    with namespaces.network(2) as names:
        for device, title in (("host", "TCP between host memories"), ("sim", SIMULATED)):
            lines += ["", *_many_to_few(build, names, device, title, options.moves)]
        lines += ["", *_fit(build, names, options.moves)]
    return lines


def _many_to_few(build, names, device, title, moves):
    """Processor seconds of the same bytes between the same devices in many messages and in few, by
    turns: the machine is faster in some minutes than in others."""
    turns = [
        [_measured(build, names, device, case, moves) for case in _of_equal_bytes()]
        for _ in range(TURNS)
    ]
    few, many = (_median_by_cpu(list(of_case)) for of_case in zip(*turns))
    ratio = many.cpu_seconds / few.cpu_seconds
    return [
        f"Over {title}, the same {SAME_BYTES >> 20} MiB between {DEVICES} and {DEVICES} devices in "
        f"{many.case.messages} messages ({many.windows} windows) and in {few.case.messages} "
        f"({few.windows}): {_cpu_per_gb(many):.2f} and {_cpu_per_gb(few):.2f} processor seconds a "
        f"GB, ratio {ratio:.2f} (limit {RATIO_MAX}: "
        f"{'holds' if ratio <= RATIO_MAX else '**missed**'})."
    ]


def _median_by_cpu(measured):
    return sorted(measured, key=lambda each: each.cpu_seconds)[len(measured) // 2]


def _fit(build, names, moves):
    measured = [_measured(build, names, "host", case, moves) for case in _cases()]
    fit = fitted(measured)
    header = [
        "peers",
        "message",
        "messages",
        "windows",
        "MB",
        "transfer s",
        "fitted s",
        "processor seconds a GB",
    ]
    return [
        f"Over TCP, R = {fit.bytes_per_second / 1e9:.2f} GB/s, "
        f"g = {fit.message_seconds * 1e6:.1f} µs, c = {fit.constant_seconds * 1e3:.1f} ms; "
        "half of the fitted times are within "
        f"{fit.error:.0%} of the measured ones.",
        "",
        *table(header, [_row(each, fit) for each in measured]),
    ]


def _cases():
    return [
        case
        for peers in PEERS
        for size in SIZES
        if (case := Case(peers, peers, size)).bytes <= BYTES_MAX
    ]


def _of_equal_bytes():
    """Few large messages, and one for every pair of devices."""
    return [Case(DEVICES, peers, SAME_BYTES // (DEVICES * peers)) for peers in (3, DEVICES)]


def _row(measured, fit):
    case = measured.case
    expected = (
        fit.constant_seconds
        + case.bytes / fit.bytes_per_second
        + case.messages * fit.message_seconds
    )
    return [
        str(case.peers),
        _size(case.message_bytes),
        str(case.messages),
        str(measured.windows),
        f"{case.bytes / 1e6:.1f}",
        f"{measured.seconds:.4f}",
        f"{expected:.4f}",
        f"{_cpu_per_gb(measured):.2f}" if case.bytes >= COUNTED_BYTES_MIN else "-",
    ]


def _size(count):
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def _cpu_per_gb(measured):
    return measured.cpu_seconds / (measured.case.bytes / 1e9)


def fitted(measured):
    """Of t = c + bytes / R + messages * g, each row divided by its t."""
    seconds = numpy.array([each.seconds for each in measured])
    terms = numpy.array([[1.0, each.case.bytes, each.case.messages] for each in measured])
    constant, per_byte, per_message = numpy.linalg.lstsq(
        terms / seconds[:, None], numpy.ones(len(seconds)), rcond=None
    )[0]
    errors = abs(terms @ [constant, per_byte, per_message] / seconds - 1)
    return Fit(constant, 1 / per_byte, per_message, float(numpy.median(errors)))


# ---- the moves ----


def _measured(build, names, device, case, count):
    """Workers of its own for every case, so that none finds the memory of another."""
    from remesh.trainer import Trainer

    buffers = "host" if device == "host" else "device"
    with namespaces.cluster(
        build,
        names,
        devices_per_host=DEVICES,
        buffer_bytes=6 * case.bytes,
        device=device,
        device_buffers=buffers,
    ) as cluster:
        trainer = Trainer(cluster.server_address, cluster.worker_socket(cluster.host_names[0]))
        _create(trainer, case)
        moves = [_move(cluster, trainer, generation, case) for generation in range(1, count + 3)][
            2:
        ]
    seconds, cpu_seconds, windows = (
        statistics.median(move[key] for move in moves)
        for key in ("seconds", "cpu_seconds", "windows")
    )
    print(f"{device} {case}: {json.dumps(moves[-1])}", file=sys.stderr)
    return Measured(case, int(windows), seconds, cpu_seconds)


def _sharding(case, way):
    """Rows on the first host's devices, columns on the second's, of as many rows as make each of
    them need something of `peers` rows."""
    from remesh.v1 import sharding_pb2

    rows, columns = ((case.devices, 1), (case.devices // case.peers, case.peers))[way]
    first = way * DEVICES
    return sharding_pb2.Sharding(
        hlo_text=f"{{devices=[{rows},{columns},1]<=[{case.devices}]}}",
        devices=sharding_pb2.DeviceList(ids=range(first, first + case.devices)),
    )


def _create(trainer, case):
    from remesh.v1 import state_pb2

    spec = state_pb2.StateSpec()
    spec.arrays.add(
        name="w", shape=[case.devices, case.peers, case.message_bytes], element_type="u8"
    ).sharding.CopyFrom(_sharding(case, 0))
    trainer.create_state(state_pb2.State(name=STATE, spec=spec))
    for shard in trainer.allocate(STATE):
        shard.bytes[:] = 7
    trainer.seal(STATE)
    trainer.wait_ready(STATE, 120)


def _move(cluster, trainer, generation, case):
    from remesh.v1 import reshard_pb2

    targets = reshard_pb2.Targets()
    targets.arrays.add(name="w").sharding.CopyFrom(_sharding(case, generation % 2))
    before = _cpu_seconds(cluster)
    ended = trainer.wait_execution(trainer.start_reshard(STATE, generation, targets).name)
    transfer = ended.transfer_end_time.ToNanoseconds() - ended.transfer_start_time.ToNanoseconds()
    return {
        "seconds": transfer / 1e9,
        "cpu_seconds": _cpu_seconds(cluster) - before,
        "windows": ended.windows,
    }


def _cpu_seconds(cluster):
    """Of all workers since they began. They are the children that `ip netns exec` became."""
    ticks = 0
    for worker in cluster.workers.values():
        with open(f"/proc/{worker.popen.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
