# SPDX-License-Identifier: Apache-2.0
"""Alerts that fire on the cluster, the runbook of each followed as it is written, and that then are
resolved. Steps, as those of steps.py."""

import json
import shutil
import time

import numpy as np

from machine import wait_for
from monitoring import Prometheus
from release import CHART, SPACE, STATE, metrics
from runbook import Runbook

SHORTER = 20
AWAY = "remesh-test/away=yes:NoSchedule"
SERVER_USER = 65532
FULL = "jobs/test/states/full"
VARIABLES = {
    "$__rate_interval": "20s",
    "$__range": "5m",
    "$namespace": SPACE,
    "$job": ".+",
    "$instance": ".+",
}
# Panels that stay empty here, and why.
EMPTY = {}


def monitoring(r):
    r.prometheus = Prometheus(r.cluster, SPACE, SHORTER)
    wait_for(
        "the server and all workers are scraped",
        lambda: len(r.prometheus.query("up == 1")) == 1 + len(r.hosts),
    )
    return f"{r.prometheus.alerts()} alerts as the chart has them, each `for:` divided by {SHORTER}"


def alert_workers_lost(r):
    """A node that may not run its worker: the server hears nothing, and the state there is LOST
    until the worker is back."""
    host, times = r.hosts[-1], Times(r)
    r.cluster.kubectl("taint", "nodes", host, AWAY)
    r.cluster.kubectl(
        "delete", "pod", r.workers()[host]["metadata"]["name"], "--namespace", SPACE, "--wait=false"
    )
    times.fires("RemeshWorkersLost", "RemeshStatesLost")
    assert host in Runbook(r.cluster, "RemeshWorkersLost").check()
    found = Runbook(r.cluster, "RemeshStatesLost").check(NAME=STATE)
    assert "LOST" in found and host in found, found
    r.cluster.kubectl("taint", "nodes", host, AWAY + "-")
    r.wait_attached()
    times.resolved("RemeshWorkersLost", "RemeshStatesLost")
    r.check()
    return times.words()


def alert_worker_detached(r):
    """A node is given device ids that another has: its worker runs and is refused, until
    `worker.nodes` is correct."""
    host, times, page = r.hosts[-1], Times(r), Runbook(r.cluster, "RemeshWorkerDetached")
    r.upgrade(
        "--set",
        ",".join(
            f"worker.nodes.{name}={(index + 1) % len(r.hosts) * 4}"
            for index, name in enumerate(r.hosts)
        ),
        wait=False,
    )
    r.cluster.kubectl("delete", "pod", r.workers()[host]["metadata"]["name"], "--namespace", SPACE)
    times.fires("RemeshWorkerDetached")
    found = page.check(POD=r.workers()[host]["metadata"]["name"])
    assert "DEVICE_ID_TAKEN" in found, found
    page.says("correct `worker.nodes`")
    r.upgrade(wait=False)
    page.do("kubectl -n remesh delete pod POD", POD=r.workers()[host]["metadata"]["name"])
    r.wait_attached()
    times.resolved("RemeshWorkerDetached")
    r.check()
    return times.words()


def alert_buffers_nearly_full(r):
    """A state that leaves a worker hardly any room, until it is deleted."""
    host, times, page = r.hosts[0], Times(r), Runbook(r.cluster, "RemeshBuffersNearlyFull")
    series = metrics(r.cluster.node(host).address, 7081)
    count = (
        int(0.95 * series["remesh_worker_buffer_max_bytes"] - series["remesh_worker_buffer_bytes"])
        // 4096
        * 4096
    )
    spec = {
        "device_lists": {"one": {"ids": [0]}},
        "shardings": {"whole": {"hlo_text": "{replicated}", "devices": {"ref": "one"}}},
        "arrays": [
            {"name": "full", "shape": [count], "element_type": "u8", "sharding": {"ref": "whole"}}
        ],
    }
    (r.shared / "full.json").write_text(json.dumps({"name": FULL, "spec": spec}))
    (r.shared / "full").mkdir(exist_ok=True)
    np.lib.format.open_memmap(r.shared / "full" / "full.npy", "w+", np.uint8, (count,))
    r.remeshctl(host, "states", "create", "-f", "/trainer/full.json")
    wait_for(
        "the state is written", lambda: r.remeshctl(host, "put", FULL, "/trainer/full"), seconds=30
    )
    times.fires("RemeshBuffersNearlyFull")
    assert FULL in page.check(text=_plan_of_a_move(spec), SPEC="-")
    page.do("remeshctl states delete NAME", NAME=FULL)
    times.resolved("RemeshBuffersNearlyFull")
    shutil.rmtree(r.shared / "full")
    return times.words()


