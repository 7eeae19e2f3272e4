# SPDX-License-Identifier: Apache-2.0
"""One server and some workers as real processes on this machine's loopback, for demos and tests.

Everything lies under one temporary directory (logs, journal, sockets, port files) and one buffer directory; close(), or the end
of the `with` block, ends the processes and removes both. Should this process die without that, the kernel ends its children.
"""
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
from typing import Dict, List, Optional, Sequence

START_SECONDS = 30.0
STOP_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1


class ClusterError(Exception):
    """A process did not start or died; the message ends with the tail of its log."""


class Process:
    """A child process whose output goes to a log file."""

    def __init__(self, name: str, argv: Sequence[str], log: pathlib.Path, env: Optional[Dict[str, str]] = None,
                 stdin=subprocess.DEVNULL, stdout=None):
        self.name, self.log = name, log
        with log.open("ab") as output:
            # A session of its own: Ctrl-C in the terminal reaches the parent alone, which then ends its children in order.
            self.popen = subprocess.Popen(argv, stdin=stdin, stdout=stdout or output, stderr=output, text=True,
                                          env={**os.environ, **(env or {})}, start_new_session=True,
                                          preexec_fn=_die_with_parent)

    def alive(self) -> bool:
        return self.popen.poll() is None

    def kill(self) -> None:
        """SIGKILL: no chance to clean up."""
        self.popen.kill()
        self.popen.wait()

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> int:
        """SIGTERM, SIGKILL if that does not help in time. Returns the exit status, negative for a signal."""
        if self.alive():
            self.popen.terminate()
        try:
            return self.popen.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.popen.returncode

    def log_tail(self, lines: int = 15) -> str:
        text = self.log.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join(f"  | {line}" for line in text) or "  | (no output)"

    def failure(self, what: str) -> ClusterError:
        return ClusterError(f"{self.name}: {what}\nend of {self.log}:\n{self.log_tail()}")


class LocalCluster:
    """A server and `hosts` workers ("host-0" ...), each with `devices_per_host` host devices.

    Device ids are global: host i has devices [i * devices_per_host, (i + 1) * devices_per_host).
    """

    def __init__(self, bin_dir: os.PathLike, hosts: int, devices_per_host: int = 2, buffer_bytes: int = 0,
                 nic_bytes_per_second: float = 12.5e9, server_config: Sequence[str] = (), worker_config: Sequence[str] = ()):
        """buffer_bytes: room that buffers will need: /dev/shm where it has as much, else the temporary directory's disk.

        server_config, worker_config: lines of YAML to add to the configuration files.
        """
        self.bin_dir = pathlib.Path(bin_dir)
        self.host_names = [f"host-{i}" for i in range(hosts)]
        self.devices_per_host = devices_per_host
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="remesh-"))
        self._nic_bytes_per_second = nic_bytes_per_second
        self._server_config, self._worker_config = list(server_config), list(worker_config)
        self._server_port = self._metrics_port = 0
        self.server: Optional[Process] = None
        self.workers: Dict[str, Process] = {}
        try:
            self.buffers = _buffer_directory(self.root, buffer_bytes)
        except Exception:
            shutil.rmtree(self.root, ignore_errors=True)
            raise

    def __enter__(self) -> "LocalCluster":
        try:
            self.start_server()
            for host in self.host_names:
                self.start_worker(host, wait=False)
            self.wait_workers()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        """Ends every process and removes every file. May be called twice."""
        processes = [*self.workers.values(), *([self.server] if self.server else [])]
        for process in processes:
            if process.alive():
                process.popen.terminate()
        for process in processes:
            process.stop()
        self.workers, self.server = {}, None
        shutil.rmtree(self.buffers, ignore_errors=True)
        shutil.rmtree(self.root, ignore_errors=True)

    # ---- addresses ----

    @property
    def server_address(self) -> str:
        return f"127.0.0.1:{self._server_port}"

    @property
    def server_metrics_url(self) -> str:
        return f"http://127.0.0.1:{self._metrics_port}/metrics"

    def worker_socket(self, host: str) -> str:
        return str(self.root / f"{host}.sock")

    def device_ids(self, host: str) -> List[int]:
        first = self.host_names.index(host) * self.devices_per_host
        return list(range(first, first + self.devices_per_host))


def _die_with_parent():
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
