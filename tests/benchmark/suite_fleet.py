# SPDX-License-Identifier: Apache-2.0
"""The section of large fleets: what hosts cost the server when they register, are idle, move a
state, and come back.

scripts/bench fleet [HOSTS...]    numbers of hosts; default: 1000 4000 16384 for Registers, 1024
2048 16384 for moves
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from report import table

TITLE = "Large fleets"
TARGETS = ["remesh-server", "fleet-workers", "python_proto"]
DEVICES = 8  # of a host
ARRAYS = 20
STATE = "jobs/bench/states/s"
SETTLE_SECONDS, IDLE_SECONDS = 2, 20
MOVE_SECONDS = 600
REGISTER_LIMIT_MS = 0.3
CORES_LIMIT, HEARTBEAT_LIMIT_US = 0.4, 25
PREPARE_LIMIT_KIB = 4
MOVE_LIMITS = {1024: (0.6, 100), 2048: (1.2, 150), 16384: (10, 600)}  # seconds of CPU, MB over idle
DEFAULT_HOSTS = [1000, 1024, 2048, 4000, 16384]
ALL_TO_ALL_HOSTS, ALL_TO_ALL_LIMIT_MB = 1024, 300  # peak over idle

LEGEND = """A real `remesh-server` on one core, with its SQLite journal, and fake workers of {devices} devices
in one process beside it, on another core if there is one: real gRPC streams over at most 200
connections, a heartbeat after as much silence as the server asks for, an immediate answer to every
command, no data. CPU is that of the server's process. *Move*: a flat state of {arrays} arrays over
all hosts (15 arrays over 16,384 hosts: a state has at most 2,000,000 shards) goes to all but the
last, and back; the plan is cached before. Load average before: {load}."""

MISSES = """A heartbeat costs more than its limit: with Debian's gRPC 1.51 a message to a server that does
nothing with it takes 29 µs. An idle server of 16,384 workers spends a quarter of its time switching
threads and a tenth in gRPC's search through all open operations, which that package, built with
assertions, makes for every message. More or fewer polling threads (16, 4, 2 or none beside gRPC's
own) change nothing. So workers send fewer heartbeats where there are many of them."""


def measure(build, arguments):
    counts = [int(argument) for argument in arguments] or DEFAULT_HOSTS
    sys.path.insert(0, str(build / "python"))
    load = " ".join(f"{x:.1f}" for x in os.getloadavg())
    rows = []
    for hosts in counts:
        for row in rows_of(build, hosts):
            print(" | ".join(row), flush=True)
            rows.append(row)
    return [
        LEGEND.format(devices=DEVICES, arrays=ARRAYS, load=load),
        "",
        *table(["figure", "limit", "measured", "holds"], rows),
        "",
        MISSES,
    ]


def rows_of(build, hosts):
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder, Server(
        build, pathlib.Path(folder)
    ) as server:
        with Fleet(build, server, hosts) as fleet:
            yield from register_rows(server, fleet, hosts)
            yield from idle_rows(server, fleet, hosts)
            client = Client(server)
            client.create_state(hosts)
            fleet.wait_until("every shard sealed", lambda: client.phase() == "READY")
            yield from move_rows(server, fleet, client, hosts)
            yield from program_rows(server, fleet, client, hosts)
            yield from restart_rows(server, fleet, client, hosts)
    yield from start_rows(server)
    if hosts == ALL_TO_ALL_HOSTS:
        yield from all_to_all_rows(build, hosts)


# ---- what is measured ----


def register_rows(server, fleet, hosts):
    before = server.cpu_seconds()
    attached = fleet.ask("attach")
    cpu = 1e3 * (server.cpu_seconds() - before) / hosts
    yield [
        f"{hosts:,} hosts: CPU of a Register",
        f"≤ {REGISTER_LIMIT_MS} ms",
        f"{cpu:.2f} ms ({attached['seconds']:.1f} s for all)",
        holds(cpu <= REGISTER_LIMIT_MS),
    ]


def idle_rows(server, fleet, hosts):
    time.sleep(SETTLE_SECONDS)
    fleet.ask("counts")
    before = server.cpu_seconds()
    time.sleep(IDLE_SECONDS)
    seconds = server.cpu_seconds() - before
    beats = fleet.ask("counts")["heartbeats"]
    cores, of_one = seconds / IDLE_SECONDS, seconds / max(1, beats)
    yield [
        f"{hosts:,} hosts, idle: cores",
        f"≤ {CORES_LIMIT}",
        f"{cores:.2f} ({beats / IDLE_SECONDS:,.0f} heartbeats a second)",
        holds(cores <= CORES_LIMIT),
    ]
    yield [
        f"{hosts:,} hosts, idle: CPU of a heartbeat",
        f"≤ {HEARTBEAT_LIMIT_US} µs",
        f"{1e6 * of_one:.0f} µs",
        holds(1e6 * of_one <= HEARTBEAT_LIMIT_US),
    ]
    yield [f"{hosts:,} hosts, idle: resident", "–", f"{server.memory('VmRSS'):.0f} MB", ""]


def move_rows(server, fleet, client, hosts):
    targets = [(hosts - 1) * DEVICES, hosts * DEVICES]
    for generation, devices in enumerate(targets, 1):
        client.plan(generation, devices)  # cached from now on
        fleet.ask("counts")
        idle = server.memory("VmRSS")
        server.reset_peak()
        cpu, begin = server.cpu_seconds(), time.monotonic()
        client.start(generation, devices)
        fleet.wait_until("every host committed", lambda: fleet.commits >= hosts)
        client.wait_succeeded(fleet)
        seconds = time.monotonic() - begin
        cpu = server.cpu_seconds() - cpu
        more = server.memory("VmHWM") - idle
        seen = fleet.total
        limits = MOVE_LIMITS.get(hosts)
        what = f"{hosts:,} hosts, {'one host less' if generation == 1 else 'and back'}"
        yield [
            f"{what}: CPU",
            f"≤ {limits[0]} s" if limits else "–",
            f"{cpu:.2f} s (SUCCEEDED after {seconds:.1f} s)",
            holds(cpu <= limits[0]) if limits else "",
        ]
        yield [
            f"{what}: peak over idle",
            f"≤ {limits[1]} MB" if limits else "–",
            f"{more:.0f} MB",
            holds(more <= limits[1]) if limits else "",
        ]
        kib = seen["prepare_bytes"] / max(1, seen["prepares"]) / 1024
        yield [
            f"{what}: Prepares",
            f"≤ {PREPARE_LIMIT_KIB} KiB a host",
            f"{kib:.1f} KiB a host, largest {seen['largest_prepare'] / 1024:.1f} KiB, {seen['prepare_bytes'] / 1e6:.1f} MB in all",
            holds(seen["largest_prepare"] <= PREPARE_LIMIT_KIB * 1024),
        ]


def all_to_all_rows(build, hosts):
    """Rows to columns, on one device of each host: every host exchanges with every other."""
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder, Server(
        build, pathlib.Path(folder)
    ) as server, Fleet(build, server, hosts) as fleet:
        fleet.ask("attach")
        client = Client(server, rows, columns, shape=[hosts, hosts], arrays=1)
        client.create_state(hosts)
        fleet.wait_until("every shard sealed", lambda: client.phase() == "READY")
        client.plan(1, hosts * DEVICES)
        fleet.ask("counts")
        idle = server.memory("VmRSS")
        server.reset_peak()
        cpu = server.cpu_seconds()
        client.start(1, hosts * DEVICES)
        fleet.wait_until("every host committed", lambda: fleet.commits >= hosts)
        client.wait_succeeded(fleet)
        cpu, more, seen = server.cpu_seconds() - cpu, server.memory("VmHWM") - idle, fleet.total
    yield [
        f"{hosts:,} hosts, all to all: peak over idle",
        f"≤ {ALL_TO_ALL_LIMIT_MB} MB",
        f"{more:.0f} MB ({cpu:.1f} s of CPU; Prepares: largest {seen['largest_prepare'] / 1024:.0f} KiB, {seen['prepare_bytes'] / 1e6:.0f} MB in all)",
        holds(more <= ALL_TO_ALL_LIMIT_MB),
    ]


def program_rows(server, fleet, client, hosts):
    """A third move, for which each host fetches its program, while a job of 4 hosts asks for a move
    of its own that is planned already."""
    other = Client(server, state="jobs/other/states/s")
    other.create_state(4)
    fleet.wait_until("the other state sealed", lambda: other.phase() == "READY")
    other.plan(1, 3 * DEVICES)
    client.plan(3, (hosts - 1) * DEVICES)
    fleet.ask("programs")
    fleet.ask("counts")
    waits, begin, served = [], time.monotonic(), None
    client.start(3, (hosts - 1) * DEVICES)
    while fleet.commits < hosts:
        if served is None and fleet.total["programs"] >= hosts:
            served = time.monotonic() - begin
        asked = time.monotonic()
        other.plan(1, 3 * DEVICES)
        waits.append(time.monotonic() - asked)
    served = served or time.monotonic() - begin
    client.wait_succeeded(fleet)
    limit = 3 if hosts == 2048 else None
    yield [
        f"{hosts:,} hosts: programs of all hosts served",
        f"≤ {limit} s" if limit else "–",
        f"{served:.1f} s ({fleet.total['program_bytes'] / 1e6:.1f} MB)",
        holds(served <= limit) if limit else "",
    ]
    p99 = 1e3 * sorted(waits)[len(waits) * 99 // 100]
    yield [
        f"{hosts:,} hosts: cached StartExecution of a 4-host job beside it, p99",
        "≤ 100 ms",
        f"{p99:.0f} ms ({len(waits)} calls)",
        holds(p99 <= 100),
    ]


def restart_rows(server, fleet, client, hosts):
    server.kill()
    fleet.wait_until("every stream ended", lambda: fleet.attached == 0)
    lost_before = server.hosts_lost()
    begin = time.monotonic()
    server.start()
    listens = time.monotonic()
    back = fleet.ask("wait")
    seconds = time.monotonic() - begin
    cpu = server.cpu_seconds()
    phase, lost = Client(server).phase(), server.hosts_lost() - lost_before
    limit = 7 if hosts == 16384 else None
    yield [
        f"{hosts:,} hosts back after kill -9: from the start of the server",
        f"≤ {limit} s" if limit else "–",
        f"{seconds:.1f} s ({listens - begin:.1f} s until it listens, {cpu:.1f} s of CPU; "
        f"{back['attached']:,} attached, {lost} lost by then, state {phase})",
        holds(seconds <= limit and phase == "READY" and not lost) if limit else "",
    ]


def start_rows(server):
    """Shutdown, and start on a journal with all hosts. The workers have gone."""
    hosts = server.hosts
    yield [
        f"{hosts:,} hosts in the journal: shutdown; start",
        "≤ 3 s each",
        f"{server.stop_seconds:.1f} s; {server.start_seconds:.1f} s",
        holds(server.stop_seconds <= 3 and server.start_seconds <= 3),
    ]


def holds(does):
    return "yes" if does else "**no**"


# ---- processes ----


def on_core(core):
    """A command's prefix that keeps it on one core; nothing where there is one core only."""
    return (
        ["taskset", "-c", str(core)]
        if shutil.which("taskset") and (os.cpu_count() or 1) > 1
        else []
    )


