#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Finds words that retired_words.txt says are no longer used.

Usage: check_words.py REPOSITORY_ROOT. Prints each place and exits 1 if there is one.
"""

import fnmatch
import pathlib
import re
import subprocess
import sys

TABLE = "tests/documents/retired_words.txt"
NOT_TEXT = (".png", ".ico", ".gz", ".zst")


def rules(table: pathlib.Path):
    for number, line in enumerate(table.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split(" | " if line.count(" | ") == 2 else " |")]
        if len(cells) != 3 or not cells[1]:
            raise SystemExit(
                f"{TABLE}:{number}: a rule has three columns: word | say instead | where it may "
                "stand"
            )
        yield re.compile(rf"\b(?:{cells[0]})\b"), cells[1], cells[2].split()


def found(root: pathlib.Path):
    names = subprocess.run(
        ["git", "-C", str(root), "ls-files"], check=True, capture_output=True, text=True
    ).stdout.split("\n")
    table = list(rules(root / TABLE))
    for name in names:
        if (
            not name
            or name.endswith(NOT_TEXT)
            or name.startswith("tests/documents/")
            or not (root / name).is_file()
        ):
            continue
        lines = (root / name).read_text(errors="replace").splitlines()
        for word, instead, allowed in table:
            if any(fnmatch.fnmatch(name, glob) for glob in allowed):
                continue
            for number, line in enumerate(lines, 1):
                if match := word.search(line):
                    yield f"{name}:{number}: {match.group()}: say {instead}"


def main() -> int:
    places = list(found(pathlib.Path(sys.argv[1]).resolve()))
    print("\n".join(places) or "no retired word is in use")
    return 1 if places else 0


if __name__ == "__main__":
    sys.exit(main())
