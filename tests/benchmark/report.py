# SPDX-License-Identifier: Apache-2.0
"""Builds and runs one suite, and puts its section into docs/benchmarks.md: see scripts/bench.

A suite is a module suite_NAME.py beside this file with
    TITLE    heading of its section
    TARGETS  what to build
    measure(build, arguments) -> list of Markdown lines; `build` is the folder of the release build
"""

import datetime
import importlib
import os
import pathlib
import platform
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
COLUMNS = 100
INTRODUCTION = """# Benchmarks

Written by `scripts/bench SUITE`, one section a suite; do not edit. Every section says where, when
and from what commit it comes, and what makes it again.
"""


def output_of(*command):
    return subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def cpu_model():
    found = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return found.group(1).strip() if found else platform.machine()


def memory_gib():
    kib = re.search(r"^MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text(), re.M).group(1)
    return round(int(kib) / 2**20)


def circumstances(suite):
    """What a reader needs to judge the numbers, or to get them again."""
    cores = output_of("nproc")
    compiler = output_of("g++", "--version").splitlines()[0]
    commit = output_of("git", "rev-parse", "--short", "HEAD")
    if output_of("git", "status", "--porcelain", "--", ".", ":!docs"):
        commit += " with changes"
    today = datetime.datetime.now(datetime.timezone.utc).date()
    load = os.getloadavg()[1]
    return (
        f"*{cpu_model()}, {cores} cores (load {load:.1f} while measuring), {memory_gib()} GiB, "
        f"{platform.system()} {platform.machine()}; {compiler}, release preset; commit {commit}; "
        f"{today}. Again: `scripts/bench {suite}`.*"
    )


def wrapped(lines):
    """The lines, of which those of prose have at most COLUMNS columns."""
    wrap = textwrap.TextWrapper(COLUMNS, break_long_words=False, break_on_hyphens=False)
    for line in "\n".join(lines).split("\n"):
        yield from [line] if line.startswith("|") or len(line) <= COLUMNS else wrap.wrap(line)


def with_section(page, suite, lines):
    """`page` with the section of `suite` replaced, or added at the end."""
    begin, end = f"<!-- begin {suite} -->", f"<!-- end {suite} -->"
    section = "\n".join([begin, *lines, end])
    if begin in page:
        head, rest = page.split(begin, 1)
        return head + section + rest.split(end, 1)[1]
    return page.rstrip("\n") + "\n\n" + section + "\n"


def table(header, rows):
    """Lines of a Markdown table; cells are text, columns after the first stand right."""
    lines = [
        "| " + " | ".join(header) + " |",
        "|" + "|".join(["---"] + ["---:"] * (len(header) - 1)) + "|",
    ]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def main():
    name, arguments = sys.argv[1], sys.argv[2:]
    suite = importlib.import_module(f"suite_{name}")
    subprocess.run([ROOT / "scripts" / "build", "release", *suite.TARGETS], check=True)
    measured = suite.measure(ROOT / "build" / "release", arguments)
    lines = wrapped([f"## {suite.TITLE}", "", circumstances(name), "", *measured])
    page = PAGE.read_text() if PAGE.exists() else INTRODUCTION
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(with_section(page, name, lines))
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
