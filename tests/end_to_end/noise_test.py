# SPDX-License-Identifier: Apache-2.0
"""Connections that send much that belongs to no call are ended; those that send as much in calls are not."""
import socket
import time
import unittest

import grpc

from remesh.local_cluster import CHANNEL_OPTIONS
from remesh.v1 import state_pb2, state_pb2_grpc, worker_pb2, worker_pb2_grpc

from harness import CALL_SECONDS, ClusterTest

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"  # and empty SETTINGS: a client's first words
UNKNOWN = b"\0\0\0\xc8\0\0\0\0\0"  # a frame of a type that is none, which must be ignored
NOISE_SECONDS = 60.0  # mostly 3
ENDED = "it sends too much that belongs to no call"


class NoiseTest(ClusterTest):
    HOSTS = 1

    def server_log(self) -> str:
        return self.cluster.server.log.read_text(errors="replace")

    def test_2_frames_that_are_no_calls_end_their_connections(self):
        port = int(self.cluster.server_address.rsplit(":", 1)[1])
        strangers = [socket.create_connection(("127.0.0.1", port), CALL_SECONDS, ("127.0.0.9", 0)) for _ in range(4)]
        block, deadline, ended = UNKNOWN * 8192, time.monotonic() + NOISE_SECONDS, 0
        for stranger in strangers:
            stranger.sendall(PREFACE)
        while ended < len(strangers):
            self.assertLess(time.monotonic(), deadline, self.server_log())
            for stranger in list(strangers):
                try:
                    stranger.sendall(block)
                except OSError:
                    strangers.remove(stranger)
                    stranger.close()
            ended = 4 - len(strangers)
        self.assertIn("peer=ipv4:127.0.0.9:", self.server_log().split(ENDED, 1)[1])
        # Its address waits for a while. Others are answered.
        with socket.create_connection(("127.0.0.1", port), CALL_SECONDS, ("127.0.0.9", 0)) as again:
            again.settimeout(CALL_SECONDS)
            self.assertEqual(again.recv(1), b"")
        with self.cluster.channel() as channel:
            workers = worker_pb2_grpc.WorkerServiceStub(channel).ListWorkers(worker_pb2.ListWorkersRequest(), timeout=CALL_SECONDS).workers
        self.assertEqual(len(workers), 1)

    def test_1_calls_are_no_noise_however_large(self):
        with grpc.insecure_channel(self.cluster.server_address, options=CHANNEL_OPTIONS) as channel:
            states = state_pb2_grpc.StateServiceStub(channel)
            for _ in range(8):
                with self.assertRaises(grpc.RpcError) as refused:
                    states.GetState(state_pb2.GetStateRequest(name="x" * (30 << 20)), timeout=CALL_SECONDS)
                self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertNotIn(ENDED, self.server_log())


if __name__ == "__main__":
    unittest.main()
