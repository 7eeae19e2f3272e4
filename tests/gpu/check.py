# SPDX-License-Identifier: Apache-2.0
"""Runs what needs a GPU and writes docs/gpu-results.md: scripts/gpu-check. Exit status 0: all of it
passed."""

import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SHARES = (
    ("Pack", 64, 0.6),
    ("Pack", 512, 0.85),
    ("Pack", 4096, 0.85),
    ("Pack", 1 << 20, 0.85),
    ("Unpack", 64, 0.6),
    ("Unpack", 512, 0.85),
    ("Unpack", 4096, 0.85),
    ("Unpack", 1 << 20, 0.85),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/gpu-check", description=__doc__)
    for name in ("bin", "tests", "benchmark"):
        parser.add_argument(f"--{name}-dir", type=pathlib.Path, required=True)
    parser.add_argument(
        "--page", type=pathlib.Path, default=HERE.parents[1] / "docs" / "gpu-results.md"
    )
    options = parser.parse_args()
    query = "name,driver_version,memory.total"
    gpu = _run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], 30)
    if gpu.returncode != 0:
        print(
            "gpu-check: there is no GPU here (nvidia-smi: "
            + (gpu.stdout.strip() or "not installed")
            + ")",
            file=sys.stderr,
        )
        return 1
    lines = [
        "# On a GPU",
        "",
        "Written by `scripts/gpu-check`; do not edit.",
        "",
        f"*{gpu.stdout.strip()} (name, driver, memory); {datetime.date.today()}.*",
        "",
    ]
    passed = [
        _conformance(options, lines),
        _moves(options, lines),
        _links(options, lines),
        _rates(options, lines),
    ]
    options.page.write_text("\n".join(lines) + "\n")
    print(f"wrote {options.page}")
    return 0 if all(passed) else 1


def _run(command, seconds, **environment):
    try:
        return subprocess.run(
            [str(word) for word in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            env={**os.environ, **environment},
            check=False,
        )
    except (subprocess.TimeoutExpired, FileNotFoundError) as error:
        return subprocess.CompletedProcess(command, 1, stdout=str(error))


def _section(lines, title, result, note):
    verdict = "passed" if result.returncode == 0 else "**FAILED**"
    print(f"{title}: {verdict}")
    if result.returncode != 0:
        print(result.stdout[-4000:], file=sys.stderr)
    lines += [f"## {title}", "", f"{verdict[0].upper()}{verdict[1:]}: {note}", ""]
    return result.returncode == 0


def _conformance(options, lines):
    result = _run([options.tests_dir / "device_conformance_test", "--gtest_filter=Cuda*"], 120)
    ok, skipped = len(re.findall(r"\[ +OK \] Cuda", result.stdout)), len(
        re.findall(r"\[ +SKIPPED \] Cuda.* ms", result.stdout)
    )
    return _section(
        lines,
        "The device against the element oracle",
        result,
        f"{ok} tests of tests/conformance passed, {skipped} were skipped.",
    )


def _moves(options, lines):
    started = time.monotonic()
    result = _run(
        [sys.executable, HERE / "moves_test.py"], 300, REMESH_BIN_DIR=str(options.bin_dir.resolve())
    )
    passed = _section(
        lines,
        "Two workers on one GPU, by NCCL over loopback",
        result,
        f"{result.stdout.count('... ok') + len(re.findall('^ok$', result.stdout, re.M))} tests of "
        f"tests/gpu/moves_test.py in {time.monotonic() - started:.0f} s: every element after "
        "moves of every element width, a cancel and a `kill -9` of a worker with kernels in "
        "flight.",
    )
    moves = re.findall(r"(805 MB, move \d+): ([\d.]+) s, transfer ([\d.]+) s", result.stdout)
    lines += [
        "Both workers share the GPU, which takes turns between their processes: no figure here "
        "says how fast NCCL is.",
        "",
        "| rows ↔ columns; first in the GPU's own memory, then in pinned host memory | seconds, "
        "request to commit | of these transfer |",
        "|---|---:|---:|",
        *(f"| {' | '.join(move)} |" for move in moves),
        "",
    ]
    return passed


def _links(options, lines):
    result = _run(
        [sys.executable, HERE.parent / "end_to_end" / "links_test.py", "-v"],
        120,
        REMESH_BIN_DIR=str(options.bin_dir.resolve()),
        REMESH_TEST_DEVICE="mixed_cuda",
    )
    return _section(
        lines,
        "One move by NCCL and by TCP",
        result,
        f"{result.stdout.count('... ok')} tests of tests/end_to_end/links_test.py, of two hosts "
        "that share the GPU and one without: every element, and the bytes by each link.",
    )


def _rates(options, lines):
    # A single run of the copy came out up to a fifth too slow, which would flatter the shares.
    copied, copies = _benchmark(options, "PlainCopy", "--benchmark_repetitions=5")
    rows = "|".join(sorted({str(row) for _, row, _ in SHARES}))
    result, runs = _benchmark(options, f"(Pack|Unpack)/({rows})")
    if not copies or not runs:
        failed = subprocess.CompletedProcess([], 1, stdout=copied.stdout + result.stdout)
        return _section(lines, "Rates in the GPU's memory", failed, "no figures")
    copy = max(rate for _, rate in copies)
    rates = dict(runs)
    _section(
        lines,
        "Rates in the GPU's memory",
        result,
        "bytes packed or unpacked a second, with their digests, over a second each; "
        f"a plain copy in the device's memory, the best of {len(copies)}: {copy / 1e9:.0f} GB/s.",
    )
    lines += [
        "| work | bytes of a row | GB/s | share of the plain copy | wanted |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {work} | {row} | {rates[f'{work}/{row}'] / 1e9:.0f} | "
            f"{rates[f'{work}/{row}'] / copy:.2f} | {wanted} |"
            for work, row, wanted in SHARES
        ),
        "",
    ]
    return result.returncode == 0


def _benchmark(options, names, *flags):
    """Runs the benchmarks of the GPU with these names. Returns the process and the pairs (name,
    bytes per second) of the runs."""
    result = _run(
        [
            options.benchmark_dir / "device_benchmark",
            f"--benchmark_filter=^cuda/{names}/",
            "--benchmark_min_time=1",
            "--benchmark_format=json",
            *flags,
        ],
        240,
    )
    try:
        runs = json.loads(result.stdout[result.stdout.index("{") :])["benchmarks"]
    except (ValueError, KeyError):
        return result, []
    return result, [
        (run["name"].split("/real_time")[0].removeprefix("cuda/"), run["bytes_per_second"])
        for run in runs
        if run["run_type"] == "iteration"
    ]


if __name__ == "__main__":
    sys.exit(main())
