#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds every #include to the layers of ARCHITECTURE.md: an arrow may only point down; and headers that one program may hold to names of their own.

Usage: check_includes.py REPOSITORY_ROOT. Prints each breach of the law and exits 1 if there is one.
"""
import pathlib
import re
import sys

# Folder -> folders that its files may include. "generated" stands for the headers that protoc writes.
ALLOWED = {
    "base": set(),
    "planner": {"base"},
    "proto": {"base", "planner", "generated"},
    "service": {"base", "planner", "proto", "generated"},
    "server": {"base", "planner", "proto", "service", "generated"},
    "worker": {"base", "planner", "proto", "service", "generated"},
    "client": {"base", "planner", "proto", "service", "generated"},
}
# Libraries that a folder may never see: the planner is pure.
FORBIDDEN_LIBRARIES = {
    "base": ("google/protobuf", "grpc", "ucp/", "yaml-cpp", "prometheus", "sqlite3"),
    "planner": ("google/protobuf", "grpc", "ucp/", "yaml-cpp", "prometheus", "sqlite3", "fstream", "chrono", "thread"),
    "proto": ("grpcpp", "ucp/", "prometheus", "sqlite3"),
    "server": ("ucp/",),
}
TYPE = re.compile(r"^(?:struct|class|enum class) (\w+)(?: final)?(?: :.*)? *\{")
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def layer_of(include: str) -> str | None:
    if re.search(r"\.pb\.h$", include):
        return "generated"
    top = include.split("/")[0]
    return top if top in ALLOWED or top == "tests" else None


def breaches(root: pathlib.Path):
    for folder, allowed in ALLOWED.items():
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cc", ".cu", ".cuh"):
                continue
            is_test = path.stem.endswith("_test") or "testing" in path.relative_to(root).parts
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                where = f"{path.relative_to(root)}:{number}"
                include = match.group(2)
                layer = layer_of(include)
                if layer == "tests":
                    if not is_test:
                        yield f"{where}: {folder}/ includes {include}"
                elif layer is not None and layer != folder and layer not in allowed:
                    yield f"{where}: {folder}/ may not include {include}"
                elif layer is None and not is_test:
                    for library in FORBIDDEN_LIBRARIES.get(folder, ()):
                        if include.startswith(library):
                            yield f"{where}: {folder}/ may not use {include}"


def twins(root: pathlib.Path):
    """Types of one name in two headers that may end up in one program: the linker would mix them up in silence."""
    homes: dict[str, list[pathlib.Path]] = {}
    for folder in ALLOWED:
        for path in sorted((root / folder).rglob("*.h")):
            for line in path.read_text().splitlines():
                if match := TYPE.match(line):
                    homes.setdefault(match.group(1), []).append(path.relative_to(root))
    for name, paths in homes.items():
        for i, first in enumerate(paths):
            for second in paths[i + 1 :]:
                a, b = first.parts[0], second.parts[0]
                if a == b or a in ALLOWED[b] or b in ALLOWED[a]:
                    yield f"{second}: {first} has a type {name} too"


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    found = [*breaches(root), *twins(root)]
    print("\n".join(found) or "the include graph keeps to the layers")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
