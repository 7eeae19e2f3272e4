# SPDX-License-Identifier: Apache-2.0
"""Calls that no client of gRPC makes: whatever their frames say, the server and the worker go on,
and take little memory for them."""

import pathlib
import re
import select
import socket
import struct
import threading
import time
import unittest
import urllib.request

import grpc

from remesh.testing import CHANNEL_OPTIONS, LocalCluster
from remesh.v1 import state_pb2, state_pb2_grpc

from harness import BIN_DIR, CALL_SECONDS

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, RST_STREAM, SETTINGS, PING = 1, 3, 4, 6
END_STREAM, END_HEADERS = 1, 4
PATHS = [
    b"",
    b"/",
    b"a",
    b"//",
    b"\x00\xff",
    b"/a b/\xc3(",
    b"/remesh.v1.",
    b"/remesh.v1.StateService/",
    b"/" + 7000 * b"x",
]
UNKNOWN_METHODS = 500
REFLECTIONS = 200
INFLATED_BYTES = 512 << 20
MEMORY_BYTES = 128 << 20  # more than before, at most


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """RFC 9113, section 4.1."""
    return (
        struct.pack(">I", len(payload))[1:]
        + bytes([kind, flags])
        + struct.pack(">I", stream)
        + payload
    )


def text(value: bytes) -> bytes:
    """A string of HPACK (RFC 7541, section 5.2), not compressed."""
    if len(value) < 127:
        return bytes([len(value)]) + value
    rest, length = len(value) - 127, b"\x7f"
    while rest >= 128:
        length, rest = length + bytes([rest % 128 | 128]), rest // 128
    return length + bytes([rest]) + value


def call_headers(path: bytes, *more) -> bytes:
    """POST, http, the path; then literals."""
    fields = [
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
        (b":authority", b"x"),
        *more,
    ]
    return (
        b"\x83\x86\x04"
        + text(path)
        + b"".join(b"\x00" + text(name) + text(value) for name, value in reversed(fields))
    )


class StrangeCallsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.cluster = LocalCluster(BIN_DIR, hosts=1, buffer_bytes=16 << 20)
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.__enter__()
        cls.host = cls.cluster.host_names[0]

    def to_server(self, source: str = "127.0.0.1") -> socket.socket:
        host, port = self.cluster.server_address.rsplit(":", 1)
        return socket.create_connection((host, int(port)), CALL_SECONDS, (source, 0))

    def to_worker(self) -> socket.socket:
        peer = socket.socket(socket.AF_UNIX)
        peer.settimeout(CALL_SECONDS)
        peer.connect(str(self.cluster.worker_socket(self.host)))
        return peer

    def check_both_live(self):
        with grpc.insecure_channel(self.cluster.server_address, options=CHANNEL_OPTIONS) as channel:
            state_pb2_grpc.StateServiceStub(channel).ListStates(
                state_pb2.ListStatesRequest(parent="jobs/-"), timeout=CALL_SECONDS
            )
        with grpc.insecure_channel(
            f"unix:{self.cluster.worker_socket(self.host)}", options=CHANNEL_OPTIONS
        ) as channel:
            self.assertEqual(
                channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=CALL_SECONDS),
                b"\x08\x01",
            )

    def say(self, peer: socket.socket, *frames: bytes):
        """Until the other side has read it all: it answers a PING behind it, or hangs up."""
        with peer:
            try:
                peer.sendall(
                    PREFACE
                    + frame(SETTINGS, 0, 0)
                    + b"".join(frames)
                    + frame(PING, 0, 0, b"the last")
                )
                read = b""
                while b"the last" not in read:
                    more = peer.recv(1 << 16)
                    if not more:
                        return
                    read += more
            except ConnectionError:
                pass

    def test_any_path_is_only_a_path(self):
        """Was: the process ended at an empty one."""
        for connect in [self.to_server, self.to_worker]:
            for path in PATHS:
                with self.subTest(path=path[:20]):
                    self.say(
                        connect(), frame(HEADERS, END_STREAM | END_HEADERS, 1, call_headers(path))
                    )
            self.check_both_live()

    def test_methods_that_no_service_has_are_one_series(self):
        """Was: some twenty series each, forever."""
        frames = [
            frame(HEADERS, END_STREAM | END_HEADERS, 2 * i + 1, call_headers(b"/invented/%d" % i))
            for i in range(UNKNOWN_METHODS)
        ]
        self.say(self.to_server(), *frames)
        with urllib.request.urlopen(
            self.cluster.server_metrics_url, timeout=CALL_SECONDS
        ) as answer:
            metrics = answer.read().decode()
        self.assertNotIn("invented", metrics)
        self.assertIn('grpc_method="unknown"', metrics)

    def test_compressed_messages_are_not_inflated(self):
        """Was: 2 MB became 2 GB before anybody asked how large it is."""
        before = self.peak_bytes()
        options = [*CHANNEL_OPTIONS, ("grpc.max_send_message_length", -1)]
        with grpc.insecure_channel(
            self.cluster.server_address, options=options, compression=grpc.Compression.Gzip
        ) as channel:
            with self.assertRaises(grpc.RpcError) as refused:
                channel.unary_unary("/remesh.v1.PlanService/CreatePlan")(
                    bytes(INFLATED_BYTES), timeout=3 * CALL_SECONDS
                )
        self.assertEqual(
            refused.exception.code(), grpc.StatusCode.UNIMPLEMENTED, refused.exception.details()
        )
        self.check_both_live()
        self.assertLess(self.peak_bytes() - before, MEMORY_BYTES)

    def test_reflection_does_not_take_a_thread_a_call(self):
        with grpc.insecure_channel(self.cluster.server_address, options=CHANNEL_OPTIONS) as channel:
            reflect = channel.stream_stream(
                "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
            )
            calls = [reflect(iter(threading.Event().wait, True)) for _ in range(REFLECTIONS)]
            self.check_both_live()
            threads = len(
                list(pathlib.Path(f"/proc/{self.cluster.server.popen.pid}/task").iterdir())
            )
            for call in calls:
                call.cancel()
        self.assertLess(threads, REFLECTIONS)

    def test_calls_that_are_reset_as_soon_as_they_begin(self):
        """Rapid reset (CVE-2023-44487). Was: no other caller was answered while they came and for a
        while after, 5 GB and more."""
        before = self.peak_bytes()
        for connect in [lambda: self.to_server("127.0.0.2"), self.to_worker]:
            for path in [
                b"/remesh.v1.StateService/ListStates",
                b"/remesh.v1.LocalService/GetShards",
                b"/a.b/C",
            ]:
                with self.subTest(path=path):
                    self.assertTrue(self.is_ended(connect, path))
        self.assertLess(self.peak_bytes() - before, 8 * MEMORY_BYTES)
        self.await_admission()
        self.check_both_live()

    def is_ended(self, connect, path: bytes) -> bool:
        """Whether a connection that begins and resets calls ends. Each comes when its address is
        admitted again."""
        deadline = time.monotonic() + 3 * CALL_SECONDS
        headers, stream, calls = call_headers(path), 1, b""
        with self.admitted(connect, deadline) as peer:
            peer.setblocking(False)
            while time.monotonic() < deadline:
                if not calls:
                    calls = b"".join(
                        frame(HEADERS, END_HEADERS, i, headers)
                        + frame(RST_STREAM, 0, i, bytes([0, 0, 0, 8]))
                        for i in range(stream, stream + 1000, 2)
                    )
                    stream += 1000
                readable, writable, _ = select.select([peer], [peer], [], CALL_SECONDS)
                try:
                    if readable and not peer.recv(1 << 16):
                        return True
                    if writable:
                        calls = calls[peer.send(calls) :]
                except ConnectionError:
                    return True
        return False

    def admitted(self, connect, deadline: float) -> socket.socket:
        while True:
            peer = connect()
            try:
                peer.sendall(PREFACE + frame(SETTINGS, 0, 0))
                if peer.recv(1 << 16):
                    return peer
            except ConnectionError:
                pass
            peer.close()
            self.assertLess(time.monotonic(), deadline, "its address is not admitted again")
            time.sleep(0.2)

    def await_admission(self):
        for connect in [self.to_server, self.to_worker]:
            self.admitted(connect, time.monotonic() + CALL_SECONDS).close()

    def peak_bytes(self) -> int:
        status = pathlib.Path(f"/proc/{self.cluster.server.popen.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s*(\d+) kB", status).group(1)) * 1024


if __name__ == "__main__":
    unittest.main()
