# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` lays down: units that systemd accepts, and a user and folders that fit
them."""

import os
import pathlib
import re
import shutil
import tempfile
import unittest

import support
from option_table import options_of
from support import ROOT, run

BUILD = pathlib.Path(os.environ.get("REMESH_BIN_DIR", ROOT / "build" / "release" / "bin")).parent
UNITS = ["remesh-keeper.service", "remesh-server.service", "remesh-worker.service"]


class PackagingTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        result = run(
            "cmake", "--install", BUILD, "--component", "units", "--prefix", self.root / "usr"
        )
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def unit(self, name: str) -> str:
        return (self.root / "usr" / "lib" / "systemd" / "system" / name).read_text()

    def test_what_lies_where(self):
        files = {
            str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()
        }
        self.assertEqual(
            files,
            {
                *(f"usr/lib/systemd/system/{name}" for name in UNITS),
                "usr/lib/sysusers.d/remesh.conf",
                "usr/lib/tmpfiles.d/remesh.conf",
                "usr/share/remesh/server.example.yaml",
                "usr/share/remesh/worker.example.yaml",
            },
        )

    def test_systemd_accepts_the_units(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("no systemd-analyze here")
        for name in UNITS:
            # The binaries are not installed, and this machine need not have systemd's own targets.
            text = re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", self.unit(name))
            (self.root / name).write_text(text)
            check = run(
                "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", self.root / name
            )
            self.assertEqual((check.returncode, check.stderr.strip()), (0, ""), name)

    def test_units_start_binaries_with_their_file(self):
        for name in ("server", "worker"):
            self.assertRegex(
                self.unit(f"remesh-{name}.service"),
                rf"(?m)^ExecStart=/\S+/bin/remesh-{name} --config /etc/remesh/{name}\.yaml$",
            )
            self.assertIn(
                f"ConditionPathExists=/etc/remesh/{name}.yaml\n",
                self.unit(f"remesh-{name}.service"),
            )

    def test_the_worker_may_write_where_its_settings_lead(self):
        """Folders of the defaults of buffer_directory and socket_path are made by tmpfiles.d, and
        writable to the unit."""
        self.assertLessEqual(
            {"buffer_directory", "socket_path"}, {option.key for option in options_of("worker")}
        )
        example = (self.root / "usr" / "share" / "remesh" / "worker.example.yaml").read_text()
        buffers = re.search(r'# buffer_directory: "(.*)"', example)[1]
        sockets = os.path.dirname(re.search(r'# socket_path: "(.*)"', example)[1])
        made = re.findall(
            r"(?m)^d (\S+) 2750 remesh remesh",
            (self.root / "usr" / "lib" / "tmpfiles.d" / "remesh.conf").read_text(),
        )
        self.assertEqual(set(made), {buffers, sockets})
        self.assertIn(f"ReadWritePaths={buffers} {sockets}\n", self.unit("remesh-worker.service"))

    def test_users_exist(self):
        self.assertRegex(
            (self.root / "usr" / "lib" / "sysusers.d" / "remesh.conf").read_text(),
            r"(?m)^u remesh - ",
        )
        for name in UNITS:
            self.assertIn("User=remesh\nGroup=remesh\n", self.unit(name))


if __name__ == "__main__":
    if not (BUILD / "cmake_install.cmake").exists():
        print(f"SKIP: {BUILD} is not configured")
        raise SystemExit(support.SKIP)
    support.main()
