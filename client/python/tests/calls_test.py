# SPDX-License-Identifier: Apache-2.0
"""Calls while the other side is away."""

import socket
import threading
import unittest
from unittest import mock

import grpc

from remesh import calls


class CallsTest(unittest.TestCase):
    def test_a_pause_between_calls_connects(self):
        """Was: with gRPC 1.51 a connection was made to a server that is back, but nothing was sent
        on it until a later call."""
        attempts = []
        refused = threading.Event()
        with socket.socket() as listener, mock.patch.object(calls, "PAUSE_SECONDS", 3):
            listener.bind(("127.0.0.1", 0))  # not listening yet: connections are refused
            address = f"127.0.0.1:{listener.getsockname()[1]}"
            channel = grpc.insecure_channel(address, options=calls.CHANNEL_OPTIONS)
            stub = channel.unary_unary("/service/Method")

            def method():
                attempts.append(stub)
                if len(attempts) > 1:
                    refused.set()
                return stub

            def call():
                with self.assertRaises((grpc.RpcError, ValueError)):  # when the channel is closed
                    calls.retry(method, b"", 60, lambda: channel)

            caller = threading.Thread(target=call)
            caller.start()
            try:
                self.assertTrue(refused.wait(60))
                listener.listen()
                connection, _ = listener.accept()
                with connection:
                    before = len(attempts)
                    self.assertEqual(connection.recv(3), b"PRI")
                    self.assertEqual(len(attempts), before, "sent by a later call")
            finally:
                channel.close()
                caller.join()


if __name__ == "__main__":
    unittest.main()
