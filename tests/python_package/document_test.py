# SPDX-License-Identifier: Apache-2.0
"""The code of docs/training.md, run as it stands. transformers is not installed here: its Trainer
is a stand-in that calls the hooks of a TrainerCallback as transformers' documentation says."""

import pathlib
import sys
import unittest

import support

sys.path.insert(0, str(support.MODULES))
from remesh.testing import LocalCluster  # noqa: E402  pylint: disable=wrong-import-position

_PROCESS = pathlib.Path(__file__).with_name("document_process.py")


class DocumentTest(unittest.TestCase):

    def run_code(self, which):
        with LocalCluster(support.BIN_DIR, hosts=1) as cluster:
            said = support.run(
                support.VENV / "bin" / "python",
                _PROCESS,
                which,
                PYTHONPATH=str(support.MODULES),
                REMESH_SOCKET=cluster.worker_socket("host-0"),
                JAX_PLATFORMS="cpu",
            )
        self.assertIn(f"{which}: ran", said)

    def test_lines_of_a_jax_job(self):
        self.run_code("jax_lines")

    def test_gradient_accumulation(self):
        self.run_code("accumulation")

    def test_lines_of_a_torch_job(self):
        self.run_code("torch_lines")

    def test_trainer_callback_goes_on_where_the_save_was(self):
        self.run_code("callback")


if __name__ == "__main__":
    support.main()
