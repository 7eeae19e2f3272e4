# SPDX-License-Identifier: Apache-2.0
"""What remesh.jax.Job saves of random pytrees on random meshes, it restores to others with the same
bits."""

import json
import os
import sys
import unittest

import support

sys.path.insert(0, str(support.MODULES))
from remesh.testing import LocalCluster  # noqa: E402  pylint: disable=wrong-import-position

_COUNT = int(os.environ.get("REMESH_TREES", "40"))  # scripts/nightly: 300


class JaxTreesTest(unittest.TestCase):

    def test_random_trees_keep_their_bits(self):
        with LocalCluster(support.BIN_DIR, hosts=1) as cluster:
            printed = support.run(
                support.VENV / "bin" / "python",
                support.ROOT / "tests" / "python_package" / "jax_trees_process.py",
                _COUNT,
                REMESH_SOCKET=cluster.worker_socket(cluster.host_names[0]),
                PYTHONPATH=str(support.MODULES),
                XLA_FLAGS="--xla_force_host_platform_device_count=8",
                JAX_PLATFORMS="cpu",
            )
        said = json.loads(printed.splitlines()[-1])
        self.assertEqual(said["trees"], _COUNT)
        self.assertGreater(said["leaves"], _COUNT)


if __name__ == "__main__":
    support.main()
