# SPDX-License-Identifier: Apache-2.0
"""One version everywhere; CMakeLists.txt is where it is decided."""

import datetime
import os
import pathlib
import re
import unittest

import yaml

import support
from support import CHART, ROOT, binary, run

VERSION = re.search(
    r"(?m)^project\(remesh VERSION (\d+\.\d+\.\d+) ", (ROOT / "CMakeLists.txt").read_text()
)[1]
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


class VersionTest(unittest.TestCase):
    def test_the_charts(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        self.assertEqual((chart["version"], chart["appVersion"]), (VERSION, VERSION))

    def test_the_charts_guide(self):
        tags = set(
            re.findall(
                r"remesh:(\d+\.\d+\.\d+)|`image\.tag: (\d+\.\d+\.\d+)-cuda`",
                (CHART / "README.md").read_text(),
            )
        )
        self.assertEqual(tags, {(VERSION, ""), ("", VERSION)})

    def test_the_python_packages(self):
        dist = pathlib.Path(os.environ["REMESH_BIN_DIR"]).parent / "dist"
        if not dist.exists():
            self.skipTest("the wheel is not built")
        self.assertEqual(
            [wheel.name for wheel in dist.iterdir()], [f"remesh-{VERSION}-py3-none-any.whl"]
        )

    def test_the_binaries(self):
        for name in ("remesh-keeper", "remesh-server", "remesh-worker", "remeshctl"):
            if not binary(name):
                self.skipTest("the binaries are not built")
            self.assertEqual(run(binary(name), "--version").stdout.split()[-1], VERSION)

    def test_the_changelog_is_in_its_form(self):
        """Keep a Changelog 1.1: the newest first, each with its day or still open, changes under
        headings of six kinds."""
        text = (ROOT / "CHANGELOG.md").read_text()
        versions = re.findall(r"(?m)^## \[(.+?)\](?: - (\d{4}-\d{2}-\d{2}))?$", text)
        self.assertEqual(len(versions), len(re.findall(r"(?m)^## ", text)))
        self.assertIn(VERSION, [name for name, _ in versions[:2]])
        days = [datetime.date.fromisoformat(day) for _, day in versions if day]
        self.assertEqual(days, sorted(days, reverse=True))
        self.assertLessEqual(set(re.findall(r"(?m)^### (.+)$", text)), KINDS)
        self.assertTrue(
            all(re.search(r"(?m)^- ", part) for part in re.split(r"(?m)^### .+$", text)[1:])
        )


if __name__ == "__main__":
    support.main()
