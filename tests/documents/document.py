# SPDX-License-Identifier: Apache-2.0
"""Documents whose commands are run as they stand: only ports and folders are exchanged, so that
tests beside this one do not meet."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

from harness import BIN_DIR

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 100


def _free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class DocumentTest(unittest.TestCase):
    """Of documents over docs/quickstart/."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="remesh-quickstart-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.run_folder = self.folder / "run"
        self.exchanged = {
            "/tmp/remesh-quickstart": str(self.run_folder),
            "docs/quickstart/": f"{self.folder}/",
            **{
                f"127.0.0.1:{7070 + i}": f"127.0.0.1:{port}"
                for i, port in enumerate(_free_ports(4))
            },
        }
        for file in (ROOT / "docs" / "quickstart").iterdir():
            (self.folder / file.name).write_text(self._exchange(file.read_text()))

    def _exchange(self, text):
        for old, new in self.exchanged.items():
            text = text.replace(old, new)
        return text

    def run_commands(self, name: str, blocks: int, server: bool = True) -> str:
        """What the document's shell blocks print, of which it must have so many, and which must
        succeed. `server`: whether REMESH_SERVER names one."""
        found = re.findall(
            r"^```sh\n(.*?)^```", (ROOT / "docs" / name).read_text(), re.DOTALL | re.MULTILINE
        )
        self.assertEqual(len(found), blocks)
        script = "set -e\n" + self._exchange("".join(found)).replace(
            "$PWD/build/release/bin", str(BIN_DIR)
        )
        # Debian's python3, which has NumPy, before any other.
        env = {
            **os.environ,
            "PATH": f"/usr/bin:{os.environ['PATH']}",
            "REMESH_SERVER": self.exchanged["127.0.0.1:7070"] if server else "",
        }
        with subprocess.Popen(
            ["bash", "-c", script],
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=env,
        ) as process:
            alarm = threading.Timer(SECONDS, os.killpg, (process.pid, signal.SIGKILL))
            alarm.start()
            output = process.stdout.read()  # ends when the last process of the script has ended
            alarm.cancel()
        self.assertEqual(process.returncode, 0, output)
        return output
