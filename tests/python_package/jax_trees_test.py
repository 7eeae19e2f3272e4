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

    # What the program prints last.
    def run_with_devices(self, program, *arguments):
        with LocalCluster(support.BIN_DIR, hosts=1) as cluster:
            printed = support.run(
                support.VENV / "bin" / "python",
                support.ROOT / "tests" / "python_package" / program,
                *arguments,
                REMESH_SOCKET=cluster.worker_socket(cluster.host_names[0]),
                PYTHONPATH=str(support.MODULES),
                XLA_FLAGS="--xla_force_host_platform_device_count=8",
                JAX_PLATFORMS="cpu",
            )
        print(printed.splitlines()[-1], flush=True)
        return json.loads(printed.splitlines()[-1])

    def test_random_trees_keep_their_bits(self):
        said = self.run_with_devices("jax_trees_process.py", _COUNT)
        self.assertEqual(said["trees"], _COUNT)
        self.assertGreater(said["leaves"], _COUNT)

    def test_a_flax_module_with_optax_and_keys_trains_on(self):
        said = self.run_with_devices("jax_frameworks_process.py")
        self.assertEqual(said["step"], 3)
        self.assertGreater(said["leaves"], 2 * 20)


if __name__ == "__main__":
    support.main()
