# SPDX-License-Identifier: Apache-2.0
"""Processes of a torch job end with status 0, whatever they closed before: no abort of a thread of
torch, gRPC or remesh.

REMESH_EXITS: processes that end (12); a nightly run takes 204."""

import json
import os
import pathlib
import sys
import tempfile
import unittest

import support

sys.path.insert(0, str(support.MODULES))
from remesh.testing import LocalCluster  # noqa: E402  pylint: disable=wrong-import-position

PROGRAM = pathlib.Path(__file__).with_name("torch_exit_process.py")
EXITS = int(os.environ.get("REMESH_EXITS", "12"))


class TorchExitTest(unittest.TestCase):

    def test_every_process_ends_with_status_0(self):
        with LocalCluster(
            support.BIN_DIR, hosts=2, devices_per_host=1
        ) as cluster, tempfile.TemporaryDirectory() as folder:
            sockets = ",".join(cluster.worker_socket(host) for host in cluster.host_names)
            said = json.loads(
                support.run(
                    support.VENV / "bin" / "python",
                    PROGRAM,
                    EXITS // 2,
                    folder,
                    timeout=550,
                    SOCKETS=sockets,
                    PYTHONPATH=str(support.MODULES),
                    GLOO_SOCKET_IFNAME="lo",
                    OMP_NUM_THREADS="1",
                ).splitlines()[-1]
            )
        counts = said["statuses"]
        print(f"exit statuses by ending: {counts}", flush=True)
        self.assertEqual(sum(sum(each.values()) for each in counts.values()), EXITS)
        self.assertEqual(
            {status for each in counts.values() for status in each}, {"0"}, said["said"]
        )


if __name__ == "__main__":
    support.main()
