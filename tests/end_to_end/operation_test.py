# SPDX-License-Identifier: Apache-2.0
"""What operators meet: probes, signals, log lines, limits."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import unittest
import unittest.mock
import urllib.error
import urllib.parse
import urllib.request

import grpc

from remesh.testing import CHANNEL_OPTIONS, LocalCluster, Process
from remesh.v1 import plan_pb2, plan_pb2_grpc, topology_pb2, worker_pb2, worker_pb2_grpc

from harness import BIN_DIR, CALL_SECONDS, ClusterTest, sanitized, text_sharding

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
LINE = re.compile(r"time=\S+ level=\w+ msg=")


def probe(url: str):
    """(code, body) of a probe."""
    try:
        with OPENER.open(url, timeout=CALL_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class OperationTest(ClusterTest):
    HOSTS = 1

    def setUp(self):
        self.host = self.cluster.host_names[0]
        self.processes = [self.cluster.server, self.cluster.workers[self.host]]

    def call(self, cluster: LocalCluster):
        with cluster.channel() as channel:
            return worker_pb2_grpc.WorkerServiceStub(channel).ListWorkers(
                worker_pb2.ListWorkersRequest(), timeout=CALL_SECONDS, wait_for_ready=True
            )

    def test_probes_say_what_is_missing(self):
        server = self.cluster.server_metrics_url.removesuffix("metrics")
        worker = self.cluster.worker_metrics_url(self.host).removesuffix("metrics")
        self.assertEqual(probe(server + "livez"), (200, "ok\n"))
        self.assertEqual(
            probe(server + "readyz"), (200, "serving: ok\njournal: ok\ncontroller: ok\n")
        )
        self.assertEqual(
            probe(worker + "readyz"), (200, "attached: ok\nbuffers: ok\nagent: ok\nkeeper: ok\n")
        )
        self.cluster.stop_server()
        self.addCleanup(self.cluster.wait_workers)
        self.addCleanup(self.cluster.start_server)
        self.wait_until("the worker notices", lambda: probe(worker + "readyz")[0] == 503)
        self.assertRegex(
            probe(worker + "readyz")[1],
            "attached: not attached to the server at .*\nbuffers: ok\nagent: ok\nkeeper: ok\n",
        )
        self.assertEqual(probe(worker + "livez"), (200, "ok\n"))

    def test_a_hang_up_reads_the_settings_again(self):
        for process in self.processes:
            with self.subTest(process=process.name):
                process.popen.send_signal(signal.SIGHUP)
                self.wait_until(
                    "a line",
                    lambda log=process.log: re.search(
                        r'level=info msg="settings read again"', log.read_text()
                    ),
                )
                self.assertTrue(process.alive())

    def test_changed_settings_take_effect_or_are_refused(self):
        metrics = [
            (self.processes[0], self.cluster.server_metrics_url),
            (self.processes[1], self.cluster.worker_metrics_url(self.host)),
        ]
        for process, url in metrics:
            with self.subTest(process=process.name):
                file = self.cluster.root / f"{process.name}.yaml"
                before = file.read_text()
                self.addCleanup(file.write_text, before)

                def gauge(name: str, url=url) -> float:
                    return float(
                        re.search(rf"^remesh_config_{name} (\S+)$", probe(url)[1], re.M)[1]
                    )

                file.write_text(before + "log_level: loud\n")
                self.wait_until(
                    "it is refused", lambda gauge=gauge: gauge("last_reload_successful") == 0
                )
                file.write_text("")  # as a full disk leaves it
                self.wait_until(
                    "it is refused",
                    lambda log=process.log: f"{process.name}.yaml is empty" in log.read_text(),
                )
                if process.name == "server":
                    file.write_text(
                        before
                        + "tls_certificate_file: a\ntls_key_file: b\ntls_client_ca_file: c\n"
                        + "data_encryption: aes-256-gcm\n"
                    )
                    self.wait_until(
                        "keys would be sent in the clear",
                        lambda log=process.log: "needs TLS in force" in log.read_text(),
                    )
                file.write_text(before + "log_format: json\nkeepalive_time: 7s\n")
                self.wait_until(
                    "it is taken", lambda gauge=gauge: gauge("last_reload_successful") == 1
                )
                self.wait_until(
                    "a restart is asked for", lambda gauge=gauge: gauge("restart_required") == 1
                )
                lines = [
                    json.loads(line)
                    for line in process.log.read_text().splitlines()
                    if line.startswith("{")
                ]
                self.assertIn(
                    ("these settings wait for a restart", "keepalive_time"),
                    {(line["msg"], line.get("keys")) for line in lines},
                )
                file.write_text(before)
                self.wait_until("nothing waits", lambda gauge=gauge: gauge("restart_required") == 0)

    def log_of_a_server(self, *flags) -> str:
        """What a server says from its start to its end."""
        with tempfile.TemporaryDirectory() as folder:
            ports, log = pathlib.Path(folder, "ports"), pathlib.Path(folder, "log")
            server = Process(
                "server",
                [
                    str(BIN_DIR / "remesh-server"),
                    *flags,
                    "--metrics-address=127.0.0.1:0",
                    f"--port-file={ports}",
                    f"--journal-path={folder}/journal.db",
                ],
                log,
            )
            self.addCleanup(server.kill)
            self.wait_until("it serves", ports.exists)
            self.assertEqual(server.stop(), 0)
            return log.read_text()

    def test_an_open_door_is_warned_of(self):
        with tempfile.NamedTemporaryFile("w") as tokens:
            print("0123456789abcdef", file=tokens, flush=True)
            everywhere, token_file = (
                "--listen-address=0.0.0.0:0",
                f"--join-token-file={tokens.name}",
            )
            warning = (
                r'level=warning msg="whoever reaches this address may join as a worker: set '
                r'join_token_file" listen_address=0.0.0.0:0'
            )
            self.assertRegex(self.log_of_a_server(everywhere), warning)
            for closed in [[everywhere, token_file], ["--listen-address=127.0.0.1:0"]]:
                self.assertNotIn("may join as a worker", self.log_of_a_server(*closed))

    def test_a_log_that_is_not_read_ends_nothing(self):
        reader, writer = os.pipe()
        with tempfile.TemporaryDirectory() as folder:
            ports = pathlib.Path(folder, "ports")
            with subprocess.Popen(
                [
                    BIN_DIR / "remesh-server",
                    "--listen-address=127.0.0.1:0",
                    "--metrics-address=127.0.0.1:0",
                    f"--port-file={ports}",
                    f"--journal-path={folder}/journal.db",
                ],
                stderr=writer,
            ) as server:
                self.addCleanup(server.kill)
                os.close(writer)
                self.wait_until("it serves", ports.exists)
                os.close(reader)
                server.send_signal(signal.SIGHUP)  # it has something to say
                server.terminate()
                self.assertEqual(server.wait(CALL_SECONDS), 0)

    def test_a_reader_of_the_log_that_does_not_read_holds_up_nothing(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, writer)
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b"\n")
        os.set_blocking(writer, True)
        with tempfile.TemporaryDirectory() as folder:
            ports = pathlib.Path(folder, "ports")
            with subprocess.Popen(
                [
                    BIN_DIR / "remesh-server",
                    "--listen-address=127.0.0.1:0",
                    "--metrics-address=127.0.0.1:0",
                    f"--port-file={ports}",
                    f"--journal-path={folder}/journal.db",
                    "--log-level=debug",
                ],
                stderr=writer,
            ) as server:
                self.addCleanup(server.kill)
                self.wait_until("it serves", ports.exists)
                port = re.search(r"listen_port: (\d+)", ports.read_text())[1]
                with grpc.insecure_channel(f"127.0.0.1:{port}", CHANNEL_OPTIONS) as channel:
                    for _ in range(100):  # each is a line
                        worker_pb2_grpc.WorkerServiceStub(channel).ListWorkers(
                            worker_pb2.ListWorkersRequest(), timeout=CALL_SECONDS
                        )
                server.terminate()
                self.assertEqual(server.wait(CALL_SECONDS), 0)

    def test_every_line_of_the_log_is_pairs(self):
        """Garbage on every port is one line for each cause, and none of another's form."""
        port = int(self.cluster.server_address.rsplit(":", 1)[1])
        address = re.search(
            r"data_address=127.0.0.1:(\d+)", self.cluster.workers[self.host].log.read_text()
        )
        urls = [self.cluster.server_metrics_url, self.cluster.worker_metrics_url(self.host)]
        for to in [port, int(address[1]), *(urllib.parse.urlsplit(url).port for url in urls)]:
            with socket.create_connection(("127.0.0.1", to), CALL_SECONDS) as peer:
                try:
                    peer.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10 + b"\0\xff" * 10000)
                    peer.shutdown(socket.SHUT_WR)
                    while peer.recv(1 << 16):
                        pass
                except OSError:
                    pass
        self.call(self.cluster)
        for process in self.processes:
            for line in process.log.read_text().splitlines():
                if line.startswith("{"):  # of the time that another test had log_format at json
                    self.assertEqual({"time", "level", "msg"} - set(json.loads(line)), set())
                else:
                    self.assertRegex(line, LINE)

    def test_what_ucx_says_is_pairs(self):
        with unittest.mock.patch.dict(os.environ, UCX_LOG_LEVEL="info"):
            with LocalCluster(BIN_DIR, hosts=1, worker_config=["transport: ucx"]) as cluster:
                lines = cluster.workers["host-0"].log.read_text().splitlines()
        for line in lines:
            self.assertRegex(line, LINE)
        self.assertRegex("\n".join(lines), r' level=info msg=UCX cause=".+" at=\w+\.c:\d+')

    def test_a_debug_log_has_each_request(self):
        with LocalCluster(BIN_DIR, hosts=0, server_config=["log_level: debug"]) as cluster:
            self.call(cluster)
            self.wait_until(
                "a line",
                lambda: re.search(
                    r"level=debug msg=request method=/remesh.v1.WorkerService/ListWorkers "
                    r"peer=\S+ code=OK seconds=",
                    cluster.server.log.read_text(),
                ),
            )

    @unittest.skipIf(sanitized(), "a sanitizer owns the heap")
    def test_memory_of_refused_plans_is_given_back(self):
        """The heaps of planning threads kept all that a plan had needed before it was refused."""
        devices, shapes = 64, 10_000
        hosts = [
            topology_pb2.Host(
                name=f"h{i}",
                device_ids=range(8 * i, 8 * i + 8),
                nics=8,
                nic_bytes_per_second=1e9,
                fabric_bytes_per_second=1e10,
            )
            for i in range(devices // 8)
        ]
        rows, columns = (
            text_sharding(f"{{devices=[{tiles}]<=[{devices}]}}", *range(devices))
            for tiles in ("64,1", "1,64")
        )
        spec = plan_pb2.PlanSpec(
            topology=topology_pb2.Topology(hosts=hosts),
            shardings={"rows": rows, "columns": columns},
            arrays=[
                plan_pb2.ArraySpec(
                    name=f"a{i}",
                    shape=[devices + i, devices],
                    element_type="bf16",
                    source={"ref": "rows"},
                    target={"ref": "columns"},
                )
                for i in range(shapes)
            ],
        )
        with LocalCluster(BIN_DIR, hosts=0) as cluster, cluster.channel() as channel:

            def resident_mib(key: str) -> int:
                return (
                    int(
                        re.search(
                            rf"{key}:\s*(\d+)",
                            pathlib.Path(f"/proc/{cluster.server.popen.pid}/status").read_text(),
                        )[1]
                    )
                    >> 10
                )

            self.call(cluster)
            before = resident_mib("VmRSS")
            for _ in range(3):
                with self.assertRaises(grpc.RpcError) as refusal:
                    plan_pb2_grpc.PlanServiceStub(channel).CreatePlan(
                        plan_pb2.CreatePlanRequest(spec=spec), timeout=60
                    )
                self.assertIn("more than 4194304 atoms", refusal.exception.details())
            self.assertGreater(resident_mib("VmHWM"), before + 200)
            self.wait_until("it is given back", lambda: resident_mib("VmRSS") <= before + 64)

    def test_a_mistyped_flag_is_one_line_with_the_nearest(self):
        for binary, mistyped, meant in (
            ("remesh-server", "--listen-adress", "--listen-address"),
            ("remesh-worker", "--server-adress", "--server-address"),
            ("remesh-keeper", "--socket-paht", "--socket-path"),
            ("remesh-server", "--metrics_address", "--metrics-address"),
        ):
            with self.subTest(binary=binary, flag=mistyped):
                done = subprocess.run(
                    [BIN_DIR / binary, mistyped, "x"],
                    capture_output=True,
                    text=True,
                    timeout=CALL_SECONDS,
                    check=False,
                )
                self.assertEqual(
                    (done.returncode, done.stderr),
                    (2, f"{binary}: unknown flag {mistyped}; did you mean {meant}?\n"),
                )

    def test_an_address_in_use_is_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            second = subprocess.run(
                [
                    BIN_DIR / "remesh-server",
                    f"--listen-address={self.cluster.server_address}",
                    "--metrics-address=127.0.0.1:0",
                    f"--journal-path={folder}/journal.db",
                ],
                capture_output=True,
                text=True,
                timeout=CALL_SECONDS,
                check=False,
            )
            self.assertEqual(os.listdir(folder), [], "files were made before the address was tried")
        self.assertEqual(second.returncode, 1)
        self.assertEqual(
            second.stderr.splitlines()[-1],
            f"remesh-server: listen_address: cannot listen on {self.cluster.server_address}: "
            "Address already in use (LISTEN_FAILED)",
        )
        self.assertNotIn("gRPC", second.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "the limit is set for a user with no other process")
    def test_too_few_threads_are_an_error_with_the_limit(self):
        # Too few for the server's own threads, or for those of gRPC.
        for limit in (3, 10, 20, 30, 40, 50, 60, 70, 80):
            with self.subTest(limit=limit), tempfile.TemporaryDirectory() as folder:
                os.chmod(folder, 0o777)
                refused = subprocess.run(
                    [
                        "setpriv",
                        "--reuid=65533",
                        "--clear-groups",
                        "prlimit",
                        f"--nproc={limit}",
                        BIN_DIR / "remesh-server",
                        "--listen-address=127.0.0.1:0",
                        f"--journal-path={folder}/journal.db",
                    ],
                    capture_output=True,
                    text=True,
                    timeout=CALL_SECONDS,
                    check=False,
                )
                self.assertEqual(refused.returncode, 1)
                self.assertRegex(
                    refused.stderr,
                    r"(no thread can be started|spare threads could be started).*RLIMIT_NPROC "
                    rf"{limit}\b",
                )


if __name__ == "__main__":
    unittest.main()
