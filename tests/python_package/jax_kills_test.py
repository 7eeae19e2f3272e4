# SPDX-License-Identifier: Apache-2.0
"""A process of a JAX job dies in a save, in a restore, while leaving: the others are told who, and
what the next world restores is whole: the tables of client/python/tests/job/job_told_test.py, over
remesh.jax."""

import os
import pathlib
import sys

import support

_HERE = pathlib.Path(__file__).resolve().parent
_TESTS = support.ROOT / "client" / "python" / "tests"
sys.path[:0] = [str(support.MODULES), str(_TESTS / "job"), str(_TESTS)]
import job_kills  # noqa: E402  pylint: disable=wrong-import-position
import job_told_test  # noqa: E402  pylint: disable=wrong-import-position


class JaxToldTest(job_told_test.ToldTest):

    def make_keeper(self, job):
        os.environ.update(PYTHONPATH=str(support.MODULES), JAX_PLATFORMS="cpu")
        program = (support.VENV / "bin" / "python", _HERE / "jax_kills_process.py")
        return job_kills.Keeper(self.cluster, 3, f"jax-{job}"[:60], program, told=True)


if __name__ == "__main__":
    support.main()
