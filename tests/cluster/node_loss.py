# SPDX-License-Identifier: Apache-2.0
"""A node without power, and what docs/runbooks has an operator do about the server and the states
on it. A step, as those of steps.py."""

import json

from alerts import Times
from machine import wait_for
from release import ARRAYS, COLUMNS, DEVICES, ROWS, SPACE, STATE
from runbook import Runbook

COPIES = "jobs/test/states/copies"
# Each node has all of it: tile i is on device i of each.
TWICE = f"{{devices=[{DEVICES},1,2]<=[2,{DEVICES}]T(1,0) last_tile_dim_replicate}}"
OUT = "kubectl taint nodes NODE node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"


def lose_a_node(r):
    """The plug of the node with the server is pulled. The server starts elsewhere once an operator
    says that the node is off, a state with copies moves without it, one without is made again."""
    _create_copies(r)
    lost = r.cluster.node(r.server()["spec"]["nodeName"])
    kept = next(name for name in r.hosts if name != lost.name)
    times = Times(r)
    lost.kill()
    times.fires("RemeshServerDown")
    r.cluster.kubectl(
        "wait", "--for=condition=Ready=Unknown", f"node/{lost.name}", "--timeout=120s"
    )
    times.note("node NotReady")
    Runbook(r.cluster, "RemeshServerDown").do(OUT, NODE=lost.name)
    wait_for(
        "the server runs on the other node",
        lambda: r.server()["spec"]["nodeName"] == kept
        and r.server_metrics()['remesh_workers{alive="true"}'] == 1,
        seconds=180,
    )
    times.note("tainted, and the server with its worker on the other node")
    times.fires("RemeshStatesLost", "RemeshStatesDegraded", "RemeshWorkersLost")
    assert lost.name in Runbook(r.cluster, "RemeshWorkersLost").check()
    _move_without(r, lost.name, kept)
    times.note("the state with copies moved without the node")
    _bring_back(r, lost)
    _make_again(r, lost.name, kept)
    times.resolved(
        "RemeshServerDown", "RemeshStatesLost", "RemeshStatesDegraded", "RemeshWorkersLost"
    )
    return times.words()


def _create_copies(r) -> None:
    r.shared.joinpath("copies.json").write_text(
        json.dumps(
            {
                "name": COPIES,
                "spec": {
                    "device_lists": {"all": {"range": {"start": 0, "count": 2 * DEVICES}}},
                    "shardings": {"twice": {"hlo_text": TWICE, "devices": {"ref": "all"}}},
                    "arrays": [
                        {
                            "name": ARRAYS[0],
                            "shape": [ROWS, COLUMNS],
                            "element_type": "u32",
                            "sharding": {"ref": "twice"},
                        }
                    ],
                },
            }
        )
    )
    r.remeshctl(r.hosts[0], "states", "create", "-f", "/trainer/copies.json")
    for host in r.hosts:
        wait_for(
            f"{host} knows it",
            lambda h=host: r.remeshctl(h, "put", COPIES, "/trainer/before"),
            seconds=30,
        )


def _move_without(r, lost: str, kept: str) -> None:
    """To the devices of the node that is left, from the copy there."""
    ids = {
        host: [r.hosts.index(host) * DEVICES + number for number in range(DEVICES)]
        for host in (lost, kept)
    }
    targets = {
        "arrays": [
            {
                "name": ARRAYS[0],
                "sharding": {
                    "hlo_text": f"{{devices=[1,{DEVICES}]<=[{DEVICES}]}}",
                    "devices": {"ids": ids[kept]},
                },
            }
        ]
    }
    page = Runbook(r.cluster, "RemeshStatesDegraded")
    found = page.check(NAME=COPIES)
    assert "DEGRADED" in found and lost in found, found
    page.do(
        "remeshctl reshard STATE -f TARGETS --lost-devices IDS",
        text=json.dumps(targets),
        STATE=COPIES,
        TARGETS="-",
        IDS=",".join(map(str, ids[lost])),
    )
    r.read_back(COPIES, [kept], ARRAYS[:1])
    page.type("remeshctl states delete NAME", NAME=COPIES)


def _bring_back(r, lost) -> None:
    r.cluster.boot(lost)
    r.cluster.kubectl("taint", "nodes", lost.name, OUT.split()[-1] + "-")
    r.cluster.kubectl("wait", "--for=condition=Ready", f"node/{lost.name}", "--timeout=90s")
    r.wait_attached(180)
    r.cluster.kubectl(
        "delete",
        "pod",
        f"trainer-{lost.name}",
        "--namespace",
        SPACE,
        "--force",
        "--ignore-not-found",
    )
    wait_for(
        "the trainer is gone",
        lambda: r.cluster.kubectl(
            "get", "pod", f"trainer-{lost.name}", "--namespace", SPACE, check=False
        ).returncode
        != 0,
    )
    r.start_trainers([lost.name])


def _make_again(r, lost: str, kept: str) -> None:
    """A node without power has lost its shards: it may not pretend otherwise when it is back."""
    state = json.loads(r.remeshctl(kept, "states", "get", STATE, "-o", "json").stdout)
    assert state["phase"] == "LOST", state["phase"]
    assert lost in state["lostHosts"], state
    r.remeshctl(kept, "states", "delete", STATE)
    wait_for(
        "the state is deleted",
        lambda: r.remeshctl(kept, "states", "get", STATE, check=False).returncode != 0,
    )
    r.create_state()
    wait_for("the state is sealed", lambda: r.generation() >= 1)
    r.check()
