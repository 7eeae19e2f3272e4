# SPDX-License-Identifier: Apache-2.0
"""Peers that connect and say nothing, twice as many as files may be open: clients are served while
they stay, and after."""

import pathlib
import re
import resource
import socket
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request

import grpc

from remesh.testing import CHANNEL_OPTIONS, LocalCluster
from remesh.v1 import local_pb2, local_pb2_grpc, worker_pb2, worker_pb2_grpc

from harness import BIN_DIR, CALL_SECONDS

FILES_MAX = 512
BESIDE_SECONDS, AFTER_SECONDS = (
    10.0,
    5.0,
)  # until a new client is answered while peers stay, and after; mostly 0.1
PROBE_SECONDS = 2.0  # until a probe is answered; mostly 0.01
SOURCES = 8  # addresses that the peers come from
HEALTH = "/grpc.health.v1.Health/Check"
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
SERVING = b"\x08\x01"
PREFACE = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
)  # and empty SETTINGS: a client's first words


def limited_binaries(folder: pathlib.Path) -> pathlib.Path:
    """The binaries, each behind a script that lowers the limit of open files: for good, and to half
    of that until it is raised."""
    for name in ["remesh-server", "remesh-worker"]:
        script = folder / name
        script.write_text(
            f"#!/bin/sh\nulimit -Sn {FILES_MAX // 2}\nulimit -Hn {FILES_MAX}\nexec "
            f'"{BIN_DIR / name}" "$@"\n'
        )
        script.chmod(0o755)
    return folder


class ConnectionsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2
        )
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.cluster = LocalCluster(
            limited_binaries(pathlib.Path(folder.name)), hosts=1, buffer_bytes=16 << 20
        )
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.__enter__()
        cls.host = cls.cluster.host_names[0]

    def peers(self, connect, first_words: bytes = b""):
        """Twice as many connections as files may be open."""
        found = []
        self.addCleanup(lambda: [one.close() for one in found])
        for i in range(2 * FILES_MAX):
            peer = connect(i)
            found.append(peer)
            try:
                peer.sendall(first_words)
            except OSError:
                pass  # closed by the other side, as it may
        return found

    def connect_tcp(self, i: int) -> socket.socket:
        port = int(self.cluster.server_address.rsplit(":", 1)[1])
        return socket.create_connection(
            ("127.0.0.1", port), CALL_SECONDS, (f"127.0.0.{2 + i % SOURCES}", 0)
        )

    def connect_data(self, i: int) -> socket.socket:
        address = re.search(r"data_address=127.0.0.1:(\d+)", self.worker_log())
        return socket.create_connection(
            ("127.0.0.1", int(address[1])), CALL_SECONDS, (f"127.0.0.{2 + i % SOURCES}", 0)
        )

    def worker_log(self) -> str:
        return self.cluster.workers[self.host].log.read_text()

    def connect_unix(self, _: int) -> socket.socket:
        peer = socket.socket(socket.AF_UNIX)
        peer.settimeout(CALL_SECONDS)
        peer.connect(self.cluster.worker_socket(self.host))
        return peer

    def call_server(self, timeout_seconds: float = BESIDE_SECONDS):
        """A new client's call, which waits for a connection."""
        with self.cluster.channel() as channel:
            listed = worker_pb2_grpc.WorkerServiceStub(channel).ListWorkers(
                worker_pb2.ListWorkersRequest(), timeout=timeout_seconds, wait_for_ready=True
            )
            self.assertEqual([worker.alive for worker in listed.workers], [True])

    def worker_channel(self) -> grpc.Channel:
        return grpc.insecure_channel(
            f"unix:{self.cluster.worker_socket(self.host)}", options=CHANNEL_OPTIONS
        )

    def call_worker(self, timeout_seconds: float = BESIDE_SECONDS):
        with self.worker_channel() as channel, self.assertRaises(grpc.RpcError) as refused:
            local_pb2_grpc.LocalServiceStub(channel).GetShards(
                local_pb2.GetShardsRequest(state="jobs/none/states/none", generation=1),
                timeout=timeout_seconds,
                wait_for_ready=True,
            )
        self.assertEqual(refused.exception.code(), grpc.StatusCode.NOT_FOUND)

    def probe(self, metrics_url: str):
        for path in ["livez", "metrics"]:
            with OPENER.open(
                urllib.parse.urljoin(metrics_url, path), timeout=PROBE_SECONDS
            ) as answer:
                self.assertEqual(answer.status, 200)

    def check(self, connect, call):
        peers = self.peers(connect)
        call()  # while they stay
        for peer in peers:
            peer.close()
        call(AFTER_SECONDS)

    def test_the_limit_of_open_files_is_raised(self):
        for process in [self.cluster.server, self.cluster.workers[self.host]]:
            limits = pathlib.Path(f"/proc/{process.popen.pid}/limits").read_text()
            self.assertRegex(limits, rf"Max open files +{FILES_MAX} +{FILES_MAX} ")

    def test_the_server_answers_beside_peers(self):
        self.check(self.connect_tcp, self.call_server)

    def test_the_worker_answers_beside_peers_on_its_socket(self):
        self.check(self.connect_unix, self.call_worker)

    def test_the_worker_answers_beside_peers_on_its_data_port(self):
        self.check(self.connect_data, self.call_worker)
        self.assertLess(len(self.worker_log()), 1 << 20)

    def test_peers_that_speak_http_leave_room_for_other_addresses(self):
        limit = ["connections_per_address: 64"]
        with LocalCluster(self.cluster.bin_dir, hosts=0, server_config=limit) as other:
            port = int(other.server_address.rsplit(":", 1)[1])
            self.peers(
                lambda i: socket.create_connection(
                    ("127.0.0.1", port), CALL_SECONDS, ("127.0.0.2", 0)
                ),
                PREFACE,
            )
            with other.channel() as channel:
                worker_pb2_grpc.WorkerServiceStub(channel).ListWorkers(
                    worker_pb2.ListWorkersRequest(), timeout=CALL_SECONDS, wait_for_ready=True
                )

    def test_peers_that_speak_http_make_room_for_a_new_address(self):
        self.peers(self.connect_tcp, PREFACE)
        self.call_server()
        self.probe(self.cluster.server_metrics_url)  # which has descriptors of its own

    def test_probes_are_answered_beside_half_requests_of_their_own_address(self):
        for url in [self.cluster.server_metrics_url, self.cluster.worker_metrics_url(self.host)]:
            with self.subTest(url=url):
                port = urllib.parse.urlsplit(url).port
                self.peers(
                    lambda _, port=port: socket.create_connection(
                        ("127.0.0.1", port), CALL_SECONDS
                    ),
                    b"GET /livez HTTP/1.1\r\nHost: ",
                )
                self.probe(url)

    def test_silent_connections_end(self):
        for connect in [self.connect_tcp, self.connect_unix, self.connect_data]:
            with self.subTest(connect=connect.__name__), connect(0) as peer:
                while peer.recv(
                    100
                ):  # the data port speaks first; the end comes within CALL_SECONDS
                    pass

    def test_half_a_greeting_ends_too(self):
        for connect in [self.connect_tcp, self.connect_unix]:
            with self.subTest(connect=connect.__name__), connect(0) as peer:
                start = time.monotonic()
                peer.sendall(PREFACE[:10])
                try:
                    while peer.recv(1 << 16):  # gRPC's own settings, then the end
                        pass
                except ConnectionResetError:
                    pass  # a word of ours was never read
                self.assertLess(
                    time.monotonic() - start, 12
                )  # 5 s for a handshake; an unanswered ping would end it after 15

    def test_the_worker_has_the_health_service_on_its_socket(self):
        with self.worker_channel() as channel:
            check = channel.unary_unary(HEALTH)
            for service in ["", "remesh.v1.LocalService"]:
                request = b"\x0a" + bytes([len(service)]) + service.encode() if service else b""
                self.assertEqual(check(request, timeout=CALL_SECONDS), SERVING)

    def test_a_call_that_waits_outlives_the_peers(self):
        """An open stream is not idle, and no peer pushes it out."""
        ended = threading.Event()
        with self.worker_channel() as channel:
            waiting = local_pb2_grpc.LocalServiceStub(channel).GetShards.future(
                local_pb2.GetShardsRequest(state="jobs/none/states/none", generation=1, wait=True),
                timeout=60,
            )
            waiting.add_done_callback(lambda _: ended.set())
            self.call_worker()
            self.peers(self.connect_unix)
            self.call_worker()
            self.assertFalse(ended.is_set())
            waiting.cancel()


if __name__ == "__main__":
    unittest.main()
