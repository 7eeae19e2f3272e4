# SPDX-License-Identifier: Apache-2.0
"""What tests of the installed package share: where the wheels are, and processes that end with the
test."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import unittest
from typing import Dict, Iterator, List, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN_DIR = pathlib.Path(os.environ.get("REMESH_BIN_DIR", ROOT / "build" / "release" / "bin"))
DIST = BIN_DIR.parent / "dist"
MODULES = BIN_DIR.parent / "python"
WHEELS = ROOT / "build" / "wheels"
VENV = ROOT / "build" / "venv"
SKIP = 77


def run(*argv, timeout: float = 240, **environment: str) -> str:
    """What a program prints; AssertionError with all of it if it fails."""
    env = {**os.environ, "REMESH_BIN_DIR": str(BIN_DIR), **environment}
    done = subprocess.run(
        [str(arg) for arg in argv],
        env=env,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(
            f"{' '.join(map(str, argv))}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return done.stdout


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """A port for a coordinator that must be named before it listens. It is ours all the time: this
    socket holds it, never listens, and admits others only by SO_REUSEPORT, which gRPC sets."""
    with socket.socket(socket.AF_INET6) as holder:
        holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("::", 0))
        yield holder.getsockname()[1]


def run_processes(
    program: pathlib.Path,
    count: int,
    arguments: Sequence[str],
    timeout: float = 200,
    **environment: str,
) -> List[Dict]:
    """Runs `program RANK COUNT PORT ARGUMENTS...` by build/venv's Python, `count` times at once.
    Returns code, out and err of each."""
    env = {
        **os.environ,
        "PYTHONPATH": str(MODULES),
        "JAX_PLATFORMS": "cpu",
        "REMESH_BIN_DIR": str(BIN_DIR),
        **environment,
    }
    started = []
    try:
        with reserved_port() as port:
            for rank in range(count):
                argv = [
                    str(VENV / "bin" / "python"),
                    str(program),
                    str(rank),
                    str(count),
                    str(port),
                    *arguments,
                ]
                started.append(
                    subprocess.Popen(
                        argv, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
                    )
                )
            outputs = [process.communicate(timeout=timeout) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    return [
        {"code": process.returncode, "out": out, "err": err}
        for process, (out, err) in zip(started, outputs)
    ]


def main() -> None:
    """Runs the tests of the calling file; SKIP where scripts/python-environment found no
    registry."""
    if not (VENV / "pins.txt").exists():
        print("SKIP: build/venv is not there: run scripts/python-environment")
        sys.exit(SKIP)
    unittest.main()
