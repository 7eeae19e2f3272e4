# SPDX-License-Identifier: Apache-2.0
"""Pictures of the Grafana boards: real processes under load, Debian's Prometheus,
helm/board_page.py, and a browser where there is one. See scripts/board-pictures."""

import argparse
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "helm"), str(ROOT / "build" / "release" / "python")]

import board_page
import grpc
from remesh.testing import LocalCluster
from remesh.trainer import ExecutionFailed, Trainer
from remesh.v1 import plan_pb2, plan_pb2_grpc, reshard_pb2, sharding_pb2, state_pb2, topology_pb2

STATE = "jobs/llm/states/train"
SIDE = 3072  # of one f32 array
ROWS, COLUMNS = "{devices=[6,1]<=[6]}", "{devices=[1,6]<=[6]}"
PROMETHEUS = "127.0.0.1:19090"
SCREENS = {"wide": (1600, 2100), "narrow": (420, 5200)}


class Load:
    """A job that moves back and forth, and a caller that asks for plans, some of them new."""

    def __init__(self, cluster: LocalCluster):
        trainers = [
            Trainer(cluster.server_address, cluster.worker_socket(host))
            for host in cluster.host_names
        ]
        self._job = trainers[0]
        self._devices = sharding_pb2.DeviceList(
            ids=[one for host in cluster.host_names for one in cluster.device_ids(host)]
        )
        self._topology = topology_pb2.Topology(
            hosts=[
                topology_pb2.Host(
                    name=host,
                    device_ids=cluster.device_ids(host),
                    nics=1,
                    nic_bytes_per_second=1e9,
                    fabric_bytes_per_second=1e10,
                )
                for host in cluster.host_names
            ]
        )
        self._plans = plan_pb2_grpc.PlanServiceStub(cluster.channel())
        self._generation = 1
        self._job.create_state(
            state_pb2.State(
                name=STATE,
                spec=state_pb2.StateSpec(
                    arrays=[
                        state_pb2.StateArray(
                            name="w",
                            shape=[SIDE, SIDE],
                            element_type="f32",
                            sharding=self._sharding(ROWS),
                        )
                    ]
                ),
            )
        )
        for trainer in trainers:
            trainer.allocate(STATE)
            trainer.seal(STATE)
        self._job.wait_ready(STATE, 30)

    def _sharding(self, text: str) -> sharding_pb2.Sharding:
        return sharding_pb2.Sharding(hlo_text=text, devices=self._devices)

    def move(self) -> None:
        to = COLUMNS if self._generation % 2 else ROWS
        targets = reshard_pb2.Targets(
            arrays=[reshard_pb2.TargetArray(name="w", sharding=self._sharding(to))]
        )
        self._job.wait_execution(self._job.start_reshard(STATE, self._generation, targets).name, 60)
        self._generation += 1

    def ask(self) -> None:
        array = plan_pb2.ArraySpec(
            name="x",
            shape=[6 * random.randint(1, 40), 6 * random.randint(1, 40)],
            element_type="bf16",
            source=self._sharding(ROWS),
            target=self._sharding(COLUMNS),
        )
        self._plans.CreatePlan(
            plan_pb2.CreatePlanRequest(
                spec=plan_pb2.PlanSpec(topology=self._topology, arrays=[array])
            ),
            timeout=30,
        )

    def ask_nonsense(self) -> None:
        try:
            self._plans.GetPlan(plan_pb2.GetPlanRequest(name="plans/none"), timeout=30)
        except grpc.RpcError:
            pass  # it is a panel's data


def targets_of(cluster: LocalCluster) -> str:
    """Labels are those that the chart's PodMonitor gives."""

    def target(job: str, instance: str, url: str) -> dict:
        labels = {"namespace": "remesh", "job": job, "instance": instance}
        return {
            "targets": [url.removeprefix("http://").removesuffix("/metrics")],
            "labels": {**labels, "node": instance} if job == "remesh-worker" else labels,
        }

    workers = [
        target("remesh-worker", host, cluster.worker_metrics_url(host))
        for host in cluster.host_names
    ]
    return json.dumps([target("remesh-server", "server", cluster.server_metrics_url), *workers])


