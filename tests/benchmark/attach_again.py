#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How long workers take to be attached again after kill -9 of the server. Run by hand; prints each
run, median and maximum.

    PYTHONPATH=build/release/python tests/benchmark/attach_again.py [--bin-dir build/release/bin]
    [--hosts 3] [--runs 10] [--down 1.0]

The server stays away for --down seconds, as a supervisor or a kubelet takes to start it again.
Seconds are counted from the kill.
"""

import argparse
import pathlib
import statistics
import time

from remesh.testing import LocalCluster


def attached_again(cluster: LocalCluster, down: float) -> tuple:
    """(seconds from the kill, seconds from the moment the server listens) until every worker is
    attached."""
    killed = time.monotonic()
    cluster.kill_server()
    time.sleep(max(0.0, killed + down - time.monotonic()))
    cluster.start_server()
    listens = time.monotonic()
    cluster.wait_workers()
    attached = time.monotonic()
    return attached - killed, attached - listens


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin-dir", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--down", type=float, default=1.0)
    options = parser.parse_args()
    with LocalCluster(options.bin_dir, options.hosts) as cluster:
        runs = [attached_again(cluster, options.down) for _ in range(options.runs)]
    for run, (since_kill, since_start) in enumerate(runs, 1):
        print(
            f"run {run:2}: attached {since_kill:.2f} s after the kill, {since_start:.2f} s after "
            "the server listened"
        )
    for what, seconds in zip(("the kill", "the server listened"), zip(*runs)):
        print(
            f"after {what}: median {statistics.median(seconds):.2f} s, maximum {max(seconds):.2f} "
            f"s of {len(seconds)}"
        )


if __name__ == "__main__":
    main()
