# SPDX-License-Identifier: Apache-2.0
"""What the tests of this folder share."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "remesh"
TOOLS = ROOT / "build" / "tools"
SKIP = 77  # what ctest takes for "skipped"
SECONDS = 500
# promtool makes a database for every case and waits for the disk.
FAST = {"TMPDIR": "/dev/shm"} if os.access("/dev/shm", os.W_OK) else {}

sys.path.insert(0, str(ROOT / "helm"))


def run(*command, text: str = "") -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(part) for part in command],
        input=text,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        cwd=ROOT,
        env={**os.environ, **FAST},
    )


def binary(name: str):
    """The path of one of remesh's binaries; None while it is not built."""
    path = pathlib.Path(os.environ.get("REMESH_BIN_DIR", ROOT / "build" / "release" / "bin")) / name
    return path if path.exists() else None


def metric_table() -> dict:
    """Name -> (type, labels) of every series in docs/metrics.md, which a test holds to what the
    binaries export."""
    table = {}
    for line in (ROOT / "docs" / "metrics.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and re.fullmatch(r"`\w+`", cells[0]):
            table[cells[0].strip("`")] = (cells[1], set(re.findall(r"`(\w+)`", cells[2])))
    return table


# What Prometheus and the chart's PodMonitor add to every series.
TARGET_LABELS = {"namespace", "job", "instance", "node", "pod", "container", "endpoint"}
# Words of PromQL that look like names of series.
PROMQL = {
    "and",
    "or",
    "unless",
    "on",
    "ignoring",
    "by",
    "without",
    "bool",
    "offset",
    "group_left",
    "group_right",
    "up",
}


def faults_of_query(query: str, recorded=()) -> list:
    """Series and labels of a PromQL expression that docs/metrics.md does not have."""
    table, faults = metric_table(), []
    bare = re.sub(r'"[^"]*"', '""', query)
    groups = re.findall(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)", bare)
    bare = re.sub(r"\b(?:by|without|on|ignoring)\s*\([^)]*\)", " ", bare)
    allowed = set(TARGET_LABELS)
    for name, labels in re.findall(
        r"(?<![\w.$])([a-zA-Z_:][\w:]*)\s*(\{[^}]*\})?(?!\w*\s*\()", bare
    ):
        if name in PROMQL or name in recorded or re.fullmatch(r"[smhdy]|ms", name):
            allowed |= set(TARGET_LABELS)
            continue
        family = name if name in table else re.sub(r"_(bucket|sum|count)$", "", name)
        if family not in table or (family != name and table[family][0] != "histogram"):
            faults.append(f"no series {name}")
            continue
        own = table[family][1] | ({"le"} if name.endswith("_bucket") else set())
        allowed |= own
        for label in re.findall(r"(\w+)\s*[=!]", labels):
            if label not in own | TARGET_LABELS:
                faults.append(f"{name} has no label {label}")
    for label in re.findall(r"\w+", " ".join(groups)):
        if label not in allowed:
            faults.append(f"nothing here has the label {label}")
    return faults


def main(needs=()) -> None:
    """Runs the tests of the calling file; SKIP when a tool of build/tools is missing."""
    missing = [name for name in needs if not (TOOLS / name).exists()]
    if missing:
        print(f"SKIP: {', '.join(missing)} not in build/tools: run scripts/operations-tools")
        sys.exit(SKIP)
    unittest.main()
