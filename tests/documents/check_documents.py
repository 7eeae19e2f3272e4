#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the documents to the code: what they name must exist.

Usage: check_documents.py REPOSITORY_ROOT. In every Markdown file, between backticks: paths of the
repository, tests as Suite.Name and calls as Service.Method; in sequence diagrams, the messages that
go over the wire. Prints what is missing and exits 1 if anything is.
"""

import pathlib
import re
import subprocess
import sys

CODE = re.compile(r"`([^`\n]+)`")
TEST = re.compile(r"[A-Z]\w+\.[A-Z]\w+")
PATH = re.compile(
    r"(?:[\w.-]+/)+[\w.-]*\w\.(?:h|cc|cu|proto|py|md|txt|yaml|json|sh|tpl)|(?:[\w.-]+/)*[\w.-]+/"
)
TOP = re.compile(
    r"^(?:base|client|docs|helm|planner|proto|scripts|server|service|tests|worker|packaging|cmake)/"
)
DIAGRAM = re.compile(r"```mermaid\n(.*?)```", re.S)
# "A->>S: Prepare{...}" or "A-->>S: Prepare": the first word of a line's text, if it is a name of
# our own.
ARROW = re.compile(r"^\s*\w+--?>>\w+: ([A-Z]\w+)(?=[,{\s]|$)", re.M)
# Answers, and what goes by other ways than a message of ours.
NOT_MESSAGES = {"SUCCEEDED", "FAILED"}
# Calls stand for their requests.
MESSAGE = re.compile(r"^(?:message|  rpc) (\w+)", re.M)
SERVICE = re.compile(r"^service (\w+) \{(.*?)^\}", re.M | re.S)
TEST_DEFINITION = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.M)


def tracked(root: pathlib.Path) -> list[pathlib.Path]:
    names = subprocess.run(
        ["git", "-C", str(root), "ls-files"], check=True, capture_output=True, text=True
    ).stdout.split("\n")
    return [root / name for name in names if name]


def missing(root: pathlib.Path):
    files = tracked(root)
    texts = {
        path: path.read_text(errors="replace")
        for path in files
        if path.suffix in (".cc", ".proto", ".md") and path.exists()
    }
    tests = {
        f"{suite}.{name}"
        for path, text in texts.items()
        if path.suffix == ".cc"
        for suite, name in TEST_DEFINITION.findall(text)
    }
    calls = {
        f"{service}.{method}"
        for path, text in texts.items()
        if path.suffix == ".proto"
        for service, body in SERVICE.findall(text)
        for method in MESSAGE.findall(body)
    }
    messages = {
        name
        for path, text in texts.items()
        if path.suffix == ".proto"
        for name in MESSAGE.findall(text)
    }
    for path, text in sorted(texts.items()):
        if path.suffix != ".md":
            continue
        where = path.relative_to(root)
        for name in CODE.findall(text):
            if TEST.fullmatch(name) and name not in tests | calls:
                yield f"{where}: there is neither test nor call {name}"
            if PATH.fullmatch(name) and TOP.match(name) and not (root / name).exists():
                yield f"{where}: there is no {name}"
        for diagram in DIAGRAM.findall(text):
            for name in ARROW.findall(diagram):
                if name not in messages | NOT_MESSAGES:
                    yield f"{where}: no proto has the message {name}"


def main() -> int:
    found = list(missing(pathlib.Path(sys.argv[1]).resolve()))
    print("\n".join(found) or "everything that the documents name exists")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
