# SPDX-License-Identifier: Apache-2.0
"""helm/examples/train.py does what it says, a process for each host, as the pods of the examples
run it."""

import os
import pathlib
import subprocess
import sys
import unittest

from remesh.v1 import state_pb2

from harness import CALL_SECONDS, ClusterTest

TRAIN = pathlib.Path(__file__).resolve().parents[2] / "helm" / "examples" / "train.py"


class ExamplesTest(ClusterTest):
    HOSTS = 2

    def environment(self, host: str, **which) -> dict:
        return {
            **os.environ,
            "REMESH_SERVER": self.cluster.server_address,
            "REMESH_SOCKET": self.cluster.worker_socket(host),
            "DEVICES": "4",
            **which,
        }

    def run_all(self, variable: str, *more) -> None:
        """A process on each host, and one on the first for each of `more`."""
        which = [(host, {variable: str(rank)}) for rank, host in enumerate(self.trainers)]
        which += [(next(iter(self.trainers)), words) for words in more]
        started = [
            subprocess.Popen(
                [sys.executable, TRAIN],
                env=self.environment(host, **words),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for host, words in which
        ]
        for process in started:
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
        for rank, process in enumerate(started):
            words, _ = process.communicate(timeout=60)
            self.assertEqual(
                (process.returncode, words), (0, f"process {rank}: generation 2 is here\n")
            )

    def test_as_jobset_and_as_pytorchjob_start_it(self):
        self.run_all("JOB_COMPLETION_INDEX")
        self.delete_state()
        self.run_all("RANK", {"RANK": "2", "LOCAL_RANK": "1"})

    def delete_state(self) -> None:
        self.controller.states.DeleteState(
            state_pb2.DeleteStateRequest(name="jobs/llama/states/parameters"), timeout=CALL_SECONDS
        )


if __name__ == "__main__":
    unittest.main()
