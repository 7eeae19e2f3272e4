# SPDX-License-Identifier: Apache-2.0
"""The busy server's section: what other callers wait while one asks for the worst plans there are,
and what memory comes back."""

import contextlib
import os
import pathlib
import random
import re
import socket
import statistics
import sys
import threading
import time

from report import table

TITLE = "A busy planner"
TARGETS = ["remesh-server", "remesh-worker", "python_proto"]
WORST = 8
REFUSED = 100
WATCHES, PLANS = 1000, 2300
STATE = "jobs/bench/states/s"

LEGEND = """A real `remesh-server` with 2 planning threads and a worker on loopback of the same
machine, which share its cores with what asks. *Worst*: {worst} different requests at once, of one
caller or each of another, again as soon as each is answered: 60 arrays in random layouts of 2
replicas over 512 devices, or an all-to-all over 2,048 devices. Beside them one more caller asks for
plans over 4 devices that are not cached, and a job for a move whose plan is cached. Load average
before: {load}."""


def measure(build, arguments):
    if arguments:
        sys.exit("scripts/bench busy takes no further arguments")
    sys.path.insert(0, str(build / "python"))
    load = " ".join(f"{x:.1f}" for x in os.getloadavg())
    rows = []
    for name, worst in [("random layouts", random_layouts), ("all-to-all", all_to_all)]:
        for callers in [1, WORST]:
            rows += waiting_rows(
                f"{name}, {callers} caller{'s' * (callers > 1)}",
                measure_waiting(build, worst, callers),
            )
    rows += refused_rows(measure_refused(build))
    rows += watch_rows(measure_watches(build))
    return [
        LEGEND.format(worst=WORST, load=load),
        "",
        *table(["figure", "limit", "measured", "holds"], rows),
    ]


# ---- what others wait ----


def measure_waiting(build, worst, callers, seconds=40):
    from remesh.v1 import plan_pb2

    with server(build, 1) as cluster, addresses(cluster, callers) as ports:
        trainer, execution_request = ready_state(cluster)
        stop = threading.Event()
        asked = [
            threading.Thread(target=keep_asking, args=(ports[seed % callers], worst, seed, stop))
            for seed in range(WORST)
        ]
        for thread in asked:
            thread.start()
        time.sleep(2)  # until they are being planned
        plans, moves = [], []
        other = plans_stub(cluster, "ipv6")
        end = time.monotonic() + seconds
        rows = 16
        while time.monotonic() < end:
            rows += 4
            plans.append(
                timed(
                    lambda: other.CreatePlan(
                        plan_pb2.CreatePlanRequest(spec=rows_to_columns(rows, 4, 2)), timeout=120
                    )
                )
            )
            for _ in range(20):
                moves.append(
                    timed(lambda: trainer.reshards.StartExecution(execution_request, timeout=120))
                )
            time.sleep(0.1)
        peak = status_kib(cluster, "VmHWM")
        stop.set()
        cancelled = time.monotonic()
        for thread in asked:
            thread.join()
        seconds_until_idle(cluster)
        idle = time.monotonic() - cancelled
    return {"plans": plans, "moves": moves, "peak_mib": peak / 1024, "idle_seconds": idle}


def waiting_rows(name, result):
    for what, values, limit in [
        ("another caller's 4-device plan, longest", result["plans"], 2.0),
        ("cached StartExecution, p99", result["moves"], 0.1),
    ]:
        value = max(values) if limit > 1 else percentile(values, 99)
        yield [
            f"{name}: {what}",
            f"≤ {1e3 * limit:.0f} ms",
            f"{1e3 * value:.1f} ms (median {1e3 * statistics.median(values):.1f}, {len(values)} "
            "calls)",
            holds(value <= limit),
        ]
    yield [
        f"{name}: planning threads idle after the callers have gone",
        "–",
        f"{result['idle_seconds']:.1f} s",
        "",
    ]
    yield [f"{name}: most resident", "–", f"{result['peak_mib']:.0f} MiB", ""]


def keep_asking(port, worst, seed, stop):
    import grpc
    from remesh.v1 import plan_pb2

    stub = stub_at(f"127.0.0.1:{port}")
    while not stop.is_set():
        call = stub.CreatePlan.future(
            plan_pb2.CreatePlanRequest(spec=worst(seed), validate_only=True)
        )
        while not call.done() and not stop.is_set():
            time.sleep(0.02)
        if not call.done():
            call.cancel()
        try:
            call.result()
        except (grpc.RpcError, grpc.FutureCancelledError) as error:
            if not stop.is_set():
                print(f"worst {seed}: {error.details()}", file=sys.stderr)
        seed += WORST


def seconds_until_idle(cluster):
    """Until the server uses hardly any CPU."""
    begin = time.monotonic()
    ticks = cpu_ticks(cluster)
    while time.monotonic() < begin + 120:
        time.sleep(0.1)
        now = cpu_ticks(cluster)
        if now - ticks <= 2:
            return time.monotonic() - begin
        ticks = now
    return 120


