#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Plants an include in each ordered sub-folder: check_includes.py must find those that point up."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_includes  # pylint: disable=wrong-import-position


def plant(root: pathlib.Path, folder: str, subfolder: str, include: str) -> None:
    path = root / folder / subfolder / "planted.h"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#include "{include}"\n')


def header_in(folder: str, subfolder: str) -> str:
    return "/".join(part for part in (folder, subfolder, "used.h") if part)


class PlantedIncludesTest(unittest.TestCase):
    def breaches(self, folder: str, subfolder: str, include: str) -> list[str]:
        with tempfile.TemporaryDirectory() as scratch:
            root = pathlib.Path(scratch)
            plant(root, folder, subfolder, include)
            return [*check_includes.order_breaches(root), *check_includes.closed_breaches(root)]

    def test_an_include_of_a_later_subfolder_is_found(self):
        for folder, order in check_includes.SUBFOLDERS.items():
            for own, later in zip(order, order[1:]):
                with self.subTest(folder=folder, subfolder=own):
                    self.assertEqual(len(self.breaches(folder, own, header_in(folder, later))), 1)

    def test_an_include_of_an_earlier_subfolder_is_allowed(self):
        for folder, order in check_includes.SUBFOLDERS.items():
            for earlier, own in zip(order, order[1:]):
                with self.subTest(folder=folder, subfolder=own):
                    self.assertEqual(self.breaches(folder, own, header_in(folder, earlier)), [])

    def test_a_subfolder_without_a_place_is_found(self):
        for folder in check_includes.SUBFOLDERS:
            with self.subTest(folder=folder):
                self.assertEqual(len(self.breaches(folder, "attic", "base/check.h")), 1)

    def test_what_decides_uses_nothing_else_of_the_server(self):
        self.assertEqual(len(self.breaches("server/controller", "values", "server/core.h")), 1)


if __name__ == "__main__":
    unittest.main()
