#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the wheel, without a network: make_wheel.py PROJECT ROOT DIST FILES.

PROJECT: the folder with pyproject.toml and README.md. ROOT: holds the modules, written by hand or
generated. FILES: a file that names those that belong into the wheel, one a line, relative to ROOT.
DIST: the wheel goes there, and takes the place of an older one.
"""

import contextlib
import os
import pathlib
import shutil
import sys
import tempfile
import warnings

from setuptools import build_meta


def main(
    project: pathlib.Path, root: pathlib.Path, dist: pathlib.Path, files: pathlib.Path
) -> None:
    with tempfile.TemporaryDirectory(prefix="remesh-wheel-") as folder:
        stage = pathlib.Path(folder)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(project / name, stage)
        for line in files.read_text().split():
            (stage / line).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / line, stage / line)
        name = build(stage)
        dist.mkdir(parents=True, exist_ok=True)
        for older in dist.glob("remesh-*.whl"):
            older.unlink()
        shutil.copy(stage / "dist" / name, dist)


def build(stage: pathlib.Path) -> str:
    """The name of the wheel, which is in stage/dist. What setuptools prints goes to a file, and to
    stderr if it fails."""
    os.chdir(stage)
    with open(stage / "log", "w", encoding="utf-8") as log:
        with contextlib.redirect_stdout(log), contextlib.redirect_stderr(
            log
        ), warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # of settings in pyproject.toml that setuptools calls new
            try:
                return build_meta.build_wheel("dist")
            except BaseException:
                log.flush()
                sys.__stderr__.write((stage / "log").read_text())
                raise


if __name__ == "__main__":
    main(*map(lambda argument: pathlib.Path(argument).resolve(), sys.argv[1:]))
