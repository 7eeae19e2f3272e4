# SPDX-License-Identifier: Apache-2.0
"""What is done to remesh on the cluster, in this order. A step raises, or returns what it found out
in a few words."""

import json
import os
import pathlib
import statistics
import threading
import time

import alerts
import issuer
from machine import run, wait_for
from newcomer import as_a_new_user
from node_loss import lose_a_node
from release import ARRAYS, CHART, IMAGE, SPACE, STATE, metrics

REPEATS = 10
UPGRADES = 20
SLOW_CARD = ["tbf", "rate", "250mbit", "burst", "256k", "latency", "50ms"]


class Skip(Exception):
    """The step cannot be done here; says why."""


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


def kill_server(r):
    """kill -9 of the process. A new pod before each, else the kubelet makes the second wait."""
    measured = []
    for _ in range(REPEATS):
        measured.append(
            r.seconds_until_attached(
                lambda server: r.cluster.node(server["spec"]["nodeName"]).kill_container(
                    server["status"]["containerStatuses"][0]["containerID"]
                )
            )
        )
        _replace_server(r, "--grace-period=1")  # this one is not measured
    r.check()
    whole, own = zip(*measured)
    load = pathlib.Path("/proc/loadavg").read_text().split()[0]
    return (
        f"{_spread(whole)}; from the new process's first answer on {_spread(own)}; load {load} on "
        f"{os.cpu_count()} cores"
    )


def delete_server_pod(r):
    seconds = [_replace_server(r) for _ in range(3)]
    return _spread(seconds)


def _replace_server(r, *arguments) -> float:
    uid, begin = r.server()["metadata"]["uid"], time.monotonic()
    r.cluster.kubectl(
        "delete", "pod", "remesh-server-0", "--namespace", SPACE, "--wait=false", *arguments
    )
    wait_for(
        "another pod of the server with all workers",
        lambda: r.server()["metadata"]["uid"] != uid and r.attached(),
    )
    return time.monotonic() - begin


def delete_worker_pod(r):
    """The worker of the last node, time after time. Its trainer's pod goes on: it has mounted the
    socket's folder."""
    host, seconds = r.hosts[-1], []
    for _ in range(REPEATS):
        pod = r.workers()[host]
        begin = time.monotonic()
        r.cluster.kubectl(
            "delete", "pod", pod["metadata"]["name"], "--namespace", SPACE, "--wait=false"
        )
        wait_for(
            "another worker",
            lambda: host in r.workers()
            and r.workers()[host]["metadata"]["uid"] != pod["metadata"]["uid"],
        )
        r.wait_attached()
        seconds.append(time.monotonic() - begin)
    r.check()  # over the socket in the same trainer pods: not stale
    return _spread(seconds) + "; trainers' sockets not stale"


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
    return _words(done) if "MEMORY" in done.stderr else None


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
    return f"the older was refused: {_words(older)}"


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


def tls(r):
    """cert-manager's mode with an issuer of our own, then another CA under load, as
    docs/security.md says."""
    if r.cluster.kubectl("get", "crd", "certificates.cert-manager.io", check=False).returncode != 0:
        raise Skip("the API server does not know cert-manager's Certificates")
    authorities = [
        issuer.Authority(r.cluster.root / f"ca-{name}", name) for name in ("first", "second")
    ]
    settings = [
        "--set",
        "tls.mode=certManager,tls.certManager.issuerRef.name=ours,tls.caConfigMap=cas",
    ]
    r.bundle(*authorities[:1])
    r.upgrade(*settings, wait=False)
    wait_for(
        "the Certificates",
        lambda: len(r.cluster.get("certificates.cert-manager.io", "--namespace", SPACE)["items"])
        == 4,
    )
    r.write_admin(issuer.serve(r.cluster, SPACE, authorities[0])["remesh-admin-tls"])
    r.upgrade(*settings)
    r.use_tls()
    r.wait_attached()
    r.cluster.helm("test", "remesh", "--namespace", SPACE, "--logs")
    before = r.generation()
    r.reshard("rows" if before % 2 == 0 else "columns")
    r.check()
    refused = r.cluster.kubectl(
        "exec",
        "--namespace",
        SPACE,
        f"trainer-{r.hosts[0]}",
        "--",
        "remeshctl",
        "states",
        "list",
        "--timeout",
        "5",
        check=False,
    )
    assert refused.returncode == 1, refused.stdout
    return (
        "attached, a move, helm test; without a certificate: "
        + _words(refused)
        + "; "
        + _rotate(r, authorities)
    )


def _rotate(r, authorities) -> str:
    calls, failed, over = [0], [], threading.Event()

    def load():
        while not over.is_set():
            done = r.remeshctl(r.hosts[0], "states", "list", check=False)
            calls[0] += 1
            if done.returncode != 0:
                failed.append(done.stderr)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        r.bundle(*authorities)
        _reloaded(r, 1)
        r.write_admin(issuer.serve(r.cluster, SPACE, authorities[1])["remesh-admin-tls"])
        _reloaded(r, 2)
        r.bundle(authorities[1])
        _reloaded(r, 3)
    finally:
        over.set()
        thread.join()
    assert not failed, failed[0]
    _replace_server(r)
    r.check()
    return (
        f"another CA under {calls[0]} calls, each on a connection of its own: {len(failed)} failed"
    )


def _reloaded(r, count: int) -> None:
    series = 'remesh_tls_reloads_total{outcome="reloaded"}'
    wait_for(
        f"{count} reloads everywhere",
        lambda: r.server_metrics()[series] >= count
        and all(metrics(node.address, 7081)[series] >= count for node in r.cluster.nodes),
        seconds=120,
        pause=0.5,
    )


def examples(r):
    """The API server, which knows JobSet and PyTorchJob by their definitions, takes every
    example."""
    folder = CHART.parent / "examples"
    for path in sorted(folder.glob("*.yaml")):
        r.cluster.kubectl("apply", "--dry-run=server", "--filename", path)
    return ", ".join(path.stem for path in sorted(folder.glob("*.yaml")))


def _words(done) -> str:
    """What a command in a pod said, without what kubectl adds."""
    return " ".join(
        line.strip()
        for line in done.stderr.splitlines()
        if not line.startswith("command terminated")
    )[:160]


def _spread(seconds) -> str:
    return (
        f"attached after {statistics.median(seconds):.1f} s (median), {max(seconds):.1f} s "
        f"(maximum) of {len(seconds)}"
    )


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
