# SPDX-License-Identifier: Apache-2.0
"""Steps with a second server on a copy of the journal, and back to one."""

import json
import time

from machine import run, wait_for
from release import SPACE, STATE, metrics
from words import words_of


def two_servers(r):
    """A second server on a copy of the journal takes the workers over; the first wakes up and
    commits nothing."""
    before, old = r.generation(), r.server()
    node = r.cluster.node(old["spec"]["nodeName"])
    container = old["status"]["containerStatuses"][0]["containerID"]
    node.kill_container(container, "SIGSTOP")
    try:
        copy = r.cluster.root / "copy"
        run("cp", "--archive", r.cluster.root / "journal", copy)
        r.cluster.apply(_second_server(old, copy))
        r.cluster.kubectl(
            "patch",
            "service",
            "remesh-server",
            "--namespace",
            SPACE,
            "--patch",
            '{"spec": {"selector": {"second": "yes"}}}',
        )
        second = wait_for(
            "the second server has all workers", lambda: _leads(r, "second-server"), seconds=120
        )
    finally:
        node.kill_container(
            container, "SIGCONT", check=False
        )  # the kubelet may have found it dead, and made it again
    r.reshard("rows" if before % 2 == 0 else "columns")
    assert r.generation() == before + 1
    older = r.cluster.kubectl(
        "exec",
        "--stdin",
        "--namespace",
        SPACE,
        "remesh-server-0",
        "--",
        "remeshctl",
        "reshard",
        STATE,
        "--server",
        "localhost:7070",
        "--deadline",
        "20",
        "-f",
        "-",
        text=(r.shared / "rows.json").read_text(),
        check=False,
    )
    assert older.returncode != 0, older.stdout
    time.sleep(3)
    assert r.generation() == before + 1 and second
    r.check()
    r.cluster.kubectl(
        "patch",
        "service",
        "remesh-server",
        "--namespace",
        SPACE,
        "--type=json",
        "--patch",
        '[{"op": "remove", "path": "/spec/selector/second"}]',
    )
    return f"the older was refused: {words_of(older)}"


def _second_server(old: dict, journal) -> dict:
    spec = json.loads(json.dumps(old["spec"]))
    for field in ("nodeName", "hostname", "subdomain"):
        spec.pop(field, None)
    spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] != "journal"] + [
        {"name": "journal", "hostPath": {"path": str(journal)}}
    ]
    labels = {
        "second": "yes",
        **{
            key: value for key, value in old["metadata"]["labels"].items() if key.startswith("app.")
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "second-server", "namespace": SPACE, "labels": labels},
        "spec": spec,
    }


def _leads(r, name: str) -> bool:
    return metrics(r.pod(name)["status"]["podIP"], 7071).get('remesh_workers{alive="true"}') == len(
        r.hosts
    )


def back_to_one_server(r):
    """The second goes, the first takes the journal that is ahead: as an operator moves a server."""
    r.stop_server()
    r.cluster.kubectl("delete", "pod", "second-server", "--namespace", SPACE)
    run("rm", "-r", r.cluster.root / "journal")
    run("cp", "--archive", r.cluster.root / "copy", r.cluster.root / "journal")
    r.scale_server(1)
    wait_for("all workers are attached", r.attached)
    r.check()
