# SPDX-License-Identifier: Apache-2.0
"""What tests of the installed package share: where the wheels are, and processes that end with the test."""
import os
import pathlib
import socket
import subprocess
import sys
import unittest
from typing import Dict, List, Sequence

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
    done = subprocess.run([str(arg) for arg in argv], env=env, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, argv))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def free_port() -> int:
    """A port that was free a moment ago, for a coordinator that must be named before it listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def run_processes(program: pathlib.Path, count: int, arguments: Sequence[str], timeout: float = 200, **environment: str) -> List[Dict]:
    """Runs `program RANK COUNT PORT ARGUMENTS...` by build/venv's Python, `count` times at once. Returns code, out and err of each."""
    env = {**os.environ, "PYTHONPATH": str(MODULES), "JAX_PLATFORMS": "cpu", "REMESH_BIN_DIR": str(BIN_DIR), **environment}
    port = str(free_port())
    started = [subprocess.Popen([str(VENV / "bin" / "python"), str(program), str(rank), str(count), port, *arguments], env=env, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(count)]
    try:
        outputs = [process.communicate(timeout=timeout) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    return [{"code": process.returncode, "out": out, "err": err} for process, (out, err) in zip(started, outputs)]


def main() -> None:
    """Runs the tests of the calling file; SKIP where scripts/python-environment found no registry."""
    if not (VENV / "pins.txt").exists():
        print("SKIP: build/venv is not there: run scripts/python-environment")
        sys.exit(SKIP)
    unittest.main()
