#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""docs/python.md, or docs/training.md, names everything public of the modules that docs/python.md
lists.

Usage: check_python.py REPOSITORY_ROOT. Prints what is missing and exits 1 if anything is.
"""

import ast
import pathlib
import re
import sys

MODULES = (
    "client",
    "state",
    "move",
    "layout",
    "buffers",
    "errors",
    "group",
    "server_group",
    "local_group",
    "host",
    "trainer",
    "coordination",
    "testing",
)
# Public for other modules of the package alone.
OF_THE_PACKAGE = {
    "client": {"create_from", "state_stub", "reshard_stub"},
    "move": {"failure_of"},
    "buffers": {"open_all", "identity", "FileMap"},
    "layout": {"Hlo", "Named", "Placement", "Boxes", "Written", "arrays_of", "device_list"},
    "errors": {
        "to_fields",
        "execution",
        "from_grpc",
        "from_status",
        "to_bytes",
        "from_bytes",
    },
    "group": {"show_ranks", "show_groups", "check_equal"},
    "server_group": {"payload_bytes", "agree_on", "gather_all", "leaf_groups", "step_agreement"},
    "testing": {"Process", "alive", "log_tail", "has_gpus", "start_keeper"},
}


def public(text: str):
    """Names of a module's functions and classes, and of their methods."""
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield node.name
            for member in node.body if isinstance(node, ast.ClassDef) else []:
                if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
                    yield member.name


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    written = set(
        re.findall(
            r"\w+",
            "".join((root / "docs" / page).read_text() for page in ("python.md", "training.md")),
        )
    )
    missing = [
        f"remesh.{module}: {name}"
        for module in MODULES
        for name in public((root / "client" / "python" / "remesh" / f"{module}.py").read_text())
        if name not in written | OF_THE_PACKAGE.get(module, set())
    ]
    print(
        "\n".join(f"docs/python.md does not say what {each} is" for each in missing)
        or "docs/python.md is complete"
    )
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
