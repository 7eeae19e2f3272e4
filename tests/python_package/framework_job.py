# SPDX-License-Identifier: Apache-2.0
"""A job of a framework over a cluster of six hosts: what the tests of JAX and of torch share."""

import pathlib
import sys
import tempfile
import unittest

import support

sys.path.insert(0, str(support.MODULES))
from remesh.testing import LocalCluster  # noqa: E402  pylint: disable=wrong-import-position


class FrameworkJobCase(unittest.TestCase):
    """world() of a test returns what process 0 printed: one JSON object a line."""

    def setUp(self):
        self.cluster = LocalCluster(support.BIN_DIR, hosts=6, devices_per_host=1).__enter__()
        self.addCleanup(self.cluster.close)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def check_goes_on(self, before, after, saved_by):
        """The world restored what the one before printed for that step, and both ways to restore it
        go on alike."""
        found = after[0]
        digests = {each["saved"]: each["digest"] for each in before if "saved" in each}
        self.assertIn(found["restored"], digests)
        self.assertEqual(
            found["digests"],
            [digests[found["restored"]]] * 2,
            "not the bits that were saved, and those of the files",
        )
        self.assertEqual(found["saved_by"], saved_by)
        losses = {each["step"]: each["losses"] for each in after if "step" in each}
        self.assertTrue(losses)
        for step, (ours, files) in losses.items():
            self.assertEqual(
                ours, files, f"step {step}: another loss than after a restore from the files"
            )
        print(
            f"restored step {found['restored']} of {saved_by} processes, digest "
            f"{found['digests'][0]}, losses of {len(losses)} steps equal, {found['seconds']}",
            flush=True,
        )
