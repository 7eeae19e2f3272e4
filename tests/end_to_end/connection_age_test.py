# SPDX-License-Identifier: Apache-2.0
"""Connections that are replaced every second: calls go on by new ones, and no move fails."""

import os
import pathlib
import time
import unittest

from harness import Array, ClusterTest, targets, text_sharding

ARRAYS = [Array("w", "f32", (64, 64))]
ROWS = text_sharding("{devices=[6,1]<=[6]}", 0, 1, 2, 3, 4, 5)
COLUMNS = text_sharding("{devices=[1,6]<=[6]}", 5, 4, 3, 2, 1, 0)
SECONDS = 6.0
SECONDS_AT_MOST = 60.0  # on a machine where a second holds hardly a move


class ConnectionAgeTest(ClusterTest):
    SERVER_CONFIG = ("max_connection_age: 1s",)

    def connections(self) -> set:
        """Sockets of this process that are connected to the server."""
        port = int(self.cluster.server_address.rsplit(":", 1)[1])
        lines = [
            line.split()
            for table in ("tcp", "tcp6")
            for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        ]
        inodes = {line[9] for line in lines if line[2].endswith(f"0100007F:{port:04X}")}
        own = {
            os.readlink(f"/proc/self/fd/{fd}")
            for fd in os.listdir("/proc/self/fd")
            if os.path.exists(f"/proc/self/fd/{fd}")
        }
        return {inode for inode in inodes if f"socket:[{inode}]" in own}

    def test_no_move_fails_and_connections_are_replaced(self):
        name = "jobs/test/states/aged"
        self.create_and_write(name, ARRAYS, ROWS)
        seen, generation, begin = set(), 1, time.monotonic()
        wanted = len(self.trainers) + 2  # the controller's channel has one at a time
        while time.monotonic() < begin + (SECONDS if len(seen) >= wanted else SECONDS_AT_MOST):
            self.move(name, generation, targets(ARRAYS, COLUMNS if generation % 2 else ROWS))
            generation += 1
            seen |= self.connections()
        self.check_everywhere(name, generation, ARRAYS)
        self.assertGreaterEqual(len(seen), wanted, "connections")
        print(f"{generation - 1} moves over {len(seen)} connections")


if __name__ == "__main__":
    unittest.main()
