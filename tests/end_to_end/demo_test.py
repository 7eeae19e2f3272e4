# SPDX-License-Identifier: Apache-2.0
"""The demo in small, as an operator starts it: it ends well and leaves nothing behind, interrupted
too."""

import glob
import os
import re
import signal
import subprocess
import unittest

from harness import BIN_DIR


class DemoTest(unittest.TestCase):
    def start(self, *flags):
        return subprocess.Popen(
            [BIN_DIR / "remeshctl", "demo", "--small", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def assert_nothing_is_left(self, output):
        buffers, root = re.search(r"buffers in (\S+), all else in (\S+)", output).groups()
        self.assertFalse(os.path.exists(buffers), output)
        self.assertFalse(os.path.exists(root), output)

    def test_every_element_is_verified_twice(self):
        demo = self.start()
        output, _ = demo.communicate(timeout=150)
        self.assertEqual(demo.returncode, 0, output)
        self.assertEqual(output.count("every element of"), 2, output)
        self.assertIn("parameters  3           READY", output)
        self.assert_nothing_is_left(output)

    def test_over_simulated_gpus(self):
        demo = self.start("--device", "sim")
        output, _ = demo.communicate(timeout=150)
        self.assertEqual(demo.returncode, 0, output)
        self.assertEqual(output.count("every element of"), 2, output)
        self.assertIn("nccl=127.0.0.1", output)
        self.assert_nothing_is_left(output)

    def test_interrupted(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            demo = self.start()
            output = ""
            while "wrote" not in output and demo.poll() is None:
                output += demo.stdout.readline()
            children = _children_of(demo.pid)
            self.assertGreaterEqual(
                len(children), 9, output
            )  # a server, four workers, four trainers
            demo.send_signal(number)
            rest, _ = demo.communicate(timeout=60)
            self.assertEqual(demo.returncode, 130, output + rest)
            self.assert_nothing_is_left(output)
            self.assertEqual([pid for pid in children if os.path.exists(f"/proc/{pid}")], [], rest)


def _children_of(parent):
    """Process ids."""
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[1] == str(parent):
            found.append(int(path.split("/")[2]))
    return found


if __name__ == "__main__":
    unittest.main()