def _plan_of_a_move(spec: dict) -> str:
    """What remeshctl plan asks for: from one device to another."""
    array = {key: value for key, value in spec["arrays"][0].items() if key != "sharding"}
    sides = {
        side: {"hlo_text": "{replicated}", "devices": {"ids": [number]}}
        for number, side in enumerate(("source", "target"))
    }
    host = {
        "name": "a",
        "device_ids": [0, 1],
        "nics": 1,
        "nic_bytes_per_second": 1e9,
        "fabric_bytes_per_second": 1e11,
    }
    return json.dumps({"topology": {"hosts": [host]}, "arrays": [{**array, **sides}]})


def alert_server_down(r):
    """The journal is damaged: the server refuses to start, until a copy is restored as
    docs/operations.md says."""
    times, page, before = Times(r), Runbook(r.cluster, "RemeshServerDown"), r.generation()
    folder, copy = r.cluster.root / "journal", r.cluster.root / "backup"
    r.stop_server()
    shutil.copytree(folder, copy)
    with (folder / "journal.db").open("r+b") as journal:
        journal.seek(4096)
        journal.write(bytes(range(256)) * 32)
    r.scale_server(1)
    times.fires("RemeshServerDown")
    wait_for(
        "the second attempt",
        lambda: r.server()["status"]["containerStatuses"][0]["restartCount"] >= 1,
    )
    found = page.check()
    assert "JOURNAL_CORRUPT" in found, found
    page.says("*`JOURNAL_CORRUPT` or `JOURNAL_BEHIND`*: [operations.md]")
    r.stop_server()
    for name in (
        "journal.db",
        "journal.db-wal",
        "journal.db.head",
    ):  # the three that belong together
        (folder / name).unlink(missing_ok=True)
        if (copy / name).exists():
            shutil.copy2(copy / name, folder / name)
            shutil.chown(folder / name, SERVER_USER, SERVER_USER)
    r.scale_server(1)
    r.wait_attached()
    times.resolved("RemeshServerDown")
    assert r.server_metrics()["remesh_journal_behind"] == 0 and r.generation() == before
    r.check()
    return times.words()


def boards(r):
    """Every panel of the chart's boards shows something of the time since Prometheus began."""
    panels, empty = 0, {}
    started = r.server_metrics()["process_start_time_seconds"]
    # A rate shows nothing of what a process counted before it was asked first.
    wait_for(
        "Prometheus asks the server that runs now",
        lambda: r.prometheus.query(f"process_start_time_seconds == {started}"),
    )
    r.plan_ahead()
    time.sleep(25)  # one interval of the rates
    for path in sorted((CHART / "files" / "dashboards").glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            panels += 1
            for target in panel["targets"]:
                expression = target["expr"]
                for name, value in VARIABLES.items():
                    expression = expression.replace(name, value)
                if not r.prometheus.has_shown(expression):
                    empty[panel["title"]] = expression
    assert set(empty) == set(EMPTY), json.dumps(empty, indent=1)
    return f"{panels - len(empty)} of {panels} panels with data" + "".join(
        f"; {title}: {EMPTY[title]}" for title in sorted(empty)
    )


class Times:
    """What happened and the seconds between, for the step's line."""

    def __init__(self, r):
        self._r, self._begin, self._words = r, time.monotonic(), []

    def note(self, what: str) -> None:
        self._words.append(f"{what} after {time.monotonic() - self._begin:.0f} s")
        self._begin = time.monotonic()

    def fires(self, *names) -> None:
        for name in names:
            self._r.prometheus.wait_firing(name)
        self.note(f"{', '.join(names)} fired")

    def resolved(self, *names) -> None:
        for name in names:
            self._r.prometheus.wait_resolved(name)
        self.note("resolved")

    def words(self) -> str:
        return ", ".join(self._words)
