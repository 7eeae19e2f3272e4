# SPDX-License-Identifier: Apache-2.0
"""Wrong commands of remeshctl and what it says: tests/data/wrong_commands.txt, compared exactly.

REMESH_WRITE=1 writes what it says now into the file: read every message that changed as a user who
has nothing but it.
"""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from remesh.v1 import sharding_pb2

from harness import BIN_DIR, Array, ClusterTest

FILE = pathlib.Path(__file__).resolve().parents[2] / "data" / "wrong_commands.txt"
PARAMS, BUILDING = "jobs/llama/states/params", "jobs/llama/states/ema"
MOVE = """\
topology: {hosts: [
  {name: a, device_ids: [0, 1], nics: 1, nic_bytes_per_second: 1e9, fabric_bytes_per_second: 1e11},
  {name: b, device_ids: [2, 3], nics: 1, nic_bytes_per_second: 1e9, fabric_bytes_per_second: 1e11}]}
shardings:
  rows: {hlo_text: "{devices=[4,1]<=[4]}", devices: {range: {start: 0, count: 4}}}
  cols: {hlo_text: "{devices=[1,4]<=[4]}", devices: {range: {start: 0, count: 4}}}
arrays:
- {name: w, shape: [8, 8], element_type: bf16, source: {ref: rows}, target: {ref: cols}}
"""
TARGETS = """\
shardings: {cols: {hlo_text: "{devices=[1,4]<=[4]}", devices: {range: {start: 0, count: 4}}}}
arrays: [{name: w, sharding: {ref: cols}}]
"""
STATE = """\
name: jobs/llama/states/new
spec:
  shardings: {rows: {hlo_text: "{devices=[4,1]<=[4]}", devices: {range: {start: 0, count: 4}}}}
  arrays: [{name: w, shape: [8, 8], element_type: f32, sharding: {ref: rows}}]
"""


def cases(text: str) -> list:
    """(command, what it says, its exit code) for each case of the file: "$ command", lines,
    "[code]"."""
    found = re.findall(r"(?ms)^\$ (.*?)$\n(.*?)^\[(\d+)\]$", text)
    assert len(found) == len(re.findall(r"(?m)^\$ ", text)), "a case lacks its [code]"
    return [(command, said, int(code)) for command, said, code in found]


class WrongCommandsTest(ClusterTest):
    HOSTS, DEVICES_PER_HOST, BUFFER_BYTES = 2, 2, 4 << 20

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="remesh-wrong-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        files = {
            "move.yaml": MOVE,
            "targets.yaml": TARGETS,
            "state.yaml": STATE,
            "typo.yaml": TARGETS.replace("name: w,", "name: v,"),
            "notyaml.yaml": "arrays: [\n",
            "there.plan": "x",
        }
        for name, text in files.items():
            (cls.folder / name).write_text(text)
        (cls.folder / "in").mkdir()
        (cls.folder / "config.yaml").write_text(
            f'contexts:\n  prod: {{server: "{cls.cluster.server_address}"}}\n'
        )

    def setUp(self):
        rows = sharding_pb2.Sharding(
            hlo_text="{devices=[4,1]<=[4]}",
            devices=sharding_pb2.DeviceList(range=sharding_pb2.DeviceList.Range(start=0, count=4)),
        )
        self.create_and_write(PARAMS, [Array("w", "f32", (8, 8))], rows)
        self.controller.create_state(self.state_of(BUILDING, [Array("w", "f32", (8, 8))], rows))

    def said(self, command: str) -> tuple:
        environment = {
            "HOME": str(self.folder),
            "TERM": "dumb",
            "REMESH_SERVER": self.cluster.server_address,
            "REMESH_CONFIG": "config.yaml",
            "REMESH_SOCKET": self.cluster.worker_socket("host-0"),
            "PATH": f"{BIN_DIR.resolve()}:{os.environ['PATH']}",
        }
        result = subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return self.plain(result.stdout + result.stderr), result.returncode

    def plain(self, text: str) -> str:
        """Without what differs from run to run."""
        for value, name in (
            (self.cluster.server_address, "SERVER"),
            (self.cluster.worker_socket("host-0"), "SOCKET"),
            (str(self.folder), "FOLDER"),
        ):
            text = text.replace(value, name)
        return text

    def test_each_says_what_to_do(self):
        text = FILE.read_text()
        wrong = cases(text)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            now = list(pool.map(self.said, [command for command, _, _ in wrong]))
        if os.environ.get("REMESH_WRITE"):
            blocks = iter(
                f"$ {command}\n{said}[{code}]" for (command, _, _), (said, code) in zip(wrong, now)
            )
            FILE.write_text(re.sub(r"(?ms)^\$ .*?^\[\d+\]$", lambda _: next(blocks), text))
        self.assertGreaterEqual(len(wrong), 110)
        self.assertEqual(
            len({command for command, _, _ in wrong}),
            len(wrong),
            "a command is there more than once",
        )
        for (command, said, code), (said_now, code_now) in zip(wrong, now):
            with self.subTest(command):
                self.assertEqual((said_now, code_now), (said, code))
                self.assertNotEqual(code_now, 0, "it is not wrong")


if __name__ == "__main__":
    unittest.main()
