# SPDX-License-Identifier: Apache-2.0
"""Runs a server and some workers as real processes on this machine's loopback, for demos and tests.

    with LocalCluster(hosts=2) as cluster:
        client = remesh.connect(cluster.worker_socket("host-0"), cluster.server_address)

All files are in one temporary directory (logs, journal, sockets, port files) and one buffer
directory; close(), or the end of the `with` block, ends the processes and removes both. If this
process dies before that, the kernel kills its children.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Dict, List, Optional, Sequence

import grpc

from remesh import connection
from remesh.v1 import worker_pb2, worker_pb2_grpc

START_SECONDS = 60.0  # a bound for busy machines
STOP_SECONDS = 10.0
CHANNEL_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)
_SPARE_BYTES = 16 << 20
_DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")


class ClusterError(Exception):
    """A process did not start or died; the message ends with the tail of its log."""


class Process:
    """A child process whose output goes to a log file. The kernel ends it with the thread that
    started it, so that must outlive it."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        log: pathlib.Path,
        env: Optional[Dict[str, str]] = None,
        stdin=subprocess.DEVNULL,
        stdout=None,
    ):
        self.name, self.log = name, log
        with log.open("ab") as output:
            # A new session: Ctrl-C in the terminal reaches the parent alone, which then ends its
            # children in order. setpriv, not a preexec_fn: that would fork() for real, and gRPC's
            # threads here do not survive its fork handlers.
            self.popen = subprocess.Popen(
                [*_DIE_WITH_PARENT, *argv],
                stdin=stdin,
                stdout=stdout or output,
                stderr=output,
                text=True,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )

    def alive(self) -> bool:
        return self.popen.poll() is None

    def kill(self) -> None:
        """SIGKILL: no chance to clean up."""
        self.popen.kill()
        self.popen.wait()

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> int:
        """Sends SIGTERM, and SIGKILL if the process does not end in time. Returns the exit status,
        negative for a signal."""
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

    def __init__(
        self,
        bin_dir: Optional[os.PathLike] = None,
        hosts: int = 1,
        devices_per_host: int = 2,
        buffer_bytes: int = 0,
        nic_bytes_per_second: float = 12.5e9,
        server_config: Sequence[str] = (),
        worker_config: Sequence[str] = (),
        device: str = "host",
        tls: Optional[connection.Tls] = None,
        device_buffers: str = "device",
        assigned_ids: bool = False,
    ):
        """bin_dir: where the programs are; None: REMESH_BIN_DIR, else where PATH finds
        remesh-server.

        device: "host"; "sim": simulated GPUs, which exchange data over a fake NCCL; the build puts
        the worker that has them and the fake beside its tests, and installs neither; "cuda": the
        machine's first GPUs, which all hosts share; or "mixed" and "mixed_cuda": the same, but only
        every second host from the first on has GPUs.

        device_buffers: "device": shards are in the GPUs' memory, with a keeper; "host": in files.

        buffer_bytes: room that buffers will need: in /dev/shm if it has as much, else on the
        temporary directory's disk.

        server_config, worker_config: lines of YAML to add to the configuration files; {host} stands
        for a worker's host.
        assigned_ids: the server chooses device ids, and device_ids() asks it for them.
        tls: for this object's own calls, when server_config turns TLS on.
        """
        self.bin_dir = _bin_dir(bin_dir)
        self.host_names = [f"host-{i}" for i in range(hosts)]
        self.devices_per_host = devices_per_host
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="remesh-"))
        self._nic_bytes_per_second = nic_bytes_per_second
        self._device, self._tls = device, tls
        self._assigned_ids = assigned_ids
        self._server_config, self._worker_config = list(server_config), list(worker_config)
        self._server_port = self._metrics_port = 0
        self._worker_metrics_ports: Dict[str, int] = {}
        self.server: Optional[Process] = None
        self.keeper: Optional[Process] = None
        self._has_keeper = device != "host" and device_buffers == "device"
        self._device_config = self._config_of_gpus(device_buffers)
        self.workers: Dict[str, Process] = {}
        # Of each host: the life that the server last sent us, and the last one that is over.
        self._incarnations: Dict[str, int] = {}
        self._ended_incarnations: Dict[str, int] = {}
        try:
            self.buffers = _buffer_directory(self.root, buffer_bytes)
        except Exception:
            shutil.rmtree(self.root, ignore_errors=True)
            raise

    def has_gpus(self, host: str) -> bool:
        return self._device != "host" and (
            not self._device.startswith("mixed") or self.host_names.index(host) % 2 == 0
        )

    def _beside_tests(self, file: str, target: str) -> pathlib.Path:
        path = self.bin_dir.resolve().parent / "tests" / file
        if not path.exists():
            raise ClusterError(
                f"device {self._device} needs {path}, which the build makes as {target}"
            )
        return path

    def _worker_binary(self, host: str) -> pathlib.Path:
        if self.has_gpus(host) and not self._device.endswith("cuda"):
            return self._beside_tests("remesh-worker-sim", "remesh-worker-sim")
        return self.bin_dir / "remesh-worker"

    def _config_of_gpus(self, device_buffers: str) -> List[str]:
        if self._device == "host":
            return []
        device, library = "cuda", os.environ.get("REMESH_NCCL_LIBRARY", "libnccl.so.2")
        if not self._device.endswith("cuda"):
            device, library = "sim", self._beside_tests(
                "libremesh_fake_nccl.so", "remesh_fake_nccl"
            )
        keeper = [f"keeper_socket: {self._keeper_socket}"] if self._has_keeper else []
        return [
            "transport: nccl",
            f"device: {device}",
            f"nccl_library: {library}",
            f"device_buffers: {device_buffers}",
            *keeper,
        ]

    def __enter__(self) -> "LocalCluster":
        try:
            if self._has_keeper:
                self.start_keeper()
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
        processes = [
            *self.workers.values(),
            *([self.server] if self.server else []),
            *([self.keeper] if self.keeper else []),
        ]
        for process in processes:
            if process.alive():
                process.popen.terminate()
        for process in processes:
            process.stop()
        self.workers, self.server, self.keeper = {}, None, None
        shutil.rmtree(self.buffers, ignore_errors=True)
        shutil.rmtree(self.root, ignore_errors=True)

    # ---- addresses ----

    @property
    def server_address(self) -> str:
        return f"127.0.0.1:{self._server_port}"

    @property
    def server_metrics_url(self) -> str:
        return f"http://127.0.0.1:{self._metrics_port}/metrics"

    def worker_metrics_url(self, host: str) -> str:
        return f"http://127.0.0.1:{self._worker_metrics_ports[host]}/metrics"

    def worker_socket(self, host: str) -> str:
        return str(self.root / f"{host}.sock")

    def device_ids(self, host: str) -> List[int]:
        if self._assigned_ids:
            with self.channel() as channel:
                listed = worker_pb2_grpc.WorkerServiceStub(channel).ListWorkers(
                    worker_pb2.ListWorkersRequest(), timeout=START_SECONDS
                )
            return next(
                [device.id for device in worker.registration.devices]
                for worker in listed.workers
                if worker.registration.host == host
            )
        first = self.host_names.index(host) * self.devices_per_host
        return list(range(first, first + self.devices_per_host))

    def channel(self) -> grpc.Channel:
        """A new channel to the server; never through a proxy."""
        return connection.ServerConnection(
            self.server_address, CHANNEL_OPTIONS, self._tls
        ).channel()

    @property
    def _keeper_socket(self) -> str:
        return str(self.root / "keeper.sock")

    # ---- processes ----

    def start_keeper(self) -> None:
        """Starts the keeper of all hosts' device buffers, or restarts it without any buffers."""
        log = self.root / "keeper.log"
        log.unlink(missing_ok=True)
        self.keeper = Process(
            "keeper",
            [str(self.bin_dir / "remesh-keeper"), "--socket-path", self._keeper_socket],
            log,
        )
        deadline = time.monotonic() + START_SECONDS
        while "listening" not in log.read_text():
            if not self.keeper.alive() or time.monotonic() > deadline:
                raise self.keeper.failure("did not start")
            time.sleep(0.01)

    def start_server(self) -> None:
        """Starts the server, or restarts it on the same port with the same journal."""
        ports = self._start(
            "server",
            self.bin_dir / "remesh-server",
            [
                f"listen_address: 127.0.0.1:{self._server_port}",
                f"metrics_address: 127.0.0.1:{self._metrics_port}",
                f"journal_path: {self.root / 'journal.db'}",
                *self._server_config,
            ],
        )
        self._server_port, self._metrics_port = int(ports["listen_port"]), int(
            ports["metrics_port"]
        )

    def start_worker(self, host: str, wait: bool = True) -> None:
        """Starts a worker, or restarts it on the buffers that it left."""
        self._ended_incarnations[host] = self._incarnations.get(host, 0)
        devices = (
            ["device_ids: auto", f"devices: {self.devices_per_host}"]
            if self._assigned_ids
            else [f"device_ids: {self.device_ids(host)}"]
        )
        ports = self._start(
            host,
            self._worker_binary(host),
            [
                f"host: {host}",
                f"server_address: {self.server_address}",
                *devices,
                f"nic_bytes_per_second: {self._nic_bytes_per_second}",
                f"fabric_bytes_per_second: {10 * self._nic_bytes_per_second}",
                f"buffer_directory: {self.buffers / host}",
                f"socket_path: {self.worker_socket(host)}",
                *(self._device_config if self.has_gpus(host) else []),
                *(line.replace("{host}", host) for line in self._worker_config),
            ],
        )
        self._worker_metrics_ports[host] = int(ports["metrics_port"])
        if wait:
            self.wait_workers([host])

    def lose_shards(self, host: str) -> None:
        """Ends the host's worker at once and deletes all shards that it held; start_worker() starts
        it as the same host with nothing."""
        self.workers[host].kill()
        for path in (self.buffers / host).iterdir():
            if not path.name.startswith(("agent", "lock")):  # what proves that it is the same host
                shutil.rmtree(path)

    def wait_workers(self, hosts: Optional[Sequence[str]] = None) -> None:
        """Waits until the server lists these workers, or all, as alive in their present
        incarnation."""
        hosts = list(hosts or self.host_names)
        processes = [self.server, *(self.workers[host] for host in hosts)]
        deadline = time.monotonic() + START_SECONDS
        with self.channel() as channel:
            stub = worker_pb2_grpc.WorkerServiceStub(channel)
            while True:
                for process in processes:
                    if not process.alive():
                        raise process.failure(
                            f"died with {process.popen.returncode} while starting"
                        )
                try:
                    listed = stub.ListWorkers(
                        worker_pb2.ListWorkersRequest(), timeout=START_SECONDS
                    ).workers
                except grpc.RpcError as error:
                    if time.monotonic() > deadline:
                        raise self.server.failure(f"does not answer: {error.details()}") from None
                    time.sleep(0.05)
                    continue
                alive = {
                    w.registration.host: w.registration.incarnation
                    for w in listed
                    if w.alive
                    and w.registration.incarnation
                    > self._ended_incarnations.get(w.registration.host, 0)
                }
                for host in hosts:
                    if host not in alive and time.monotonic() > deadline:
                        raise self.workers[host].failure(
                            f"did not attach to the server within {START_SECONDS:.0f} s"
                        )
                if set(alive).issuperset(hosts):
                    self._incarnations |= alive
                    return
                time.sleep(0.05)

    def kill_server(self) -> None:
        self.server.kill()

    def stop_server(self) -> int:
        return self.server.stop()

    def _environment(self, name: str) -> Dict[str, str]:
        """NCCL accepts two ranks on one GPU only if it believes that they are on two machines; they
        then talk over loopback."""
        if not self._device.endswith("cuda") or name == "server":
            return {}
        return {
            "NCCL_HOSTID": name,
            "NCCL_SOCKET_IFNAME": "lo",
            "NCCL_IB_DISABLE": "1",
            "NCCL_NVLS_ENABLE": "0",
            "NCCL_MNNVL_ENABLE": "0",
            "NCCL_MAX_CTAS": "4",
        }

    def _start(self, name: str, binary: pathlib.Path, config: Sequence[str]) -> Dict[str, str]:
        """Starts a process, waits for its port file and returns the file's values by name."""
        port_file = self.root / f"{name}.ports"
        port_file.unlink(missing_ok=True)
        config_file = self.root / f"{name}.yaml"
        config_file.write_text("\n".join([*config, f"port_file: {port_file}", ""]))
        process = Process(
            name,
            [str(binary), "--config", str(config_file)],
            self.root / f"{name}.log",
            env=self._environment(name),
        )
        if name == "server":
            self.server = process
        else:
            self.workers[name] = process
        deadline = time.monotonic() + START_SECONDS
        while not port_file.exists():
            if not process.alive():
                raise process.failure(f"exited with {process.popen.returncode} while starting")
            if time.monotonic() > deadline:
                raise process.failure(f"did not start within {START_SECONDS:.0f} s")
            time.sleep(0.01)
        return dict(line.split(": ", 1) for line in port_file.read_text().splitlines())


