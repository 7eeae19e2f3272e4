# SPDX-License-Identifier: Apache-2.0
"""Processes that end while they save: they exit with 0, and what they saved is whole.

REMESH_EXITS: how many (5); a nightly run takes 50."""

import os
import subprocess
import sys
import unittest

import remesh
from remesh.testing import LocalCluster

_BIN = os.environ.get("REMESH_BIN_DIR", "build/release/bin")
_EXITS = int(os.environ.get("REMESH_EXITS", "5"))
_PROGRAM = """
import os, sys
import numpy as np
import remesh.errors, remesh.job, remesh.storage
core = remesh.job.Core("exits", keep=1000)
array = remesh.storage.Array("w", "f32", remesh.storage.Holders.everywhere((1 << 20,), 1))
content = np.full((1 << 20,), core.world, np.float32)
box = ((0,), (1 << 20,))
def save():
    core.save_pieces([remesh.job.Piece(array, [box], lambda _: content)], core.world)
save()
child = os.fork()
if child == 0:
    for call in (save, lambda: core.restore_arrays([array])):
        try:
            call()
        except remesh.errors.ForkedError:
            continue
        sys.exit("no ForkedError")
    core.close()  # neither this nor its exit handlers wait for a save that it does not make
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
if core.world == 1:
    core.close()
    core.close()
"""
_WARNING = "job exits: each part of a save is on one host: the loss of any host costs the save\n"


class ExitTest(unittest.TestCase):

    def test_a_process_that_ends_while_it_saves_ends_well(self):
        with LocalCluster(_BIN, 1, 1) as cluster:
            environment = {**os.environ, "REMESH_SOCKET": cluster.worker_socket("host-0")}
            for _ in range(_EXITS):
                done = subprocess.run(
                    [sys.executable, "-c", _PROGRAM],
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                self.assertEqual(done.stderr, _WARNING, "said once, though logging is not set up")
            with remesh.connect(server=cluster.server_address) as client:
                saves = [each for each in client.states("jobs/exits") if "/save." in each.name]
            phases = [each.phase for each in saves]
            self.assertEqual(phases, ["READY"] * _EXITS)
            self.assertEqual([each.step for each in saves], list(range(1, _EXITS + 1)))


if __name__ == "__main__":
    unittest.main()
