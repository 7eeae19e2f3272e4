# SPDX-License-Identifier: Apache-2.0
"""scripts/python-environment: it may be skipped only where there is no registry."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


class PythonEnvironmentTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root, self.registry = pathlib.Path(folder.name), pathlib.Path(folder.name) / "registry"
        (self.root / "scripts").mkdir()
        self.registry.mkdir()
        shutil.copy(ROOT / "scripts" / "python-environment", self.root / "scripts")
        stubs = self.root / "scripts" / "torch-stubs"
        stubs.write_text('#!/bin/sh\ntouch "$1/stubs"\n')
        stubs.chmod(0o755)

    def pin(self, *names: str) -> None:
        """The last name is also that of the torch list: torch itself is large."""
        lists = (
            "python-packages.txt",
            "python-packages-protobuf4.txt",
            "python-packages-torch.txt",
        )
        for pins, name in zip(lists, (*names, names[-1])):
            wheel = self.registry / f"{name}-1.0-py3-none-any.whl"
            digest = hashlib.sha256(wheel.read_bytes()).hexdigest() if wheel.exists() else "0" * 64
            (self.root / "scripts" / pins).write_text(f"{name}==1.0 --hash=sha256:{digest}\n")

    def publish(self, name: str) -> None:
        info = f"{name}-1.0.dist-info"
        with zipfile.ZipFile(self.registry / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}.py", "HERE = True\n")
            wheel.writestr(
                f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
            )
            wheel.writestr(f"{info}/WHEEL", WHEEL)
            wheel.writestr(f"{info}/RECORD", "")

    def run_script(self) -> subprocess.CompletedProcess:
        env = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.registry)}
        return subprocess.run(
            [str(self.root / "scripts" / "python-environment")],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )

    def test_no_registry(self):
        self.pin("one", "two")
        done = self.run_script()
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("SKIP", done.stderr)

    def test_a_registry_without_what_is_pinned_is_a_failure(self):
        self.publish("zipp")
        self.pin("one", "two")
        done = self.run_script()
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("although the registry answers", done.stderr)

    def test_another_content_than_was_pinned_is_a_failure(self):
        for name in ("zipp", "one", "two"):
            self.publish(name)
        self.pin("one", "two")
        self.publish("one_more")
        shutil.copy(
            self.registry / "one_more-1.0-py3-none-any.whl",
            self.registry / "one-1.0-py3-none-any.whl",
        )
        self.assertEqual(self.run_script().returncode, 1)
        self.assertFalse((self.root / "build" / "venv").exists())

    def test_what_is_pinned_is_there_afterwards(self):
        for name in ("one", "two"):
            self.publish(name)
        self.pin("one", "two")
        done = self.run_script()
        self.assertEqual(done.returncode, 0, done.stderr)
        python = self.root / "build" / "venv" / "bin" / "python"
        self.assertEqual(
            subprocess.run([python, "-c", "import one, two"], check=False).returncode, 0
        )
        self.assertEqual(
            len(list((self.root / "build" / "venv").glob("lib/*/site-packages/stubs"))), 1
        )
        self.assertEqual(len(list((self.root / "build" / "wheels").iterdir())), 2)
        shutil.rmtree(self.registry)
        self.assertEqual(self.run_script().returncode, 0)  # nothing to do


if __name__ == "__main__":
    unittest.main()
