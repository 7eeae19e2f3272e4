# SPDX-License-Identifier: Apache-2.0
"""What the demo prints: results on stdout, progress on stderr and only on a terminal."""

import subprocess
import sys
import urllib.request


def title(name: str, arrays: int, once: int) -> None:
    print(f"remesh demo: {name}, {arrays} parameters in bf16, {_gb(once)}")


def started(cluster, seconds: float) -> None:
    print(
        f"  started   1 server ({cluster.server_address}), {len(cluster.host_names)} workers "
        f"with {cluster.devices_per_host} devices each, in {seconds:.1f} s"
    )
    print(f"            buffers in {cluster.buffers}, all else in {cluster.root}")


def wrote(layout: str, trainers: int, size: int, seconds: float) -> None:
    print(
        f"  wrote     {trainers} trainers wrote and sealed {_gb(size)} as {layout} in "
        f"{seconds:.1f} s"
    )


def headline(source: str, target: str) -> None:
    print(f"\n{source}  →  {target}")


def moved(execution: dict, transfer_seconds: float, seconds: float) -> None:
    """execution: an Execution in JSON's spelling; seconds: from request to commit, as the trainer
    saw it."""
    s = execution["summary"]
    total = int(s["totalBytes"])
    planning = execution["planning"]
    print(
        f"  plan      {execution['plan']} in {1e3 * float(planning['seconds']):.0f} ms "
        f"({planning['cache'].lower()})"
    )
    print(
        f"  bytes     {_gb(total)} = {_share('kept', s['keptBytes'], total)} + "
        f"{_share('local', s['localBytes'], total)} + "
        f"{_share('crossing hosts', s['crossingBytes'], total)}"
    )
    print(
        f"  bound     LB {s['lowerBoundSeconds']:.4f} s, planned {s['bottleneckSeconds']:.4f} s, Q "
        f"{s['quality']:.3f} (on 100 Gbit/s NICs; bound by {s['certificate'] or 'nothing'})"
    )
    print(
        f"  memory    at most {_gb(int(s['maxPeakBytes']))} on a device; {s['messages']} messages "
        f"in {s['windows']} windows"
    )
    print(
        f"  moved     {_gb(total)} in {seconds:.2f} s: {total / seconds / 1e9:.2f} GB/s (transfer "
        f"alone {transfer_seconds:.2f} s); generation {execution['targetGeneration']} is readable"
    )


def verified(shards: int, size: int, seconds: float) -> None:
    print(
        f"  verified  every element of {shards} shards, {_gb(size)}: all right, in {seconds:.1f} s"
    )


def where_to_look(cluster, keep: bool) -> None:
    """Runs the commands that an operator would, while the processes still run."""
    print("\nWhere to look next")
    remeshctl = str(cluster.bin_dir / "remeshctl")
    for noun in ("states", "executions", "plans", "workers"):
        print(f"  $ remeshctl {noun} list --server {cluster.server_address}")
        result = subprocess.run(
            [remeshctl, noun, "list", "--server", cluster.server_address],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        for line in (result.stdout + result.stderr).splitlines():
            print(f"  {line}")
    print(f"  $ curl {cluster.server_metrics_url}")
    for line in _some_metrics(cluster.server_metrics_url):
        print(f"  {line}")
    print(
        "\nServer and workers keep running: Ctrl-C ends them."
        if keep
        else (
            "\nscripts/demo --keep keeps server and workers running, so that these commands can be "
            "tried."
        )
    )


def _some_metrics(url: str):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    chosen = [line for line in lines if line.startswith("remesh_") and "_bucket" not in line]
    return [*chosen[:6], f"... {len(lines)} lines"]


class Progress:
    """A bar on stderr, drawn over itself; silent unless stderr is a terminal."""

    _WIDTH = 32

    def __init__(self):
        self._terminal = sys.stderr.isatty()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def show(self, execution: dict) -> None:
        if not self._terminal:
            return
        hosts = execution["hosts"]
        windows = max(1, execution["windows"] * len(hosts))
        done = sum(host["windowsDone"] for host in hosts) / windows
        moved_bytes = sum(int(host["receivedBytes"]) + int(host["copiedBytes"]) for host in hosts)
        bar = "#" * round(done * self._WIDTH)
        phase = execution["phase"].lower()
        print(
            f"\r\x1b[K  {phase:<13}[{bar:<{self._WIDTH}}] {100 * done:3.0f} %  {_gb(moved_bytes)}",
            end="",
            file=sys.stderr,
            flush=True,
        )


def _gb(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.2f} MB"


def _share(what: str, size: str, total: int) -> str:
    return f"{_gb(int(size))} {what} ({100 * int(size) / max(total, 1):.1f} %)"
