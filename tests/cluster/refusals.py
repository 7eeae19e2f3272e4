# SPDX-License-Identifier: Apache-2.0
"""Steps in which remesh or the cluster must refuse something."""

import json

from machine import wait_for
from words import words_of


def memory_limit(r):
    """More than the pod may hold is refused; the kernel kills no process."""
    spec = {
        "name": "jobs/test/states/large",
        "spec": {
            "device_lists": {"one": {"ids": [0]}},
            "shardings": {"whole": {"hlo_text": "{replicated}", "devices": {"ref": "one"}}},
            "arrays": [
                {
                    "name": "huge",
                    "shape": [3 << 30],
                    "element_type": "u8",
                    "sharding": {"ref": "whole"},
                }
            ],
        },
    }
    (r.shared / "large.json").write_text(json.dumps(spec))
    r.remeshctl(r.hosts[0], "states", "create", "-f", "/trainer/large.json")
    refused = wait_for("a refusal", lambda: _refused_for_memory(r), seconds=30)
    r.remeshctl(r.hosts[0], "states", "delete", "jobs/test/states/large")
    for pod in r.workers().values():
        status = pod["status"]["containerStatuses"][0]
        assert "OOMKilled" not in json.dumps(status), status
    r.check()
    return refused


def _refused_for_memory(r):
    """The words of the refusal; None while the worker does not know the state yet."""
    done = r.remeshctl(r.hosts[0], "put", "jobs/test/states/large", "/trainer/before", check=False)
    assert done.returncode == 1, done.stdout
    return words_of(done) if "MEMORY" in done.stderr else None


def pod_security(r):
    """The server alone passes "restricted"; workers need "privileged", and a trainer's hostPath is
    refused at "baseline"."""
    for level in ("restricted", "baseline"):
        r.cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {
                    "name": level,
                    "labels": {"pod-security.kubernetes.io/enforce": level},
                },
            }
        )
    r.install(
        "--set",
        "worker.nodeSelector.no=node",
        "--set",
        "server.persistence.enabled=false",
        space="restricted",
    )
    r.upgrade("--set", "server.persistence.enabled=false", space="restricted", wait=False)
    refusal = wait_for(
        "the worker is refused",
        lambda: [
            event["message"]
            for event in r.cluster.get("events", "--namespace", "restricted")["items"]
            if event["reason"] == "FailedCreate" and "PodSecurity" in event["message"]
        ],
    )
    assert "hostPath" in refusal[0], refusal
    trainer = r.trainer(r.hosts[0])
    trainer["metadata"]["namespace"] = "baseline"
    assert "hostPath" in r.cluster.apply(trainer, check=False).stderr
    for level in ("restricted", "baseline"):
        r.cluster.kubectl("delete", "namespace", level, "--wait=false")
    return "server Ready at restricted; worker refused there, a trainer at baseline"
