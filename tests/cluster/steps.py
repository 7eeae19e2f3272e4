# SPDX-License-Identifier: Apache-2.0
"""What is done to remesh on the cluster, in this order. A step raises, or returns what it found out
in a few words (words.py)."""

import time

import alerts
from certificates import tls
from machine import wait_for
from newcomer import as_a_new_user
from node_loss import lose_a_node
from refusals import memory_limit, pod_security
from release import ARRAYS, CHART, SPACE
from restarts import delete_server_pod, delete_worker_pod, kill_server
from second_server import back_to_one_server, two_servers
from upgrades import uninstall_reinstall, upgrade_and_rollback, upgrade_in_mid_move


def install(r):
    r.make_volume("journal")
    r.install()
    r.wait_attached()
    r.start_trainers()
    r.cluster.helm("test", "remesh", "--namespace", SPACE, "--logs")


def create_seal_reshard(r):
    r.create_state()
    wait_for("the state is sealed", lambda: r.generation() == 1)
    begin = time.monotonic()
    r.reshard("columns")
    seconds = time.monotonic() - begin
    assert r.generation() == 2
    r.check()
    return f"{len(ARRAYS) * 64} MiB between two nodes in {seconds:.2f} s, files equal"


def examples(r):
    """The API server, which knows JobSet and PyTorchJob by their definitions, takes every
    example."""
    folder = CHART.parent / "examples"
    for path in sorted(folder.glob("*.yaml")):
        r.cluster.kubectl("apply", "--dry-run=server", "--filename", path)
    return ", ".join(path.stem for path in sorted(folder.glob("*.yaml")))


STEPS = [
    as_a_new_user,
    install,
    create_seal_reshard,
    examples,
    alerts.monitoring,
    upgrade_and_rollback,
    uninstall_reinstall,
    kill_server,
    delete_server_pod,
    delete_worker_pod,
    memory_limit,
    pod_security,
    upgrade_in_mid_move,
    alerts.alert_workers_lost,
    alerts.alert_worker_detached,
    alerts.alert_buffers_nearly_full,
    alerts.alert_server_down,
    lose_a_node,
    two_servers,
    back_to_one_server,
    tls,
    alerts.boards,
]