# ---- what comes back of memory ----


def measure_refused(build):
    import grpc
    from remesh.v1 import plan_pb2

    request = plan_pb2.CreatePlanRequest(spec=many_shapes(20_000, 64))
    with server(build, 0) as cluster:
        stub = plans_stub(cluster)
        stub.CreatePlan(plan_pb2.CreatePlanRequest(spec=rows_to_columns(64, 4, 2)))
        before = status_kib(cluster, "VmRSS")
        codes = set()
        for _ in range(REFUSED):
            try:
                stub.CreatePlan(request, timeout=300)
            except grpc.RpcError as error:
                codes.add(error.details()[:60])
        time.sleep(3)
        return {
            "before": before / 1024,
            "after": status_kib(cluster, "VmRSS") / 1024,
            "peak": status_kib(cluster, "VmHWM") / 1024,
            "details": codes,
        }


def refused_rows(result):
    print(result["details"], file=sys.stderr)
    more = result["after"] - result["before"]
    yield [
        f"{REFUSED} refused requests of 20,000 shapes: resident more than before",
        "≤ 64 MiB",
        f"{more:.0f} MiB ({result['before']:.0f} before, at most {result['peak']:.0f})",
        holds(more <= 64),
    ]


def measure_watches(build):
    from remesh.v1 import plan_pb2

    with server(build, 0) as cluster:
        stub = plans_stub(cluster)
        for i in range(PLANS):
            stub.CreatePlan(plan_pb2.CreatePlanRequest(spec=rows_to_columns(64 + 4 * i, 4, 2)))
        time.sleep(2)
        before = status_kib(cluster, "VmRSS")
        watches = [stub.WatchPlans(plan_pb2.WatchPlansRequest()) for _ in range(WATCHES)]
        time.sleep(5)
        opened = status_kib(cluster, "VmRSS")
        for i in range(500):  # every watcher hears of these
            stub.CreatePlan(
                plan_pb2.CreatePlanRequest(spec=rows_to_columns(64 + 4 * (PLANS + i), 4, 2))
            )
        time.sleep(3)
        during = status_kib(cluster, "VmRSS")
        for watch in watches:
            watch.cancel()
        time.sleep(5)
        return {
            "before": before / 1024,
            "opened": opened / 1024,
            "during": during / 1024,
            "after": status_kib(cluster, "VmRSS") / 1024,
        }


def watch_rows(result):
    yield [
        f"{WATCHES:,} unread WatchPlans over {PLANS:,} plans: resident more than before",
        "–",
        f"{result['opened'] - result['before']:.0f} MiB; "
        f"{result['during'] - result['before']:.0f} MiB after 500 events",
        "",
    ]
    more = result["after"] - result["before"]
    yield ["and when they have ended", "≤ 64 MiB", f"{more:.0f} MiB", holds(more <= 64)]


# ---- requests ----


