#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds every #include to the layers of ARCHITECTURE.md, and each library to its namespace.

An arrow may only point down: between top-level folders (ALLOWED), and between the ordered
sub-folders of planner/, service/ and server/controller/ (SUBFOLDERS). The files of planner/ form no
circle of includes, and MakePlan() enters each floor once: the steps are printed. Circles of folders
elsewhere are printed too.

Usage: check_includes.py REPOSITORY_ROOT. Prints each breach of the law and exits 1 if there is one.
"""

import pathlib
import re
import sys

# Folder -> folders that its files may include. "generated" stands for the headers that protoc
# writes.
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
    "planner": (
        "google/protobuf",
        "grpc",
        "ucp/",
        "yaml-cpp",
        "prometheus",
        "sqlite3",
        "fstream",
        "chrono",
        "thread",
    ),
    "proto": ("grpcpp", "ucp/", "prometheus", "sqlite3"),
    "server": ("ucp/",),
}
# Folder -> its sub-folders in order: each may use itself and those before it. "" stands for the
# folder's own files. Support for tests (testing/) has no place here, and may use all.
SUBFOLDERS = {
    "planner": [
        "values",
        "sharding",
        "canonical",
        "network",
        "atoms",
        "routing",
        "order",
        "moves",
        "schedule",
        "plan",
        "codec",
        "",
        "report",
    ],
    "service": ["log", "process", "tls", "rpc", "front", "metrics", "settings"],
    "server/controller": [
        "values",
        "leadership",
        "membership",
        "states",
        "executions",
        "reconcile",
        "watches",
        "",
    ],
}
# Folders that use nothing else of their layer: what decides knows neither gRPC nor the journal.
CLOSED = ("server/controller",)
# The packed plan is for those that make, read and check it.
PRIVATE = {"planner/plan/plan_rep.h": ("planner/plan/", "planner/codec/", "planner/reprice.cc")}
NAMESPACE = re.compile(r"^namespace (remesh[\w:]*) \{")
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


def is_product(path: pathlib.Path) -> bool:
    return (
        path.suffix in (".h", ".cc")
        and not path.stem.endswith("_test")
        and "testing" not in path.parts
        and path.stem != "report_test"
    )


def includes_of(path: pathlib.Path) -> list[str]:
    return [
        match.group(2) for line in path.read_text().splitlines() if (match := INCLUDE.match(line))
    ]


def subfolder_of(path: str, folder: str) -> str:
    """The sub-folder of `folder` that holds `path`; "" for the folder's own files."""
    parts = path.removeprefix(folder + "/").split("/")
    return parts[0] if len(parts) > 1 else ""


def products(root: pathlib.Path, folder: str) -> list[pathlib.Path]:
    return [path for path in sorted((root / folder).rglob("*")) if is_product(path)]


def order_breaches(root: pathlib.Path):
    """Includes against the order of sub-folders, and files in a sub-folder without a place in
    it."""
    for folder, order in SUBFOLDERS.items():
        for path in products(root, folder):
            where = str(path.relative_to(root))
            own = subfolder_of(where, folder)
            if own not in order:
                yield f"{where}: {folder}/{own} has no place in SUBFOLDERS"
                continue
            for include in includes_of(path):
                if not include.startswith(folder + "/"):
                    continue
                used = subfolder_of(include, folder)
                if used not in order or order.index(used) > order.index(own):
                    yield f"{where}: {folder}/{own} may not use {include}"


def closed_breaches(root: pathlib.Path):
    for folder in CLOSED:
        layer = folder.split("/")[0] + "/"
        for path in products(root, folder):
            for include in includes_of(path):
                if include.startswith(layer) and not include.startswith(folder + "/"):
                    yield f"{path.relative_to(root)}: {folder} may not use {include}"


def private_breaches(root: pathlib.Path):
    for private, users in PRIVATE.items():
        for folder in ALLOWED:
            for path in products(root, folder):
                where = str(path.relative_to(root))
                if private in includes_of(path) and not where.startswith(users):
                    yield f"{where}: {private} is not for it"


