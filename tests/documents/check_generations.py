#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Finds callers that compute the generation to which a move leads instead of asking the execution.

Usage: check_generations.py REPOSITORY_ROOT. A move to where the state is keeps the generation, and
one after a revoked commit skips some: Execution.target_generation says it. Prints each place and
exits 1 if there is one.
"""

import pathlib
import re
import subprocess
import sys

FOLDERS = ("client", "helm", "docs", "examples", "README.md")
COMPUTED = re.compile(r"generation(\(\))?`?\s*\+=?\s*1\b|\b1\s*\+\s*`?(\w+[._])*generation\b")


def found(root: pathlib.Path):
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "--", *FOLDERS],
        check=True,
        capture_output=True,
        text=True,
    )
    for name in listing.stdout.split("\n"):
        if not name or not (root / name).is_file():
            continue
        text = (root / name).read_text(errors="replace")
        for match in COMPUTED.finditer(text):
            yield (
                f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()}: say "
                "execution.target_generation"
            )


def main() -> int:
    for spelled in (
        "generation + 1",
        "generation+1",
        "state.generation() + 1",
        "1 + move.source_generation",
        "generation += 1",
    ):
        assert COMPUTED.search(spelled), spelled
    places = list(found(pathlib.Path(sys.argv[1]).resolve()))
    print("\n".join(places) or "no caller computes the generation of a move")
    return 1 if places else 0


if __name__ == "__main__":
    sys.exit(main())
