# SPDX-License-Identifier: Apache-2.0
"""A test that runs `remesh launch`."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

_SECONDS = 60  # a bound for busy machines


class LaunchCase(unittest.TestCase):
    """Its processes write lines of JSON, and end when `folder` has the file `ended`."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.errors = open(self.folder / "err", "w+")
        self.addCleanup(self.errors.close)

    def launch(self, *arguments, **environment):
        """Starts `remesh launch` with these arguments."""
        self.launcher = subprocess.Popen(
            [sys.executable, "-m", "remesh", "launch", *arguments],
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**os.environ, **environment},
        )
        self.addCleanup(self.launcher.stdout.close)
        self.addCleanup(self.launcher.wait)
        self.addCleanup(self.launcher.kill)

    def said(self):
        """What the launcher wrote to stderr."""
        return (self.folder / "err").read_text()

    def finish(self):
        """The exit status, once all processes have been told that the job is done."""
        (self.folder / "ended").touch()
        return self.launcher.wait(_SECONDS)