def topology_of(devices, per_host=8):
    from remesh.v1 import topology_pb2

    return topology_pb2.Topology(
        hosts=[
            topology_pb2.Host(
                name=f"h{h}",
                device_ids=range(h * per_host, (h + 1) * per_host),
                nics=per_host,
                nic_bytes_per_second=5e10,
                fabric_bytes_per_second=4e11,
            )
            for h in range(devices // per_host)
        ]
    )


def random_layouts(seed, arrays=60, devices=512):
    from remesh.v1 import plan_pb2, sharding_pb2

    source = random.Random(seed)
    every = sharding_pb2.DeviceList(range=sharding_pb2.DeviceList.Range(start=0, count=devices))

    def layout(tiles):
        ids = list(range(devices))
        source.shuffle(ids)
        return sharding_pb2.Sharding(
            devices=every,
            hlo_text=f"{{devices=[{tiles},2]{','.join(map(str, ids))} last_tile_dim_replicate}}",
        )

    half = devices // 2
    return plan_pb2.PlanSpec(
        topology=topology_of(devices),
        arrays=[
            plan_pb2.ArraySpec(
                name=f"a{a}",
                shape=[4096, 4096],
                element_type="bf16",
                source=layout(f"{half},1"),
                target=layout(f"1,{half}"),
            )
            for a in range(arrays)
        ],
    )


def all_to_all(seed, devices=2048):
    return rows_to_columns(4 * devices * (seed + 1), devices, 8)


def rows_to_columns(size, devices, per_host):
    return many_shapes(1, devices, per_host, size)


def many_shapes(count, devices, per_host=8, size=1024):
    from remesh.v1 import plan_pb2, sharding_pb2

    every = sharding_pb2.DeviceList(range=sharding_pb2.DeviceList.Range(start=0, count=devices))
    shardings = {
        name: sharding_pb2.Sharding(hlo_text=f"{{devices=[{tiles}]<=[{devices}]}}", devices=every)
        for name, tiles in [("rows", f"{devices},1"), ("columns", f"1,{devices}")]
    }
    return plan_pb2.PlanSpec(
        topology=topology_of(devices, per_host),
        shardings=shardings,
        arrays=[
            plan_pb2.ArraySpec(
                name=f"a{i}",
                shape=[size + i, 4 * devices],
                element_type="bf16",
                source=sharding_pb2.Sharding(ref="rows"),
                target=sharding_pb2.Sharding(ref="columns"),
            )
            for i in range(count)
        ],
    )


# ---- processes ----


def server(build, hosts):
    from remesh.testing import LocalCluster  # built by TARGETS

    class OnBothLoopbacks(LocalCluster):
        """Its server is reached from 127.0.0.1 and from ::1: two callers."""

        def start_server(self):
            ports = self._start(
                "server",
                self.bin_dir / "remesh-server",
                [
                    "listen_address: '[::]:0'",
                    "metrics_address: 127.0.0.1:0",
                    "log_level: warning",
                    f"journal_path: {self.root / 'journal.db'}",
                ],
            )
            self._server_port, self._metrics_port = int(ports["listen_port"]), int(
                ports["metrics_port"]
            )

    return OnBothLoopbacks(build / "bin", hosts)


def ready_state(cluster):
    """A sealed state, and the request for a move of it whose plan is cached."""
    from remesh.trainer import Trainer
    from remesh.v1 import reshard_pb2, sharding_pb2, state_pb2

    sharding = lambda text: sharding_pb2.Sharding(
        hlo_text=text, devices=sharding_pb2.DeviceList(ids=cluster.device_ids("host-0"))
    )
    rows, columns = sharding("{devices=[2,1]<=[2]}"), sharding("{devices=[1,2]<=[2]}")
    to = lambda one: reshard_pb2.Targets(arrays=[reshard_pb2.TargetArray(name="w", sharding=one)])
    trainer = Trainer(cluster.server_address, cluster.worker_socket("host-0"))
    trainer.create_state(
        state_pb2.State(
            name=STATE,
            spec=state_pb2.StateSpec(
                arrays=[
                    state_pb2.StateArray(
                        name="w", shape=[64, 64], element_type="f32", sharding=rows
                    )
                ]
            ),
        )
    )
    trainer.allocate(STATE)
    trainer.seal(STATE)
    trainer.wait_ready(STATE, 20)
    for generation, target in [(1, columns), (2, rows)]:
        trainer.wait_execution(trainer.start_reshard(STATE, generation, to(target)).name, 60)
    again = reshard_pb2.StartExecutionRequest(
        state=STATE, expected_generation=3, targets=to(columns), validate_only=True
    )
    return trainer, again


@contextlib.contextmanager
def addresses(cluster, count):
    """Ports that lead to the server, each from an address of its own."""
    port = int(cluster.server_address.rsplit(":", 1)[1])
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    for i, listener in enumerate(listeners):
        threading.Thread(
            target=relay_all, args=(listener, f"127.0.0.{10 + i}", port), daemon=True
        ).start()
    try:
        yield [listener.getsockname()[1] for listener in listeners]
    finally:
        for listener in listeners:
            listener.close()


def relay_all(listener, source, port):
    while True:
        try:
            near, _ = listener.accept()
        except OSError:
            return
        far = socket.create_connection(("127.0.0.1", port), source_address=(source, 0))
        for a, b in [(near, far), (far, near)]:
            threading.Thread(target=relay, args=(a, b), daemon=True).start()


def relay(source, target):
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
    except OSError:
        pass
    for end in [source, target]:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def plans_stub(cluster, family="ipv4"):
    port = cluster.server_address.rsplit(":", 1)[1]
    return stub_at(f"127.0.0.1:{port}" if family == "ipv4" else f"[::1]:{port}")


def stub_at(address):
    import grpc
    from remesh.testing import CHANNEL_OPTIONS
    from remesh.v1 import plan_pb2_grpc

    options = [*CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", 1)]
    return plan_pb2_grpc.PlanServiceStub(grpc.insecure_channel(address, options))


def timed(call):
    begin = time.monotonic()
    call()
    return time.monotonic() - begin


def cpu_ticks(cluster):
    fields = (
        pathlib.Path(f"/proc/{cluster.server.popen.pid}/stat")
        .read_text()
        .rsplit(") ", 1)[1]
        .split()
    )
    return int(fields[11]) + int(fields[12])


def status_kib(cluster, key):
    status = pathlib.Path(f"/proc/{cluster.server.popen.pid}/status").read_text()
    return int(re.search(rf"^{key}:\s*(\d+)", status, re.M)[1])


def percentile(values, p):
    return sorted(values)[min(len(values) - 1, len(values) * p // 100)]


def holds(does):
    return "yes" if does else "**no**"
