# SPDX-License-Identifier: Apache-2.0
"""Processes of a torch job die: the tables and the planted bugs of
client/python/tests/job/job_kills_test.py, over remesh.torch."""

import os
import pathlib
import sys

import support

_HERE = pathlib.Path(__file__).resolve().parent
_TESTS = support.ROOT / "client" / "python" / "tests"
sys.path[:0] = [str(support.MODULES), str(_TESTS / "job"), str(_TESTS)]
import job_kills  # noqa: E402  pylint: disable=wrong-import-position
import job_kills_test  # noqa: E402  pylint: disable=wrong-import-position
import job_told_test  # noqa: E402  pylint: disable=wrong-import-position


class TorchKillsTest(job_kills_test.KillsTest):

    def make_keeper(self, job):
        return make_keeper(self.cluster, job, told=False)


class TorchToldTest(job_told_test.ToldTest):

    def make_keeper(self, job):
        return make_keeper(self.cluster, job, told=True)


def make_keeper(cluster, job, told):
    os.environ.update(PYTHONPATH=str(support.MODULES), GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
    program = (support.VENV / "bin" / "python", _HERE / "torch_kills_process.py")
    return job_kills.Keeper(cluster, 3, f"torch-{job}"[:60], program, told)


if __name__ == "__main__":
    support.main()
