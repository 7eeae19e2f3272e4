# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes cluster of its real programs: the control plane in the caller's namespaces, each
node in its own."""

import json
import pathlib
import signal
import ssl
import threading
import time
import urllib.parse
import urllib.request
from typing import List

from machine import Process, run, wait_for
from node import DNS, Node

API = f"https://{DNS}:6443"


class Cluster:
    """Up when it is made. `programs`: folder of kube's names, helm and etcd; `root`: an empty
    folder for all that it writes."""

    def __init__(
        self, root: pathlib.Path, programs: pathlib.Path, nodes: int, images: List[pathlib.Path]
    ):
        self.root, self.programs, self._images = root, programs, images
        self.kubeconfig = root / "kubeconfig"
        self._processes = []
        trusting = urllib.request.HTTPSHandler(
            context=ssl._create_unverified_context()
        )  # its certificate is one of a test
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), trusting)
        (root / "logs").mkdir(parents=True)
        self._make_lan()
        self._start_control_plane()
        self.nodes = [self._add_node(number) for number in range(1, nodes + 1)]
        self._start_dns()
        wait_for("nodes", lambda: len(self.get("nodes")["items"]) == nodes)
        self.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=90s")

    # ---- what tests call ----

    def kubectl(self, *arguments, **options):
        return run(
            self.programs / "kubectl", "--kubeconfig", self.kubeconfig, *arguments, **options
        )

    def helm(self, *arguments, **options):
        home = self.root / "helm"
        return run(
            self.programs / "helm",
            "--kubeconfig",
            self.kubeconfig,
            *arguments,
            env={
                "HELM_CACHE_HOME": str(home),
                "HELM_CONFIG_HOME": str(home),
                "HELM_DATA_HOME": str(home),
            },
            **options,
        )

    def get(self, *arguments) -> dict:
        return json.loads(self.kubectl("get", *arguments, "--output=json").stdout)

    def ask(self, path: str, **arguments) -> dict:
        """A GET of the API server without a process for it: for what is asked every second."""
        request = urllib.request.Request(
            f"{API}{path}?{urllib.parse.urlencode(arguments)}",
            headers={"Authorization": "Bearer admin"},
        )
        with self._opener.open(request, timeout=5) as answer:
            return json.load(answer)

    def apply(self, *objects, arguments=(), **options):
        return self.kubectl(
            "apply",
            *arguments,
            "--filename=-",
            text=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}),
            **options,
        )

    def node(self, name: str) -> Node:
        (found,) = [node for node in self.nodes if node.name == name]
        return found

    def boot(self, node: Node) -> None:
        """A killed node comes back."""
        node.boot()
        self._connect(node)
        node.join()

    def start(self, name: str, *argv) -> None:
        """A process beside the control plane, until the cluster ends."""
        self._processes.append(Process(argv, self.root / "logs" / f"{name}.log"))

    def close(self) -> None:
        for node in self.nodes:
            node.kill()
        for process in reversed(self._processes):
            process.stop()
        for node in self.nodes:
            wait_for(
                f"{node.name}: its cgroups are empty",
                lambda n=node: n.remove_cgroups() or True,
                seconds=20,
            )

    # ---- how it comes up ----

    def _make_lan(self) -> None:
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "lan", "type", "bridge")
        run("ip", "address", "add", f"{DNS}/24", "dev", "lan")
        run("ip", "link", "set", "lan", "up")
        run("sysctl", "-qw", "net.ipv4.ip_forward=1")

    def _add_node(self, number: int) -> Node:
        node = Node(number, self.root, self.programs, self.kubeconfig)
        self._connect(node)
        for image in self._images:
            node.import_image(image)
        node.join()
        return node

    def _connect(self, node: Node) -> None:
        """The node's card, on the bridge. What is not in the cluster is nowhere, but kubelets want
        a default route."""
        run("ip", "link", "delete", f"v{node.name}", check=False)
        run(
            "ip",
            "link",
            "add",
            f"v{node.name}",
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            str(node.machine.init),
        )
        run("ip", "link", "set", f"v{node.name}", "master", "lan", "up")
        for command in (
            ["link", "set", "lo", "up"],
            ["address", "add", f"{node.address}/24", "dev", "eth0"],
            ["link", "set", "eth0", "up"],
            ["route", "add", "default", "via", DNS],
        ):
            node.machine.run("ip", *command)
        node.machine.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        run("ip", "route", "replace", f"10.250.{node.number}.0/24", "via", node.address)

    def _start_control_plane(self) -> None:
        key, public = self.root / "accounts.key", self.root / "accounts.pub"
        run("openssl", "genrsa", "-out", key, "2048")
        run("openssl", "rsa", "-in", key, "-pubout", "-out", public)
        (self.root / "tokens.csv").write_text('admin,admin,1,"system:masters"\n')
        self.kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "test",
                    "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
                    "clusters": [
                        {
                            "name": "test",
                            "cluster": {"server": API, "insecure-skip-tls-verify": True},
                        }
                    ],
                    "users": [{"name": "admin", "user": {"token": "admin"}}],
                }
            )
        )
        programs, etcd = self.programs, "http://127.0.0.1:2379"
        self.start(
            "etcd",
            programs / "etcd",
            f"--data-dir={self.root}/etcd",
            "--unsafe-no-fsync",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--log-level=warn",
        )
        self.start(
            "apiserver",
            programs / "kube-apiserver",
            f"--etcd-servers={etcd}",
            f"--cert-dir={self.root}/pki",
            f"--bind-address={DNS}",
            "--secure-port=6443",
            "--service-cluster-ip-range=10.248.0.0/24",
            "--authorization-mode=Node,RBAC",
            f"--token-auth-file={self.root}/tokens.csv",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={public}",
            f"--service-account-signing-key-file={key}",
            "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP",
        )
        wait_for(
            "the API server",
            lambda: self.kubectl("get", "--raw=/readyz", check=False).returncode == 0,
        )
        self.start(
            "controllers",
            programs / "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--service-account-private-key-file={key}",
            "--leader-elect=false",
            "--node-monitor-grace-period=20s",
        )
        self.start(
            "scheduler",
            programs / "kube-scheduler",
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
        )

    # ---- names of services ----

    def _start_dns(self) -> None:
        """dnsmasq with a file of names, which a thread keeps as the services are."""
        (self.root / "names").write_text("")
        # Names that it does not know do not exist, the short ones that resolvers try first
        # included: a refusal would end the search.
        local = [f"--local=/{domain}/" for domain in ("cluster.local", "svc", "local")]
        self._dns = Process(
            [
                "dnsmasq",
                "--keep-in-foreground",
                "--no-resolv",
                "--no-hosts",
                *local,
                f"--listen-address={DNS}",
                "--bind-interfaces",
                f"--addn-hosts={self.root}/names",
                "--pid-file=",
                "--user=root",
            ],
            self.root / "logs" / "dns.log",
        )
        self._processes.append(self._dns)
        self._watch = Process(
            [
                "sh",
                "-c",
                f"while :; do {self.programs}/kubectl --kubeconfig={self.kubeconfig} get services "
                "--all-namespaces --watch "
                "--output='jsonpath={.spec.clusterIP} "
                '{.metadata.name}.{.metadata.namespace}{"\\n"}\'; sleep 1; done',
            ],
            self.root / "logs" / "services.log",
        )
        self._processes.append(self._watch)
        threading.Thread(target=self._keep_names, daemon=True).start()

    def _keep_names(self) -> None:

        log, seen = self.root / "logs" / "services.log", ""
        while True:
            text = log.read_text()
            if text != seen:
                seen = text
                pairs = dict(
                    reversed(line.split()) for line in text.splitlines() if line[:1].isdigit()
                )
                (self.root / "names").write_text(
                    "".join(
                        f"{address} {name}.svc.cluster.local\n" for name, address in pairs.items()
                    )
                )
                self._dns.popen.send_signal(signal.SIGHUP)
            time.sleep(0.2)
