# SPDX-License-Identifier: Apache-2.0
"""remeshctl on a cluster's server."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from harness import BIN_DIR, ClusterTest


class CommandCase(ClusterTest):
    """A cluster, a folder for files, and remeshctl, which finds the server in $REMESH_SERVER."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="remesh-cli-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)

    def environment(self):
        return {**os.environ, "REMESH_SERVER": self.cluster.server_address}

    def run_remeshctl(self, *words, stdin=None):
        return subprocess.run(
            [BIN_DIR / "remeshctl", *words],
            capture_output=True,
            text=True,
            timeout=60,
            input=stdin,
            check=False,
            env=self.environment(),
        )

    def ctl(self, *words, code=0, stdin=None, stderr=""):
        """Runs remeshctl; returns its stdout."""
        result = self.run_remeshctl(*words, stdin=stdin)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.last_stderr = result.stderr
        if code == 0:
            self.assertEqual(result.stderr, stderr)
        return result.stdout

    def json(self, *words, stdin=None):
        return json.loads(self.ctl(*words, "-o", "json", stdin=stdin))

    def error(self, *words):
        """What remeshctl prints when it fails."""
        self.assertEqual(self.ctl(*words, code=1), "")
        return self.last_stderr
