# SPDX-License-Identifier: Apache-2.0
"""A cluster whose workers are in network namespaces of this machine, each behind a veth pair of its
own. For suites; needs root, `ip` and `tc`."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys

PREFIX, GATEWAY = "10.231.77.", "10.231.77.254"
BRIDGE = "remesh-bench"


def skip_unless_possible():
    """Ends the process, having said SKIP, where this machine does not let it make namespaces."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        print("SKIP: needs root, ip and tc", file=sys.stderr)
        sys.exit(0)


@contextlib.contextmanager
def network(hosts, bits_per_second=None):
    """Names of new namespaces, connected by a bridge, on which this namespace is GATEWAY.
    bits_per_second: what passes each way; None: all that the machine can."""
    names = [f"{BRIDGE}-{host}" for host in range(hosts)]
    with contextlib.ExitStack() as undo:
        _ip("link", "add", BRIDGE, "mtu", "9000", "type", "bridge")
        undo.callback(_ip, "link", "del", BRIDGE)
        _ip("addr", "add", f"{GATEWAY}/24", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")
        for host, name in enumerate(names):
            _ip("netns", "add", name)
            undo.callback(_ip, "netns", "del", name)  # and its end of the pair, which is the pair
            _connect(host, name)
            if bits_per_second:
                _limit(host, name, bits_per_second)
        yield names


def cluster(build, namespaces, **settings):
    """A LocalCluster with a worker a namespace, by a script in the binary's place, and the server
    at GATEWAY. settings: LocalCluster's."""
    from remesh.testing import LocalCluster  # built by the suite's TARGETS

    class NamespaceCluster(LocalCluster):
        @property
        def server_address(self):
            return f"{GATEWAY}:{self._server_port}"

        def _start(self, name, binary, config):
            if name == "server":
                return super()._start(
                    name,
                    binary,
                    [
                        line.replace("listen_address: 127.0.0.1", f"listen_address: {GATEWAY}")
                        for line in config
                    ],
                )
            host = self.host_names.index(name)
            script = self.root / f"{name}.sh"
            script.write_text(
                f"#!/bin/sh\nexec ip netns exec {namespaces[host]} "
                f'{pathlib.Path(binary).resolve()} "$@"\n'
            )
            script.chmod(0o755)
            return super()._start(name, script, [*config, f"data_bind_address: {PREFIX}{host + 1}"])

    return NamespaceCluster(build / "bin", len(namespaces), **settings)


def _ip(*words):
    subprocess.run(["ip", *words], check=True)


def _connect(host, name):
    outer = f"rmbench{host}"
    _ip(
        "link",
        "add",
        outer,
        "mtu",
        "9000",
        "type",
        "veth",
        "peer",
        "name",
        "eth0",
        "mtu",
        "9000",
        "netns",
        name,
    )
    _ip("link", "set", outer, "master", BRIDGE, "up")
    _ip("-n", name, "addr", "add", f"{PREFIX}{host + 1}/24", "dev", "eth0")
    _ip("-n", name, "link", "set", "lo", "up")
    _ip("-n", name, "link", "set", "eth0", "up")


def _limit(host, name, bits_per_second):
    limit = ["root", "tbf", "rate", f"{bits_per_second}bit", "burst", "256kb", "latency", "20ms"]
    subprocess.run(["tc", "qdisc", "add", "dev", f"rmbench{host}", *limit], check=True)
    subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", "eth0", *limit], check=True)
