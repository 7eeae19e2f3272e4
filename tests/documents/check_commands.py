#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every page with commands in its blocks says which test runs them, or why none does.

Usage: check_commands.py REPOSITORY_ROOT. The mark is a comment of the page: `<!-- Commands: run by
TEST -->`, where TEST is a test of ctest that names the page, `<!-- Commands: WHY NOT -->`, or both.
The mark of a README.md is that of the pages of its folder that have none. Prints what is wrong and
exits 1.
"""

import pathlib
import re
import subprocess
import sys

BLOCK = re.compile(r"(?ms)^```(\w*)[^\n]*\n(.*?)^```")
COMMAND = re.compile(
    r"(?m)^(?:[A-Z_]+=\S+ )*(?:sudo "
    r")?(?:remesh\S*|kubectl|helm|scripts/\S+|export|pip|srun|torchrun|python3?|\S+/bin/\S+) "
)
MARK = re.compile(r"<!-- Commands: (.*?) -->", re.S)


def listed(root: pathlib.Path, *patterns: str) -> list:
    return subprocess.run(
        ["git", "-C", root, "ls-files", *patterns], check=True, capture_output=True, text=True
    ).stdout.split()


def tests_of(root: pathlib.Path) -> dict:
    """Name in ctest -> text of the Python file that is the test."""
    return {
        f"{path.parent.name}_{path.name.removesuffix('_test.py')}": path.read_text()
        for path in map(root.joinpath, listed(root, "tests/*_test.py"))
        if path.exists()
    }


def faults(root: pathlib.Path):
    tests = tests_of(root)
    for name in listed(root, "*.md"):
        text = (root / name).read_text()
        if not any(
            COMMAND.search(block)
            for language, block in BLOCK.findall(text)
            if language in ("", "sh", "bash")
        ):
            continue
        beside = (root / name).with_name("README.md")
        mark = MARK.search(text) or (beside.exists() and MARK.search(beside.read_text()))
        if not mark:
            yield f"{name}: has commands; say in a comment which test runs them, or why none does"
            continue
        for test in re.findall(r"run by (\w+)", mark[1]):
            if test not in tests:
                yield f"{name}: there is no test {test}"
            elif MARK.search(text) and pathlib.Path(name).name not in tests[test]:
                yield f"{name}: {test} does not name it"


def main() -> int:
    assert COMMAND.search("REMESH_SERVER=a remeshctl plan -f x") and not COMMAND.search(
        "host-0  w0 w1\n"
    )
    found = list(faults(pathlib.Path(sys.argv[1]).resolve()))
    print("\n".join(found) or "every page says what runs its commands")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
