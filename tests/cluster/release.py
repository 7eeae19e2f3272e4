# SPDX-License-Identifier: Apache-2.0
"""remesh on a Cluster, as its users have it: the chart's release, a trainer pod on each node, a
state whose bytes are known."""

import http.client
import json
import os
import pathlib
import shutil
import time
import urllib.request

import numpy as np
import yaml

from machine import wait_for

CHART = pathlib.Path(__file__).resolve().parents[2] / "helm" / "remesh"
IMAGE = f"remesh:{yaml.safe_load((CHART / 'Chart.yaml').read_text())['appVersion']}"
SPACE, STATE, DEVICES = "remesh", "jobs/test/states/model", 4
SERVER = f"remesh-server.{SPACE}.svc:7070"
ARRAYS, ROWS, COLUMNS = ("a", "b", "c", "d"), 4096, 4096  # 64 MiB each
LAYOUTS = {"rows": "{devices=[8,1]<=[8]}", "columns": "{devices=[1,8]<=[8]}"}
TLS_ENVIRONMENT = {
    "REMESH_TLS_CA": "ca.crt",
    "REMESH_TLS_CERT": "tls.crt",
    "REMESH_TLS_KEY": "tls.key",
}


def metrics(address: str, port: int) -> dict:
    """Series with its labels -> value; raises OSError without a whole answer."""
    try:
        text = urllib.request.urlopen(f"http://{address}:{port}/metrics", timeout=1).read().decode()
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    return {
        line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
        for line in text.splitlines()
        if line[:1] not in ("#", "")
    }