def start_prometheus(folder: pathlib.Path, targets: pathlib.Path) -> subprocess.Popen:
    """With the chart's alerts, which fire without waiting."""
    rules = (ROOT / "helm" / "remesh" / "files" / "rules.yaml").read_text()
    (folder / "rules.yaml").write_text(re.sub(r"(?m)^    for: \w+\n", "", rules))
    (folder / "prometheus.yml").write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(folder / "rules.yaml")],
                "scrape_configs": [
                    {"job_name": "remesh", "file_sd_configs": [{"files": [str(targets)]}]}
                ],
            }
        )
    )
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address={PROMETHEUS}",
            "--log.level=error",
        ]
    )
    for _ in range(100):
        if process.poll() is not None:
            sys.exit(f"board-pictures: Prometheus ended; is {PROMETHEUS} in use?")
        try:
            urllib.request.urlopen(f"http://{PROMETHEUS}/-/ready", timeout=2).close()
            return process
        except OSError:
            time.sleep(0.2)
    process.kill()
    sys.exit("board-pictures: Prometheus does not answer")


# ---- what happens half way ----


def restart_worker(cluster: LocalCluster, targets: pathlib.Path) -> None:
    """It comes back, with another port."""
    victim = cluster.host_names[-1]
    cluster.workers[victim].kill()
    time.sleep(8)
    cluster.start_worker(victim)
    targets.write_text(targets_of(cluster))


def lose_worker(cluster: LocalCluster, _) -> None:
    cluster.workers[cluster.host_names[-1]].kill()


def lose_journal(cluster: LocalCluster, _) -> None:
    for file in cluster.root.glob("journal.db*"):
        file.unlink()


def lose_server(cluster: LocalCluster, _) -> None:
    cluster.kill_server()


TROUBLES = {
    "none": lambda *_: None,
    "restart": restart_worker,
    "worker": lose_worker,
    "journal": lose_journal,
    "server": lose_server,
}


def put_under_load(
    cluster: LocalCluster, targets: pathlib.Path, seconds: float, trouble: str
) -> None:
    """Steady; half way the trouble happens, after which calls may fail."""
    load, begin, happened = Load(cluster), time.monotonic(), False
    while time.monotonic() < begin + seconds:
        try:
            load.move()
            for ask in (load.ask, load.ask, load.ask_nonsense):
                ask()
        except (grpc.RpcError, ExecutionFailed, TimeoutError) as error:
            if not happened:
                raise
            print(f"after {trouble}: {type(error).__name__}", file=sys.stderr)
            time.sleep(1)
        if not happened and time.monotonic() > begin + seconds / 2:
            happened = True
            TROUBLES[trouble](cluster, targets)
        time.sleep(random.uniform(0, 0.3))


def photograph(folder: pathlib.Path) -> None:
    if not (browser := shutil.which("chromium")):
        print("no chromium: pages, no pictures")
        return
    for page in sorted(folder.glob("*.html")):
        for name, (width, height) in SCREENS.items():
            picture = folder / f"{page.stem}-{name}.png"
            subprocess.run(
                [
                    browser,
                    "--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--hide-scrollbars",
                    f"--window-size={width},{height}",
                    f"--screenshot={picture}",
                    page.as_uri(),
                ],
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=120,
            )
            print(picture)


def main():
    parser = argparse.ArgumentParser(
        description="Draws every Grafana board from a live cluster of this machine."
    )
    parser.add_argument(
        "--folder",
        type=pathlib.Path,
        default=ROOT / "build" / "boards",
        help="where pages and pictures go (default: build/boards)",
    )
    parser.add_argument("--seconds", type=float, default=90, help="of load (default: %(default)s)")
    parser.add_argument(
        "--trouble",
        choices=TROUBLES,
        default="restart",
        help="what happens half way (default: %(default)s)",
    )
    asked = parser.parse_args()
    if not shutil.which("prometheus"):
        sys.exit("board-pictures: no prometheus is installed")
    with tempfile.TemporaryDirectory() as root, LocalCluster(
        ROOT / "build" / "release" / "bin",
        3,
        2,
        256 << 20,
        worker_config=["memory_limit_bytes: 64MiB"],
    ) as cluster:
        targets = pathlib.Path(root) / "targets.json"
        targets.write_text(targets_of(cluster))
        prometheus = start_prometheus(pathlib.Path(root), targets)
        try:
            put_under_load(cluster, targets, asked.seconds, asked.trouble)
            empty = board_page.write_pages(
                f"http://{PROMETHEUS}", asked.folder.resolve(), asked.seconds, "10s"
            )
        finally:
            prometheus.terminate()
            prometheus.wait()
    for board, titles in empty.items():
        print(
            f"{asked.folder}/{board}.html"
            + (f"; without data: {', '.join(titles)}" if titles else "")
        )
    photograph(asked.folder.resolve())


if __name__ == "__main__":
    main()
