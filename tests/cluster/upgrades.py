# SPDX-License-Identifier: Apache-2.0
"""Steps in which the release changes: upgrades, a rollback, and another installation on the same
nodes."""

import json
import time

from machine import run, wait_for
from release import IMAGE, SPACE

UPGRADES = 20
SLOW_CARD = ["tbf", "rate", "250mbit", "burst", "256k", "latency", "50ms"]


def upgrade_and_rollback(r):
    """Another tag of the same image, then back."""
    for node in r.cluster.nodes:
        node.machine.run(
            "ctr",
            "--namespace",
            "k8s.io",
            "images",
            "tag",
            "--force",
            f"docker.io/library/{IMAGE}",
            "docker.io/library/remesh:next",
        )
    begin = time.monotonic()
    r.upgrade("--set", "image.tag=next")
    r.wait_attached()
    upgraded = time.monotonic() - begin
    assert r.server()["spec"]["containers"][0]["image"] == "remesh:next"
    r.check()
    begin = time.monotonic()
    r.cluster.helm("rollback", "remesh", "1", "--namespace", SPACE, "--wait", "--timeout=120s")
    r.wait_attached()
    assert r.server()["spec"]["containers"][0]["image"] == IMAGE
    r.check()
    return f"upgrade {upgraded:.1f} s, rollback {time.monotonic() - begin:.1f} s, files equal"


def upgrade_in_mid_move(r):
    """Every time the move SUCCEEDED or FAILED, and the bytes are what they were."""
    ended = {"SUCCEEDED": 0, "FAILED": 0}
    for node in r.cluster.nodes:
        run("tc", "qdisc", "add", "dev", f"v{node.name}", "root", *SLOW_CARD)
    try:
        for number in range(UPGRADES):
            before = r.generation()
            layout = "rows" if before % 2 == 0 else "columns"
            name = json.loads(r.reshard(layout, "--no-wait", "-o", "json").stdout)["name"]
            time.sleep(number % 5 * 0.4)  # early in the move, late, and after it
            r.upgrade(
                "--set-string",
                f"server.podAnnotations.round=u{number},worker.podAnnotations.round=u{number}",
            )
            r.wait_attached()
            phase = wait_for(f"{name} ends", lambda: _phase(r, name))
            after = wait_for("the state is READY", r.generation)
            assert after == before + (
                phase == "SUCCEEDED"
            ), f"{name} {phase}: generation {before}, then {after}"
            r.check()
            ended[phase] += 1
    finally:
        for node in r.cluster.nodes:
            run("tc", "qdisc", "del", "dev", f"v{node.name}", "root")
    r.upgrade()  # without the last round's annotation: later steps' upgrades replace no pod
    r.wait_attached()
    return (
        f"{UPGRADES} times: {ended['SUCCEEDED']} SUCCEEDED, {ended['FAILED']} FAILED, the files "
        "equal each time"
    )


def _phase(r, name):
    phase = json.loads(r.remeshctl(r.hosts[0], "executions", "get", name, "-o", "json").stdout)[
        "phase"
    ]
    return phase if phase in ("SUCCEEDED", "FAILED", "CANCELLED") else None


def uninstall_reinstall(r):
    before = r.generation()
    r.cluster.helm("uninstall", "remesh", "--namespace", SPACE, "--wait")
    wait_for(
        "no pod of it is left",
        lambda: not r.workers()
        and not r.cluster.get(
            "pods", "--namespace", SPACE, "--selector", "app.kubernetes.io/component=server"
        )["items"],
    )
    r.install()
    r.wait_attached()
    assert r.generation() == before
    r.check()
    return f"generation {before} READY again, files equal"