class Server:
    def __init__(self, build, folder, settings=()):
        """settings: more lines of its configuration."""
        self.client = None  # who started a move last
        self._binary, self._folder, self._port = build / "bin" / "remesh-server", folder, 0
        self._settings = settings
        self.hosts = 0
        self.start()

    def start(self):
        ports = self._folder / "ports"
        ports.unlink(missing_ok=True)
        config = self._folder / "config.yaml"
        config.write_text(
            "\n".join(
                [
                    f"listen_address: 127.0.0.1:{self._port}",
                    "metrics_address: ''",
                    "log_level: warning",
                    "connections_per_address: 1000",
                    f"journal_path: {self._folder / 'journal.db'}",
                    f"port_file: {ports}",
                    *self._settings,
                    "",
                ]
            )
        )
        begin = time.monotonic()
        with open(self._folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [*on_core(0), self._binary, "--config", config], stderr=log
            )
        while not ports.exists():
            if self.process.poll() is not None:
                sys.exit((self._folder / "log").read_text()[-2000:])
            time.sleep(0.01)
        self.start_seconds = time.monotonic() - begin
        self._port = int(re.search(r"listen_port: (\d+)", ports.read_text())[1])

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        begin = time.monotonic()
        self.process.terminate()
        self.process.wait()
        self.stop_seconds = time.monotonic() - begin

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Stops it, and starts it once more to see how long that takes."""
        if self.process.poll() is None and sys.exc_info()[0] is None:
            self.stop()
            self.start()
        with contextlib.suppress(ProcessLookupError):
            self.kill()

    @property
    def address(self):
        return f"127.0.0.1:{self._port}"

    def cpu_seconds(self):
        fields = self._proc("stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, key):
        """VmRSS: resident now; VmHWM: the most since reset_peak(). In MB."""
        return (
            int(re.search(rf"^{key}:\s*(\d+)", self._proc("status").read_text(), re.M)[1])
            * 1024
            / 1e6
        )

    def hosts_lost(self):
        """How often its log says that a host is away."""
        return (self._folder / "log").read_text().count(" is away: ")

    def reset_peak(self):
        self._proc("clear_refs").write_text("5")

    def _proc(self, name):
        return pathlib.Path(f"/proc/{self.process.pid}/{name}")


class Fleet:
    """The process of all fake workers."""

    def __init__(self, build, server, hosts):
        server.hosts = hosts
        self._server = server
        self.process = subprocess.Popen(
            [
                *on_core(1),
                build / "bin" / "fleet-workers",
                "--server",
                server.address,
                "--hosts",
                str(hosts),
                "--devices",
                str(DEVICES),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.total = {}

    def ask(self, line):
        """For "counts", also sums the counts since the last ask("counts"); see `commits`."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if line == "counts":
            self.total = {}
        return answer

    def _look(self):
        self.process.stdin.write("counts\n")
        self.process.stdin.flush()
        for key, value in json.loads(self.process.stdout.readline()).items():
            more = self.total.get(key, 0) if key not in ("attached", "largest_prepare") else 0
            self.total[key] = (
                max(self.total.get(key, 0), value) if key == "largest_prepare" else value + more
            )
        if self.total["aborts"]:
            sys.exit(f"an attempt was aborted: {self._server.client.error()}")

    @property
    def commits(self):
        self._look()
        return self.total["commits"]

    @property
    def attached(self):
        self._look()
        return self.total["attached"]

    def wait_until(self, what, so):
        deadline = time.monotonic() + MOVE_SECONDS
        while not so():
            if time.monotonic() > deadline:
                sys.exit(f"not within {MOVE_SECONDS} s: {what}; {self.total}")
            time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


