# SPDX-License-Identifier: Apache-2.0
"""The commands of remeshctl and remesh-server in README.md, docs/operations.md and docs/runbooks/,
run page by page against a cluster.

Placeholders (STATE, NAME, HOST ...) become names that exist. What needs a cluster in trouble must
be refused with the reason that a healthy one gives: HEALTHY says which. Commands of other programs
(kubectl, systemctl) are not run.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import numpy as np

from remesh.job.server_notice import ServerNotice
from remesh.server_group import ServerGroup
from remesh.world_place import Place

from harness import BIN_DIR, Array, ClusterTest, targets, text_sharding

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPERATIONS = ROOT / "docs" / "operations.md"
RUNBOOKS = ROOT / "docs" / "runbooks"
STATE, KEPT = "jobs/llama/states/params", "jobs/llama/states/kept"
ARRAYS = [Array("w", "f32", (8, 8))]
ROWS = text_sharding("{devices=[4,1]<=[4]}", 0, 1, 2, 3)
COLUMNS = text_sharding("{devices=[1,4]<=[4]}", 0, 1, 2, 3)
TARGETS = """\
shardings: {to: {hlo_text: '{replicated}', devices: 0-3}}
arrays: [{name: w, sharding: to}]
"""
# Reason of a refusal that is right, by command as the page has it.
HEALTHY = {
    "remeshctl workers discard HOST STATE UID --yes": "NOT_OWED",
    "remeshctl executions resolve NAME --keep-source": "NOT_COMMITTING",
}
ON_EVERY_HOST = ("seal", "unseal", "put")
# Only names of commands, without what they need.
NAMES_ALONE = {"remeshctl put", "remeshctl get", "remeshctl seal", "remeshctl unseal"}
BLOCK = re.compile(r"(?ms)^```(\w*)[^\n]*\n(.*?)^```")


def commands_of(page: pathlib.Path) -> list:
    """The lines of a page's blocks that run a program of ours, without comments, and the commands
    in its tables."""
    text = page.read_text()
    blocks = [block for language, block in BLOCK.findall(text) if not language]
    lines = [line for block in blocks for line in block.splitlines()]
    rows = re.findall(r"(?m)^\| (`[^|]*`) \|", text)
    lines += [code for row in rows for code in re.findall(r"`([^`]+)`", row)]
    plain = [re.sub(r" {2,}#.*", "", line).strip() for line in lines]
    ours = [line for line in plain if re.match(r"remeshctl |remesh-server --check", line)]
    return [line for line in ours if line not in NAMES_ALONE]


class ManualCommandsTest(ClusterTest):
    HOSTS = 2

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="remesh-manual-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        blocks = BLOCK.findall((ROOT / "README.md").read_text())
        specs = [block for language, block in blocks if language == "yaml" and "arrays:" in block]
        (cls.folder / "spec.yaml").write_text(specs[0])
        (cls.folder / "targets.yaml").write_text(TARGETS)
        (cls.folder / "files").mkdir()
        np.save(cls.folder / "files" / "w.npy", np.zeros(ARRAYS[0].shape, np.float32))
        cls.channel = cls.cluster.channel()
        cls.addClassCleanup(cls.channel.close)

    def setUp(self):
        """A job of one process, a state that has moved once, and one that stays."""
        self.join_world()
        self.create_and_write(KEPT, ARRAYS, ROWS)
        self.create_and_write(STATE, ARRAYS, ROWS)
        self.addCleanup(self.delete_states)
        moved = self.move(STATE, 1, targets(ARRAYS, COLUMNS))
        self.execution, self.plan = moved.name, moved.plan

    def join_world(self):
        """As a process that calls leaving(): it answers when it is asked to leave."""
        group = ServerGroup("jobs/llama/worlds/main", lambda: self.channel, Place(0, 1))
        self.addCleanup(group.close)
        notice = ServerNotice(group, listens=False)
        self.addCleanup(notice.close)
        notice.listen()

    def delete_states(self):
        for name in (STATE, KEPT):
            self.run_one(f"remeshctl states delete {name}")

    def run_one(self, command: str, host: str = "host-0") -> subprocess.CompletedProcess:
        environment = {
            "HOME": str(self.folder),
            "TERM": "dumb",
            "REMESH_SERVER": self.cluster.server_address,
            "REMESH_SOCKET": self.cluster.worker_socket(host),
            "PATH": f"{BIN_DIR.resolve()}:{os.environ['PATH']}",
        }
        return subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env=environment,
            input="y\n",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def name_in(self, command: str, page: str) -> str:
        """What NAME stands for."""
        if "States" in page or " states " in command:
            return STATE
        if "--elastic" in command:
            return "0"  # the index of the dimension
        return self.plan if " plans " in command else self.execution

    def filled(self, command: str, page: str) -> str:
        """With what exists in place of the placeholders."""
        values = {
            "STATE": STATE,
            "JOB": "llama",
            "WORLD": "main",
            "HOST": "host-1",
            "UID": "5f0c2a",
            "FOLDER": "files",
            "GENERATION": "2",
            "WRITE": "1",
            "SPEC": "spec.yaml",
            "TARGETS": "targets.yaml",
            "FILE": "exported.plan",
            "F": "report",
            "LIST": "all",
            "TEXT": "'{replicated}'",
            "NAME": self.name_in(command, page),
        }
        words = re.compile(r"(?<!%)\b(?:" + "|".join(values) + r")\b")
        filled = words.sub(lambda word: values[word[0]], command)
        return filled.replace("journal-2026-11-22.db", "journal-$(date +%F).db")

    def run_page(self, page: pathlib.Path):
        for command in commands_of(page):
            on_all = command.split()[1] in ON_EVERY_HOST
            for host in self.cluster.host_names if on_all else ["host-0"]:
                with self.subTest(page=page.name, command=command, host=host):
                    self.check(command, page.name, host)

    def check(self, command: str, page: str, host: str):
        filled = self.filled(command, page)
        result = self.run_one(filled, host)
        said = f"{filled}\n{result.stdout}{result.stderr}"
        if command in HEALTHY:
            self.assertIn(f"reason: {HEALTHY[command]}\n", result.stderr, said)
        else:
            self.assertEqual(result.returncode, 0, said)

    def test_readme(self):
        self.addCleanup(self.run_one, "remeshctl workers undrain host-1")
        self.run_page(ROOT / "README.md")

    def test_operations(self):
        self.run_page(OPERATIONS)

    def test_runbooks(self):
        # RemeshBytesOwed deletes the state and creates it again: after those that only look.
        pages = sorted(RUNBOOKS.glob("*.md"), key=lambda page: page.name == "RemeshBytesOwed.md")
        for page in pages:
            self.run_page(page)


class CommandsFoundTest(unittest.TestCase):
    """So that a change of the pages' form does not leave the test with nothing to run."""

    def test_so_many(self):
        readme, operations = (len(commands_of(ROOT / "README.md")), len(commands_of(OPERATIONS)))
        runbooks = sum(len(commands_of(page)) for page in RUNBOOKS.glob("*.md"))
        self.assertGreaterEqual(readme, 20)
        self.assertGreaterEqual(operations, 10)
        self.assertGreaterEqual(runbooks, 30)


if __name__ == "__main__":
    unittest.main()
