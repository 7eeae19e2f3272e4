# SPDX-License-Identifier: Apache-2.0
"""Connections that send much that belongs to no call are ended; those that send as much in calls
are not."""

import contextlib
import multiprocessing
import socket
import time
import unittest

import grpc

from remesh.testing import CHANNEL_OPTIONS
from remesh.v1 import state_pb2, state_pb2_grpc, worker_pb2, worker_pb2_grpc

from harness import CALL_SECONDS, ClusterTest

PREFACE = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
)  # and empty SETTINGS: a client's first words
UNKNOWN = b"\0\0\0\xc8\0\0\0\0\0"  # a frame of a type that is none, which must be ignored
NOISE_SECONDS = 60.0  # mostly 3
STALLS_SECONDS = 2.0
ENDED = "it sends too much that belongs to no call"


def said_some_of(stranger: socket.socket, words: bytes) -> bytes:
    """What it is to say next; nothing if the other side has ended the connection."""
    try:
        stranger.setblocking(False)
        try:
            if not stranger.recv(4096):
                return b""
        except BlockingIOError:
            pass  # there is nothing to read, so it is open
        return words[stranger.send(words) :] or UNKNOWN * 8192
    except BlockingIOError:
        return words
    except OSError:
        return b""


def flood_until_it_is_ended(port: int) -> None:
    with socket.create_connection(
        ("127.0.0.1", port), CALL_SECONDS, ("127.0.0.8", 0)
    ) as stranger, contextlib.suppress(OSError):
        stranger.settimeout(STALLS_SECONDS)  # then the worker reads it no more
        words = UNKNOWN * (1 << 18)
        stranger.sendall(PREFACE)
        while True:
            stranger.sendall(words)


class NoiseTest(ClusterTest):
    HOSTS = 1

    def server_log(self) -> str:
        return self.cluster.server.log.read_text(errors="replace")

    def test_2_frames_that_are_no_calls_end_their_connections(self):
        for _ in range(
            2
        ):  # the first time may be a mistake; after the second its address waits for a while
            self.make_noise()
        self.assertIn("peer=ipv4:127.0.0.9:", self.server_log().split(ENDED, 1)[1])
        with socket.create_connection(
            ("127.0.0.1", self.port()), CALL_SECONDS, ("127.0.0.9", 0)
        ) as again:
            again.settimeout(CALL_SECONDS)
            self.assertEqual(again.recv(1), b"")
        with self.cluster.channel() as channel:  # others are answered
            workers = (
                worker_pb2_grpc.WorkerServiceStub(channel)
                .ListWorkers(worker_pb2.ListWorkersRequest(), timeout=CALL_SECONDS)
                .workers
            )
        self.assertEqual(len(workers), 1)

    def test_1_who_sends_without_a_pause_keeps_no_other_from_connecting(self):
        """gRPC may read such a connection on the thread that hands it over, which must not be the
        one that accepts."""
        flood = multiprocessing.get_context("spawn").Process(
            target=flood_until_it_is_ended, args=(self.port(),)
        )
        flood.start()
        while flood.is_alive():  # a connection each
            with self.cluster.channel() as channel:
                worker_pb2_grpc.WorkerServiceStub(channel).ListWorkers(
                    worker_pb2.ListWorkersRequest(), timeout=CALL_SECONDS
                )
        flood.join()

    def port(self) -> int:
        return int(self.cluster.server_address.rsplit(":", 1)[1])

    def make_noise(self) -> None:
        """Until four connections are ended."""
        strangers = [
            socket.create_connection(("127.0.0.1", self.port()), CALL_SECONDS, ("127.0.0.9", 0))
            for _ in range(4)
        ]
        words, deadline = {
            stranger: PREFACE for stranger in strangers
        }, time.monotonic() + NOISE_SECONDS
        while strangers:
            self.assertLess(time.monotonic(), deadline, self.server_log())
            for stranger in list(strangers):
                words[stranger] = said_some_of(stranger, words[stranger])
                if not words[stranger]:
                    strangers.remove(stranger)
                    stranger.close()

    def test_1_calls_are_no_noise_however_large(self):
        before = self.server_log().count(ENDED)
        with grpc.insecure_channel(self.cluster.server_address, options=CHANNEL_OPTIONS) as channel:
            states = state_pb2_grpc.StateServiceStub(channel)
            for _ in range(8):
                with self.assertRaises(grpc.RpcError) as refused:
                    states.GetState(
                        state_pb2.GetStateRequest(name="x" * (30 << 20)), timeout=CALL_SECONDS
                    )
                self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(self.server_log().count(ENDED), before)

    def test_1_a_message_that_is_too_large_costs_no_more_than_its_connection(self):
        with grpc.insecure_channel(
            self.cluster.server_address,
            options=[("grpc.use_local_subchannel_pool", 1), *CHANNEL_OPTIONS],
        ) as channel:
            states = state_pb2_grpc.StateServiceStub(channel)
            with self.assertRaises(grpc.RpcError) as refused:
                states.GetState(
                    state_pb2.GetStateRequest(name="x" * (100 << 20)), timeout=CALL_SECONDS
                )
            self.assertEqual(refused.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            self.wait_until("the connection is ended", lambda: self.server_log().count(ENDED) == 1)

            def answered() -> bool:
                try:
                    return (
                        states.ListStates(
                            state_pb2.ListStatesRequest(), timeout=CALL_SECONDS, wait_for_ready=True
                        )
                        is not None
                    )
                except grpc.RpcError as error:
                    self.assertEqual(
                        error.code(), grpc.StatusCode.UNAVAILABLE
                    )  # sent while the connection ended
                    return False

            self.wait_until("the next connection is answered", answered)


if __name__ == "__main__":
    unittest.main()