class Client:
    """A controller of one state. source, target: its shardings, by numbers of devices."""

    def __init__(self, server, source=None, target=None, shape=None, arrays=ARRAYS, state=STATE):
        self._state, self._server = state, server
        import grpc
        from remesh.testing import CHANNEL_OPTIONS
        from remesh.v1 import reshard_pb2_grpc, state_pb2_grpc

        channel = grpc.insecure_channel(
            server.address, [*CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", 1)]
        )
        self._states = state_pb2_grpc.StateServiceStub(channel)
        self._reshards = reshard_pb2_grpc.ReshardServiceStub(channel)
        self._source, self._target, self._shape, self._arrays = (
            source or flat,
            target or flat,
            shape,
            arrays,
        )

    def create_state(self, hosts):
        from remesh.v1 import state_pb2

        self._arrays = min(
            self._arrays, 2_000_000 // (hosts * DEVICES)
        )  # a state may have as many shards
        spec = state_pb2.StateSpec(shardings={"all": self._source(hosts * DEVICES)})
        for i in range(self._arrays):
            array = spec.arrays.add(
                name=f"a{i}", shape=self._shape or [(1 << 26) + 4096 * i], element_type="bf16"
            )
            array.sharding.ref = "all"
        self._states.CreateState(
            state_pb2.CreateStateRequest(state=state_pb2.State(name=self._state, spec=spec)),
            timeout=MOVE_SECONDS,
        )

    def phase(self):
        from remesh.v1 import state_pb2

        state = self._states.GetState(
            state_pb2.GetStateRequest(name=self._state), timeout=60, wait_for_ready=True
        )
        return state_pb2.State.Phase.Name(state.phase)

    def plan(self, generation, devices):
        self._start(generation, devices, validate_only=True)

    def start(self, generation, devices):
        self._server.client = self
        self._execution = self._start(generation, devices).name

    def wait_succeeded(self, fleet):
        fleet.wait_until(
            "the execution ends", lambda: self._execution_phase() in ("SUCCEEDED", "FAILED")
        )
        if self._execution_phase() == "FAILED":
            sys.exit(f"the execution failed: {self.error()}")

    def error(self):
        return self._get_execution().error.message

    def _execution_phase(self):
        from remesh.v1 import reshard_pb2

        return reshard_pb2.Execution.Phase.Name(self._get_execution().phase)

    def _get_execution(self):
        from remesh.v1 import reshard_pb2

        return self._reshards.GetExecution(
            reshard_pb2.GetExecutionRequest(name=self._execution), timeout=60
        )

    def _start(self, generation, devices, **more):
        from remesh.v1 import reshard_pb2, sharding_pb2

        targets = reshard_pb2.Targets(
            shardings={"all": self._target(devices)},
            arrays=[
                reshard_pb2.TargetArray(name=f"a{i}", sharding=sharding_pb2.Sharding(ref="all"))
                for i in range(self._arrays)
            ],
        )
        return self._reshards.StartExecution(
            reshard_pb2.StartExecutionRequest(
                state=self._state, expected_generation=generation, targets=targets, **more
            ),
            timeout=MOVE_SECONDS,
        )


def flat(devices):
    from remesh.v1 import sharding_pb2

    return sharding_pb2.Sharding(
        hlo_text=f"{{devices=[{devices}]<=[{devices}]}}",
        devices=sharding_pb2.DeviceList(
            range=sharding_pb2.DeviceList.Range(start=0, count=devices)
        ),
    )


def rows(devices):
    return on_first_devices(
        f"{{devices=[{devices // DEVICES},1]<=[{devices // DEVICES}]}}", devices
    )


def columns(devices):
    return on_first_devices(
        f"{{devices=[1,{devices // DEVICES}]<=[{devices // DEVICES}]}}", devices
    )


def on_first_devices(hlo_text, devices):
    """On the first device of each host."""
    from remesh.v1 import sharding_pb2

    return sharding_pb2.Sharding(
        hlo_text=hlo_text, devices=sharding_pb2.DeviceList(ids=range(0, devices, DEVICES))
    )