def _bin_dir(named: Optional[os.PathLike]) -> pathlib.Path:
    """The folder with the programs, by whoever names it first."""
    named = named or os.environ.get("REMESH_BIN_DIR", "")
    if named:
        return pathlib.Path(named)
    found = shutil.which("remesh-server")
    if found is None:
        raise ClusterError("remesh-server is not on the PATH: set REMESH_BIN_DIR to its folder")
    return pathlib.Path(found).parent


def _buffer_directory(root: pathlib.Path, needed: int) -> pathlib.Path:
    """A new folder with room for `needed` bytes: in memory if there is as much, else on the
    temporary directory's disk."""
    needed += _SPARE_BYTES
    shared = pathlib.Path("/dev/shm")
    in_memory = (
        min(_free_bytes(shared), _available_memory())
        if shared.is_dir() and os.access(shared, os.W_OK)
        else 0
    )
    if in_memory >= needed:
        return pathlib.Path(tempfile.mkdtemp(prefix="remesh-", dir=shared))
    if _free_bytes(root) < needed:
        raise ClusterError(
            f"buffers need {needed / 1e9:.1f} GB, but /dev/shm (and the memory behind it) has "
            f"{in_memory / 1e9:.1f} GB free and {root.parent} {_free_bytes(root) / 1e9:.1f} GB"
        )
    folder = root / "buffers"
    folder.mkdir()
    return folder


def _free_bytes(folder: pathlib.Path) -> int:
    return shutil.disk_usage(folder).free


def _available_memory() -> int:
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def main(command: Sequence[str]) -> int:
    """Runs a command beside a server and one worker: REMESH_SOCKET names the worker, REMESH_SERVER
    the server, for remeshctl. Returns its exit status."""
    if not command:
        print(
            "usage: python -m remesh.testing COMMAND...: runs it beside a server and a worker on "
            "this machine",
            file=sys.stderr,
        )
        return 2
    with LocalCluster(None, 1) as cluster:
        socket = cluster.worker_socket(cluster.host_names[0])
        where = {"REMESH_SOCKET": socket, "REMESH_SERVER": cluster.server_address}
        said = " ".join(f"{variable}={value}" for variable, value in where.items())
        print(f"{said}; the server and the worker end with {command[0]}", file=sys.stderr)
        return subprocess.run(command, env={**os.environ, **where}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
