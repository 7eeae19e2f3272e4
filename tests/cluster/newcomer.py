# SPDX-License-Identifier: Apache-2.0
"""What somebody does who has only read the chart's README: its commands as they stand there, then
an example's trainers."""

import json
import os
import re

import yaml

from machine import run, wait_for
from readme import install_commands
from release import CHART, IMAGE, SPACE

REGISTRY = "registry.example.com/ml"
EXAMPLES = CHART.parent / "examples"
# What the README's values ask for, and what a node here has.
SMALLER = {"bufferGiB: 64": "bufferGiB: 2"}
GPUS = 8


def as_a_new_user(r):
    """Installs by the README, runs the trainers of an example, and removes everything by the
    README."""
    _prepare_nodes(r)
    text = (CHART / "README.md").read_text()
    commands = install_commands(text)
    for stands, here in SMALLER.items():
        assert stands in commands, stands
        commands = commands.replace(stands, here)
    words = _type(r, commands)
    assert all(host in words for host in r.hosts), words  # helm test lists the workers
    seconds = _run_jobset(r)
    _remove(r, text)
    return (
        f"README's commands, but for {', '.join(SMALLER.values())}; trainers of "
        f"trainer-jobset.yaml moved and read their state in {seconds} s; removed"
    )


def _prepare_nodes(r) -> None:
    """Nodes as somebody with GPUs has them: labelled and with GPUs to request; images in the
    registry; a default class of volumes."""
    r.make_volume("newcomer")
    for node in r.cluster.nodes:
        r.cluster.kubectl("label", "node", node.name, "nvidia.com/gpu.present=true", "--overwrite")
        r.cluster.kubectl(
            "patch",
            "node",
            node.name,
            "--subresource=status",
            "--patch",
            json.dumps({"status": {"capacity": {"nvidia.com/gpu": str(GPUS)}}}),
        )
        for name in (IMAGE, f"trainer:{IMAGE.split(':')[1]}"):
            pushed = f"remesh:{IMAGE.split(':')[1]}" if name == IMAGE else "jax-trainer:1"
            target = f"{REGISTRY}/{pushed}"
            node.machine.run(
                "ctr",
                "--namespace",
                "k8s.io",
                "images",
                "tag",
                "--force",
                f"docker.io/library/{name}",
                target,
            )


def _type(r, commands: str) -> str:
    """In the repository's folder, as far as helm needs it, with the cluster's helm and kubectl."""
    desk = r.cluster.root / "desk"
    desk.mkdir(exist_ok=True)
    if not (desk / "helm").exists():
        (desk / "helm").symlink_to(CHART.parent)
    home = str(desk / "home")
    return run(
        "bash",
        "-ec",
        commands,
        cwd=desk,
        timeout=300,
        env={
            "PATH": f"{r.cluster.programs}:{os.environ['PATH']}",
            "KUBECONFIG": str(r.cluster.kubeconfig),
            "HELM_CACHE_HOME": home,
            "HELM_CONFIG_HOME": home,
            "HELM_DATA_HOME": home,
        },
    ).stdout


def _run_jobset(r) -> str:
    """Plays the JobSet controller: an indexed Job of the template."""
    jobset = yaml.safe_load((EXAMPLES / "trainer-jobset.yaml").read_text())
    (replicated,) = jobset["spec"]["replicatedJobs"]
    name = f"{jobset['metadata']['name']}-{replicated['name']}-0"
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**replicated["template"]["spec"], "completionMode": "Indexed"},
    }
    r.cluster.apply(job)
    wait_for("the trainers end", lambda: _ended(r, name), seconds=180)
    status = r.cluster.get("job", name)["status"]
    logs = r.cluster.kubectl("logs", "--selector", f"job-name={name}", "--prefix").stdout
    assert status.get("succeeded") == 2 and logs.count("generation 2 is here") == 2, (
        json.dumps(status) + logs
    )
    seconds = r.cluster.kubectl(
        "get", "job", name, "--output=jsonpath={.status.startTime} {.status.completionTime}"
    ).stdout.split()
    r.cluster.kubectl("delete", "job", name)
    return _between(*seconds)


def _ended(r, name: str) -> bool:
    return any(
        condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
        for condition in r.cluster.get("job", name)["status"].get("conditions", [])
    )


def _between(begin: str, end: str) -> str:
    def seconds(text: str) -> int:
        hours, minutes, rest = text.rstrip("Z").split("T")[1].split(":")
        return int(hours) * 3600 + int(minutes) * 60 + int(rest)

    return str((seconds(end) - seconds(begin)) % 86400)


def _remove(r, readme: str) -> None:
    """Uninstalls, and then what the README says that is left."""
    r.cluster.helm("uninstall", "remesh", "--namespace", SPACE, "--wait")
    claim = re.search(r"delete the claim `([^`]+)`", readme)[1].replace("RELEASE", "remesh")
    r.cluster.kubectl("delete", "persistentvolumeclaim", claim, "--namespace", SPACE)
    wait_for(
        "no pod is left",
        lambda: not r.cluster.get(
            "pods",
            "--namespace",
            SPACE,
            "--selector",
            "app.kubernetes.io/component in (server,worker)",
        )["items"],
    )
    assert "the folder `worker.bufferHostPath` on each node" in readme
    for node in r.cluster.nodes:
        node.machine.run("rm", "-r", "/dev/shm/remesh")
