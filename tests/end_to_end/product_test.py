# SPDX-License-Identifier: Apache-2.0
"""What is installed has no part of what only tests have: simulated GPUs and the fake NCCL."""

import re
import subprocess
import unittest

from harness import BIN_DIR, CALL_SECONDS

PRODUCT = ("remesh-keeper", "remesh-server", "remesh-worker", "remeshctl")
OF_TESTS = re.compile(
    r"Sim(Device|Memory|Streams|ulatedGpus)|Fake(GpuStreams|StreamThread)|fake_nccl"
)


def symbols_of_tests(binary) -> list:
    """As the linker spells them; the first few."""
    names = subprocess.run(
        ["nm", binary], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [name for name in names if OF_TESTS.search(name)][:5]


class ProductTest(unittest.TestCase):
    def test_no_binary_has_a_symbol_of_the_simulation(self):
        for name in PRODUCT:
            with self.subTest(binary=name):
                self.assertEqual(symbols_of_tests(BIN_DIR / name), [])

    def test_the_worker_of_tests_has_them(self):
        self.assertNotEqual(symbols_of_tests(BIN_DIR.parent / "tests" / "remesh-worker-sim"), [])

    def test_device_sim_is_refused(self):
        """The error names the setting, its value and what helps."""
        worker = subprocess.run(
            [BIN_DIR / "remesh-worker", "--transport=nccl", "--device=sim", "--check-config"],
            capture_output=True,
            text=True,
            timeout=CALL_SECONDS,
            check=False,
        )
        self.assertEqual((worker.returncode, worker.stdout), (2, ""))
        self.assertRegex(
            worker.stderr,
            '^flags: device: value "sim" must be host or cuda; simulated GPUs are in '
            "remesh-worker-sim, .*\n$",
        )

    def test_help_does_not_offer_it(self):
        worker = subprocess.run(
            [BIN_DIR / "remesh-worker", "--help"],
            capture_output=True,
            text=True,
            timeout=CALL_SECONDS,
            check=True,
        )
        self.assertNotIn("sim", re.findall(r"\w+", worker.stdout))


if __name__ == "__main__":
    unittest.main()