class Release:
    def __init__(self, cluster):
        self.cluster = cluster
        self.shared = cluster.root / "shared"  # every trainer pod's /trainer
        self.hosts = [node.name for node in cluster.nodes]
        self._tls = False
        self.monitored = all(
            cluster.kubectl("get", "crd", f"{kind}.monitoring.coreos.com", check=False).returncode
            == 0
            for kind in ("podmonitors", "prometheusrules")
        )
        self.prometheus = None
        for name in ("shared/before", "shared/after"):
            (cluster.root / name).mkdir(parents=True)
        self.shared.chmod(0o777)

    # ---- the chart ----

    def values(self) -> dict:
        monitoring = {
            "podMonitor": {"enabled": self.monitored, "interval": "5s"},
            "prometheusRule": {"enabled": self.monitored},
        }
        return {
            "monitoring": monitoring,
            "worker": {
                "nodes": {host: index * DEVICES for index, host in enumerate(self.hosts)},
                "devices": DEVICES,
                "bufferGiB": 2,
                "overheadGiB": 1,
                "cpu": "100m",
            },
            "server": {
                "persistence": {"storageClassName": "local"},
                "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
            },
        }

    def install(
        self, *arguments, verb: str = "install", space: str = SPACE, wait: bool = True, **options
    ):
        file = self.cluster.root / "values.json"
        file.write_text(json.dumps(self.values()))
        return self.cluster.helm(
            verb,
            "remesh",
            CHART,
            "--namespace",
            space,
            "--create-namespace",
            "--values",
            file,
            *(["--wait", "--timeout=120s"] if wait else []),
            *arguments,
            **options,
        )

    def upgrade(self, *arguments, **options):
        return self.install(*arguments, verb="upgrade", **options)

    def make_volume(self, name: str) -> None:
        """In the cluster's default class. Both nodes reach it: they share this machine's disk, as
        nodes of a cluster share network storage."""
        folder = self.cluster.root / name
        folder.mkdir()
        self.cluster.apply(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {
                    "name": "local",
                    "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
                },
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": name},
                "spec": {
                    "capacity": {"storage": "8Gi"},
                    "accessModes": ["ReadWriteOncePod"],
                    "storageClassName": "local",
                    "persistentVolumeReclaimPolicy": "Retain",
                    "local": {"path": str(folder)},
                    "nodeAffinity": {
                        "required": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {
                                            "key": "kubernetes.io/hostname",
                                            "operator": "In",
                                            "values": self.hosts,
                                        }
                                    ]
                                }
                            ]
                        }
                    },
                },
            },
        )

    def pod(self, name: str) -> dict:
        return self.cluster.get("pod", name, "--namespace", SPACE)

    def server(self) -> dict:
        return self.pod("remesh-server-0")

    def workers(self) -> dict:
        """Node -> its worker's pod."""
        pods = self.cluster.get(
            "pods", "--namespace", SPACE, "--selector", "app.kubernetes.io/component=worker"
        )["items"]
        return {
            pod["spec"]["nodeName"]: pod
            for pod in pods
            if "deletionTimestamp" not in pod["metadata"]
        }

    def scale_server(self, replicas: int) -> None:
        self.cluster.kubectl(
            "scale", "statefulset/remesh-server", f"--replicas={replicas}", "--namespace", SPACE
        )

    def stop_server(self) -> None:
        self.scale_server(0)
        wait_for(
            "no server",
            lambda: self.cluster.kubectl(
                "get", "pod", "remesh-server-0", "--namespace", SPACE, check=False
            ).returncode
            != 0,
        )

    def server_metrics(self) -> dict:
        return metrics(self.server()["status"]["podIP"], 7071)

    def attached(self) -> bool:
        return self.server_metrics().get('remesh_workers{alive="true"}') == len(self.hosts) and all(
            metrics(node.address, 7081).get("remesh_worker_attached") == 1
            for node in self.cluster.nodes
        )

    def wait_attached(self, seconds: float = 90) -> None:
        wait_for("all workers are attached", self.attached, seconds)

    # ---- trainers ----

    def trainer(self, host: str) -> dict:
        mounts = {"buffers": "/dev/shm/remesh", "socket": "/run/remesh"}
        volumes = [
            {"name": name, "hostPath": {"path": path, "type": "Directory"}}
            for name, path in mounts.items()
        ]
        volumes.append({"name": "work", "hostPath": {"path": str(self.shared)}})
        container = {
            "name": "trainer",
            "image": IMAGE,
            "command": ["sleep", "infinity"],
            "env": [{"name": "REMESH_SERVER", "value": SERVER}],
            "volumeMounts": [
                *({"name": name, "mountPath": path} for name, path in mounts.items()),
                {"name": "work", "mountPath": "/trainer"},
            ],
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"trainer-{host}", "namespace": SPACE},
            "spec": {
                "nodeName": host,
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "containers": [container],
                "volumes": volumes,
                "securityContext": {
                    "runAsUser": 1000,
                    "runAsGroup": 1000,
                    "supplementalGroups": [65532],
                    "runAsNonRoot": True,
                },
            },
        }

    def start_trainers(self, hosts=None) -> None:
        hosts = hosts or self.hosts
        self.cluster.apply(*(self.trainer(host) for host in hosts))
        self.cluster.kubectl(
            "wait",
            "--namespace",
            SPACE,
            "--for=condition=Ready",
            "--timeout=60s",
            *(f"pod/trainer-{host}" for host in hosts),
        )

    def remeshctl(self, host: str, *arguments, **options):
        """In the trainer's pod of that host; with the admin's certificate once TLS is on."""
        environment = (
            [f"{name}=/trainer/admin/{file}" for name, file in TLS_ENVIRONMENT.items()]
            if self._tls
            else []
        )
        return self.cluster.kubectl(
            "exec",
            "--namespace",
            SPACE,
            f"trainer-{host}",
            "--",
            "env",
            *environment,
            "remeshctl",
            *arguments,
            **options,
        )

    # ---- certificates ----

    def use_tls(self) -> None:
        self._tls = True

    def bundle(self, *authorities) -> None:
        """The CAs that everybody shall trust, the admin too."""
        text = "".join(authority.certificate() for authority in authorities)
        self.cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "cas", "namespace": SPACE},
                "data": {"ca.crt": text},
            }
        )
        self._write_admin({"ca.crt": text})

    def write_admin(self, files: dict) -> None:
        """What the notes of the chart tell an administrator to fetch."""
        self._write_admin({name: files[name] for name in ("tls.crt", "tls.key")})

    def _write_admin(self, files: dict) -> None:
        """All at once, behind a link that is replaced: somebody may be reading."""
        old = self.shared / "admin"
        kept = {path.name: path.read_text() for path in old.iterdir()} if old.exists() else {}
        folder = self.shared / f"admin-{time.monotonic_ns()}"
        folder.mkdir()
        for name, text in {**kept, **files}.items():
            (folder / name).write_text(text)
        link = self.shared / "next"
        link.symlink_to(folder.name)
        os.replace(link, old)

    # ---- the state ----

    def create_state(self) -> None:
        random = np.random.default_rng(13)
        for name in ARRAYS:
            np.save(
                self.shared / "before" / f"{name}.npy",
                random.integers(0, 1 << 32, (ROWS, COLUMNS), np.uint32),
            )
        self._write(
            "state.json",
            {
                "name": STATE,
                "spec": {
                    "device_lists": {"all": {"range": {"start": 0, "count": 8}}},
                    "shardings": {"rows": {"hlo_text": LAYOUTS["rows"], "devices": {"ref": "all"}}},
                    "arrays": [
                        {
                            "name": name,
                            "shape": [ROWS, COLUMNS],
                            "element_type": "u32",
                            "sharding": {"ref": "rows"},
                        }
                        for name in ARRAYS
                    ],
                },
            },
        )
        for layout, text in LAYOUTS.items():
            self._write(
                f"{layout}.json",
                {
                    "device_lists": {"all": {"range": {"start": 0, "count": 8}}},
                    "shardings": {"all": {"hlo_text": text, "devices": {"ref": "all"}}},
                    "arrays": [{"name": name, "sharding": {"ref": "all"}} for name in ARRAYS],
                },
            )
        self.remeshctl(self.hosts[0], "states", "create", "-f", "/trainer/state.json")
        for host in self.hosts:
            wait_for(
                f"{host} knows the state",
                lambda h=host: self.remeshctl(h, "put", STATE, "/trainer/before"),
                seconds=30,
            )

    def _write(self, name: str, value: dict) -> None:
        (self.shared / name).write_text(json.dumps(value))

    def state(self) -> dict:
        return json.loads(
            self.remeshctl(self.hosts[0], "states", "get", STATE, "-o", "json").stdout
        )

    def generation(self) -> int:
        state = self.state()
        assert state["phase"] == "READY", state["phase"]
        return int(state["generation"])

    def reshard(self, layout: str, *arguments, **options):
        return self.remeshctl(
            self.hosts[0], "reshard", STATE, "-f", f"/trainer/{layout}.json", *arguments, **options
        )

    def plan_ahead(self) -> None:
        """For one node less. Generations are rows and columns in turn, and the axis with more than
        one part can shrink."""
        self.remeshctl(
            self.hosts[0],
            "plans",
            "precompute",
            "--state",
            STATE,
            "--axis",
            str(1 - self.generation() % 2),
            "--plus-minus",
            "1",
        )

    def check(self) -> None:
        """Every byte of every shard is what was written, read by the trainers of all hosts."""
        self.read_back(STATE, self.hosts, ARRAYS)

    def read_back(self, state: str, hosts: list, arrays) -> None:
        after = self.shared / "after"
        shutil.rmtree(after)
        after.mkdir()
        after.chmod(0o777)
        for host in hosts:
            self.remeshctl(host, "get", state, "/trainer/after")
        for name in arrays:
            before, found = (
                np.load(self.shared / folder / f"{name}.npy", mmap_mode="r")
                for folder in ("before", "after")
            )
            assert np.array_equal(
                before, found
            ), f"{name}: {np.count_nonzero(before != found)} elements differ"

    # ---- measures ----

    def seconds_until_attached(self, hurt) -> tuple:
        """Does `hurt`, then waits until a server that was not there before says that every worker
        is attached: the seconds in all, and those of them after it first answered, in which
        Kubernetes has no part."""
        server = self.server()
        address, born = (
            server["status"]["podIP"],
            self.server_metrics()["process_start_time_seconds"],
        )
        begin = time.monotonic()
        hurt(server)
        wait_for(
            "a new server",
            lambda: metrics(address, 7071)["process_start_time_seconds"] != born,
            pause=0.03,
        )
        answered = time.monotonic()
        wait_for(
            "all workers at it",
            lambda: metrics(address, 7071).get('remesh_workers{alive="true"}') == len(self.hosts),
            pause=0.03,
        )
        return time.monotonic() - begin, time.monotonic() - answered
