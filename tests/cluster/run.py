# SPDX-License-Identifier: Apache-2.0
"""Brings a cluster up, does the steps, and prints each with its seconds: run.py PROGRAMS ROOT CRDS
IMAGE... -- STEP.... By scripts/test-cluster."""

import pathlib
import shutil
import sys
import time
import traceback

from cluster import Cluster
from release import SPACE, Release
from steps import STEPS
from words import Skip

NODES = 2


def line(outcome: str, name: str, seconds: float, words: str = "") -> None:
    print(f"{outcome:5} {name:22} {seconds:7.1f} s  {words or ''}".rstrip(), flush=True)


def timed(name: str, what) -> bool:
    begin = time.monotonic()
    try:
        words = what()
    except Skip as reason:
        line("SKIP", name, time.monotonic() - begin, str(reason))
        return True
    except Exception:  # pylint: disable=broad-except
        line("FAIL", name, time.monotonic() - begin, traceback.format_exc())
        return False
    line("ok", name, time.monotonic() - begin, words)
    return True


def look(cluster: Cluster) -> None:
    """What somebody would ask for after a failure."""
    for arguments in (
        ["get", "pods,nodes", "--all-namespaces", "--output=wide"],
        ["get", "events", "--namespace", SPACE, "--sort-by=.lastTimestamp"],
        ["logs", "--namespace", SPACE, "remesh-server-0", "--tail=30"],
        [
            "logs",
            "--namespace",
            SPACE,
            "--prefix",
            "--tail=20",
            "--selector",
            "app.kubernetes.io/component=worker",
        ],
    ):
        print(
            "\n".join(cluster.kubectl(*arguments, check=False).stdout.splitlines()[-40:]),
            flush=True,
        )


def main() -> int:
    end = sys.argv.index("--")
    programs, root, crds, *images = map(pathlib.Path, sys.argv[1:end])
    chosen = sys.argv[end + 1 :]
    shutil.rmtree(root, ignore_errors=True)
    begin = time.monotonic()
    cluster = Cluster(root, programs, NODES, images)
    line("ok", "cluster", time.monotonic() - begin, f"{NODES} nodes Ready")
    failed = 0
    try:
        for path in sorted(crds.glob("*.yaml")):
            cluster.kubectl("create", "--filename", path)
        release = Release(cluster)
        for step in STEPS:
            if chosen and step.__name__ not in chosen:
                continue
            if not timed(step.__name__, lambda s=step: s(release)):
                failed += 1
                look(cluster)
                break  # later steps build on earlier ones
    finally:
        begin = time.monotonic()
        cluster.close()
        line("ok", "end", time.monotonic() - begin)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
