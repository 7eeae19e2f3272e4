# SPDX-License-Identifier: Apache-2.0
"""A node: containerd, kubelet and kube-proxy on a Machine."""

import json
import pathlib

import pause_image
from machine import Machine, Process, wait_for

CGROUPS = pathlib.Path("/sys/fs/cgroup")
DNS = "10.249.0.1"

# restrict_oom_score_adj: without CAP_SYS_RESOURCE no pod would start otherwise.
_CONTAINERD = """
version = 2
root = "{folder}/images"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  disable_apparmor = true
  disable_hugetlb_controller = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""


def _cni(number: int, folder: pathlib.Path) -> dict:
    subnet = {"subnet": f"10.250.{number}.0/24"}
    return {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "pods",
                "isGateway": True,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "dataDir": f"{folder}/addresses",
                    "ranges": [[subnet]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def _kubelet(address: str, cgroup: str, folder: pathlib.Path) -> dict:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "failCgroupV1": False,
        "clusterDNS": [DNS],
        "clusterDomain": "cluster.local",
        "resolvConf": f"{folder}/resolv.conf",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "nodeStatusUpdateFrequency": "4s",
        "syncFrequency": "10s",  # Secrets arrive in mounts within this time; a minute by default
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "healthzBindAddress": "127.0.0.1",
        "makeIPTablesUtilChains": False,
        "localStorageCapacityIsolation": False,
        "serializeImagePulls": False,
    }


class Node:
    """node-N: pods have addresses 10.250.N.0/24, the node itself 10.249.0.(10 + N)."""

    def __init__(
        self, number: int, root: pathlib.Path, programs: pathlib.Path, kubeconfig: pathlib.Path
    ):
        self.number, self.name, self.address = number, f"node-{number}", f"10.249.0.{10 + number}"
        self.cgroup = f"remesh-node-{number}"
        self._folder, self._programs, self._kubeconfig = root / self.name, programs, kubeconfig
        self._boots = 0
        self._make_cgroups()
        self.boot()

    def boot(self) -> None:
        """Starts the machine, its network and containerd; images of an earlier boot are still
        there, mounts and memory are not."""
        self._boots += 1
        self.machine = Machine(self.name, self._folder / f"boot-{self._boots}")
        self._write_files()
        self._containerd = self.machine.start(
            "containerd",
            "containerd",
            "--config",
            self._folder / "containerd.toml",
            "--log-level",
            "warn",
        )
        wait_for(f"{self.name}: containerd", lambda: self.machine.run("ctr", "version"))

    def import_image(self, archive: pathlib.Path) -> None:
        self.machine.run("ctr", "--namespace", "k8s.io", "images", "import", archive, timeout=600)

    def join(self) -> None:
        """Starts kubelet and kube-proxy; the network must be there."""
        self.start_kubelet()
        self.machine.start(
            "kube-proxy",
            self._programs / "kube-proxy",
            f"--kubeconfig={self._kubeconfig}",
            f"--hostname-override={self.name}",
            "--proxy-mode=nftables",
            "--cluster-cidr=10.250.0.0/16",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
            "--healthz-bind-address=127.0.0.1:10256",
        )

    def start_kubelet(self) -> None:
        self._kubelet: Process = self.machine.start(
            "kubelet",
            self._programs / "kubelet",
            f"--config={self._folder}/kubelet.json",
            f"--kubeconfig={self._kubeconfig}",
            f"--root-dir={self._folder}/kubelet",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
            f"--cert-dir={self._folder}/pki",
        )

    def kill(self) -> None:
        """The plug is pulled: no process of it lives on, tmpfs is empty."""
        self.machine.end()

    def kill_container(self, container: str, how: str = "SIGKILL", check: bool = True) -> None:
        """A signal to the first process of a container, by its id of Kubernetes:
        containerd://..."""
        self.machine.run(
            "ctr",
            "--namespace",
            "k8s.io",
            "tasks",
            "kill",
            "--signal",
            how,
            container.split("//")[1],
            check=check,
        )

    def _write_files(self) -> None:
        (self._folder / "cni").mkdir(exist_ok=True)
        (self._folder / "cni" / "10.conflist").write_text(
            json.dumps(_cni(self.number, self._folder))
        )
        (self._folder / "resolv.conf").write_text(f"nameserver {DNS}\n")
        (self._folder / "kubelet.json").write_text(
            json.dumps(_kubelet(self.address, f"/{self.cgroup}", self._folder))
        )
        (self._folder / "containerd.toml").write_text(
            _CONTAINERD.format(folder=self._folder, pause=pause_image.NAME)
        )

    def _make_cgroups(self) -> None:
        for controller in CGROUPS.iterdir():
            if (controller / "tasks").exists():  # version 1
                (controller / self.cgroup).mkdir(exist_ok=True)
        for name in (
            "cpuset.cpus",
            "cpuset.mems",
        ):  # empty in a new one, and then nothing may run there
            (CGROUPS / "cpuset" / self.cgroup / name).write_text(
                (CGROUPS / "cpuset" / name).read_text()
            )

    def remove_cgroups(self) -> None:
        for top in CGROUPS.glob(f"*/{self.cgroup}"):
            for folder in sorted(
                (path for path in top.rglob("*") if path.is_dir()),
                key=lambda path: -len(path.parts),
            ):
                folder.rmdir()
            top.rmdir()
