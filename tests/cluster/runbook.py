# SPDX-License-Identifier: Apache-2.0
"""A page of docs/runbooks, followed as it is written: its own commands are typed, with its words in
capitals replaced."""

import os
import pathlib
import re
import stat

from machine import run

PAGES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "runbooks"
_KUBECTL = """#!/bin/sh
exec {kubectl} --kubeconfig={kubeconfig} "$@"
"""
# Where docs/runbooks/README.md says that remeshctl is called.
_REMESHCTL = """#!/bin/sh
exec {kubectl} --kubeconfig={kubeconfig} -n remesh exec -i remesh-server-0 -- \\
  env REMESH_SERVER=localhost:7070 remeshctl "$@"
"""


class Runbook:
    def __init__(self, cluster, alert: str):
        self._text, self._name = (PAGES / f"{alert}.md").read_text(), alert
        self._tools = cluster.root / "operator"
        self._tools.mkdir(exist_ok=True)
        for name, script in (("kubectl", _KUBECTL), ("remeshctl", _REMESHCTL)):
            path = self._tools / name
            path.write_text(
                script.format(kubectl=cluster.programs / "kubectl", kubeconfig=cluster.kubeconfig)
            )
            path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def check(self, text: str = "", **words) -> str:
        """Every command of "Check", each of which must succeed. What they print."""
        block = re.search(r"^## Check\n```\n(.*?)^```$", self._text, re.MULTILINE | re.DOTALL)
        assert block, f"{self._name}: no commands under Check"
        return "".join(self.type(line, text, **words) for line in block[1].splitlines())

    def do(self, command: str, text: str = "", **words) -> str:
        """A command that stands on the page between backticks."""
        assert f"`{command}`" in self._text, f"{self._name} does not say: {command}"
        return self.type(command, text, **words)

    def says(self, words: str) -> None:
        assert words in self._text, f"{self._name} does not say: {words}"

    def type(self, line: str, text: str = "", **words) -> str:
        """Any command."""
        for word, value in words.items():
            line = re.sub(rf"\b{word}\b", value, line)
        done = run(
            "bash",
            "-o",
            "pipefail",
            "-ec",
            line,
            text=text,
            env={"PATH": f"{self._tools}:{os.environ['PATH']}"},
        )
        return done.stdout + done.stderr
