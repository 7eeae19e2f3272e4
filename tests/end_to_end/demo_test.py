# SPDX-License-Identifier: Apache-2.0
"""The demo in small, as an operator starts it: it ends well and leaves nothing behind, interrupted too."""
import glob
import os
import signal
import subprocess
import time
import unittest

from harness import BIN_DIR


def _left_behind():
    return {path for pattern in ("/tmp/remesh-*", "/dev/shm/remesh-*") for path in glob.glob(pattern)}


class DemoTest(unittest.TestCase):
    def start(self):
        return subprocess.Popen([BIN_DIR / "remeshctl", "demo", "--small"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def test_every_element_is_verified_twice(self):
        before = _left_behind()
        demo = self.start()
        output, _ = demo.communicate(timeout=150)
        self.assertEqual(demo.returncode, 0, output)
        self.assertEqual(output.count("every element of"), 2, output)
        self.assertLessEqual(_left_behind(), before)

    def test_interrupted(self):
        before = _left_behind()
        demo = self.start()
        line = demo.stdout.readline()
        self.assertIn("remesh demo", line)
        time.sleep(1.0)
        children = _children_of(demo.pid)
        demo.send_signal(signal.SIGINT)
        output, _ = demo.communicate(timeout=60)
        self.assertEqual(demo.returncode, 130, output)
        self.assertLessEqual(_left_behind(), before)
        self.assertEqual([pid for pid in children if os.path.exists(f"/proc/{pid}")], [], output)


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