def rooms(root: pathlib.Path, folder: str) -> dict[str, set[str]]:
    """Room -> rooms that it includes."""
    graph: dict[str, set[str]] = {}
    for path in products(root, folder):
        room = str(path.relative_to(root).with_suffix(""))
        used = {
            include.removesuffix(".h")
            for include in includes_of(path)
            if include.startswith(folder + "/")
        }
        graph.setdefault(room, set()).update(used - {room})
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected components (Tarjan), each sorted."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(room: str) -> None:
        index[room] = low[room] = len(index)
        stack.append(room)
        for used in sorted(graph.get(room, ())):
            if used not in index:
                visit(used)
                low[room] = min(low[room], low[used])
            elif used in stack:
                low[room] = min(low[room], index[used])
        if low[room] == index[room]:
            at = stack.index(room)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for room in sorted(graph):
        if room not in index:
            visit(room)
    return found


def room_circles(root: pathlib.Path):
    for circle in circles(rooms(root, "planner")):
        if len(circle) > 1:
            yield f"rooms that include each other: {', '.join(circle)}"


def folder_circles(root: pathlib.Path) -> list[list[str]]:
    """Folders that include each other, in any layer."""
    graph: dict[str, set[str]] = {}
    for layer in ALLOWED:
        for path in products(root, layer):
            folder = str(path.parent.relative_to(root))
            used = {
                str(pathlib.PurePath(include).parent)
                for include in includes_of(path)
                if include.startswith(layer + "/")
            }
            graph.setdefault(folder, set()).update(used - {folder})
    return [circle for circle in circles(graph) if len(circle) > 1]


STEP = re.compile(r"\b(ChooseTargetOrder|WithTargetOrder|(?:Make|Check)[A-Z]\w+|Pack)\(")


def steps(root: pathlib.Path) -> list[tuple[str, str]]:
    """(floor, step) in the order in which make_plan.cc calls them."""
    home = {}
    for path in filter(is_product, (root / "planner").rglob("*.h")):
        for name in re.findall(r"^[\w:<>&,* ]*?\b(\w+)\(", path.read_text(), re.MULTILINE):
            home.setdefault(name, subfolder_of(str(path.relative_to(root)), "planner"))
    text = (root / "planner/make_plan.cc").read_text()
    begin = text.index("MakePlan(const CanonicalRequest")
    order = text[begin:] + text[:begin]  # MakePlan() itself, then the steps that it calls
    return [(home.get(name, "?"), name) for name in STEP.findall(order) if name != "MakePlan"]


def step_breaches(root: pathlib.Path):
    """Each floor is entered once, and after those before it."""
    floors = [floor for floor, _ in steps(root) if floor]
    entered = [floor for i, floor in enumerate(floors) if i == 0 or floors[i - 1] != floor]
    if len(set(entered)) != len(entered):
        yield f"MakePlan() enters a floor twice: {' -> '.join(entered)}"


def namespace_breaches(root: pathlib.Path):
    """Each library has a namespace of its own; base/ is remesh itself. So two libraries may give
    one name to two things."""
    for folder in ALLOWED:
        own = "remesh" if folder == "base" else f"remesh::{folder}"
        for path in products(root, folder):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = NAMESPACE.match(line)
                if match and match.group(1) != own and not match.group(1).startswith(own + "::"):
                    yield (
                        f"{path.relative_to(root)}:{number}: {folder}/ may not declare in "
                        f"{match.group(1)}, only in {own}"
                    )


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    found = [
        *breaches(root),
        *order_breaches(root),
        *closed_breaches(root),
        *private_breaches(root),
        *room_circles(root),
        *step_breaches(root),
        *namespace_breaches(root),
    ]
    print("\n".join(found) or "the include graph keeps to the layers")
    for circle in folder_circles(root):
        print("folders that include each other:", " ".join(circle))
    print(
        "MakePlan():", " -> ".join(f"{step} ({floor or 'planner'})" for floor, step in steps(root))
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
