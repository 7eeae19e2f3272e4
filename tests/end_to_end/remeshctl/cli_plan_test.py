# SPDX-License-Identifier: Apache-2.0
"""remeshctl plan: in its own process and on a live server; what is wrong with a spec."""

import json
import os
import subprocess
import unittest

from google.protobuf import json_format

from remesh.v1 import plan_pb2

from commands import CommandCase
from harness import BIN_DIR, sanitized

EXAMPLE = {
    "topology": {
        "hosts": [
            {
                "name": name,
                "device_ids": ids,
                "nics": 1,
                "nic_bytes_per_second": 1e9,
                "fabric_bytes_per_second": 1e11,
            }
            for name, ids in (("a", [0, 1]), ("b", [2, 3]))
        ]
    },
    "device_lists": {"all": {"range": {"start": 0, "count": 4}}},
    "shardings": {
        "rows": {"hlo_text": "{devices=[4,1]<=[4]}", "devices": {"ref": "all"}},
        "cols": {"hlo_text": "{devices=[1,4]<=[4]}", "devices": {"ref": "all"}},
    },
    "arrays": [
        {
            "name": "w",
            "shape": [8, 8],
            "element_type": "bf16",
            "source": {"ref": "rows"},
            "target": {"ref": "cols"},
        }
    ],
    "options": {"window_bytes": 268435456},
}


class PlanCommandTest(CommandCase):
    def test_plans_in_process_and_on_the_server_agree(self):
        spec = json.dumps(EXAMPLE)
        here = json.loads(self.ctl("plan", "-f", "-", "-o", "json", "--here", stdin=spec))
        there = json.loads(
            self.ctl(
                "plan", "-f", "-", "-o", "json", "--server", self.cluster.server_address, stdin=spec
            )
        )
        for key in ("fingerprint", "summary", "name"):
            self.assertEqual(here["plan"][key], there["plan"][key], key)
        self.assertEqual(there["planning"]["cache"], "MISS")
        again = json.loads(self.ctl("plan", "-f", "-", "-o", "json", stdin=spec))  # $REMESH_SERVER
        self.assertEqual(again["planning"]["cache"], "HIT")

    def test_full_plans_in_process_and_on_the_server_agree(self):
        """Both stream; what comes is the message that a unary answer would be."""
        spec = json.dumps(EXAMPLE).replace("[8, 8]", "[16, 24]")
        here, there = (
            json.loads(
                self.ctl("plan", "-f", "-", "-o", "json", "--view", "full", *words, stdin=spec)
            )["plan"]
            for words in (("--here",), ())
        )
        self.assertEqual(here["transfers"], there["transfers"])
        self.assertEqual(json_format.ParseDict(there, plan_pb2.Plan()).name, there["name"])
        self.assertEqual(
            self.json("plans", "get", there["name"], "--full")["transfers"], there["transfers"]
        )
        table = self.ctl("plans", "get", there["name"], "--view", "full").splitlines()
        self.assertEqual(len(table), 1 + len(there["transfers"]))
        bare = there["name"].removeprefix("plans/")
        self.assertEqual(self.json("plans", "get", bare)["name"], there["name"])

    @unittest.skipIf(sanitized(), "a sanitizer owns the heap")
    def test_a_full_plan_is_written_as_it_is_made(self):
        """Its text is larger than the memory that the program may take."""
        devices, most = 64, 300 << 20
        spec = {
            **EXAMPLE,
            "device_lists": {"all": {"range": {"start": 0, "count": devices}}},
            "topology": {
                "hosts": [
                    {
                        "name": f"h{i}",
                        "preset": "hgx-h100",
                        "device_ids": list(range(8 * i, 8 * i + 8)),
                    }
                    for i in range(devices // 8)
                ]
            },
            "shardings": {
                name: {"hlo_text": f"{{devices=[{tiles}]<=[{devices}]}}", "devices": {"ref": "all"}}
                for name, tiles in (("rows", f"{devices},1"), ("cols", f"1,{devices}"))
            },
            "arrays": [
                {**EXAMPLE["arrays"][0], "name": f"w{i}", "shape": [devices, devices]}
                for i in range(1000)
            ],
        }
        file = self.folder / "large.json"
        file.write_text(json.dumps(spec))
        with subprocess.Popen(
            [BIN_DIR / "remeshctl", "plan", "--here", "-f", file, "--view", "full", "-o", "json"],
            stdout=subprocess.PIPE,
        ) as process:
            self.addCleanup(process.kill)
            written = sum(len(piece) for piece in iter(lambda: process.stdout.read(1 << 20), b""))
            _, process.returncode, used = os.wait4(process.pid, 0)
        self.assertEqual(process.returncode, 0)
        self.assertGreater(written, most)
        self.assertLess(used.ru_maxrss << 10, most)

    def test_bad_specs_name_the_field(self):
        """Each kind of bad text, in process and on its way to the server."""
        good = json.dumps(EXAMPLE)
        bomb = "\n".join(
            ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
            + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
        )
        deep = "arrays: " + "[" * 5000 + "]" * 5000
        for text, fragment in (
            ("{", "stdin:1:"),
            ("arrays: [}", "stdin:1:"),
            ('{"nonsense": 1}', "nonsense"),
            (good.replace('"nics"', '"nicks"'), "nicks"),
            (good.replace("1000000000.0", '"NaN"', 1), "nic_bytes_per_second"),
            (good.replace('"bf16"', '"bf17"'), "bf17"),
            (good.replace("[8, 8]", '[8, "x"]'), "x"),
            ("arrays: []\narrays: []", "arrays"),
            (bomb, ""),
            (deep, ""),
            ("a: &a [*a]", ""),
            ("", ""),
        ):
            for words in (
                ("plan", "-f", "-"),
                ("plan", "-f", "-", "--server", self.cluster.server_address),
            ):
                self.assertEqual(self.ctl(*words, code=1, stdin=text), "")
                self.assertIn("reason: ", self.last_stderr)
                self.assertIn(fragment.lower(), self.last_stderr.lower(), text[:80])
                self.assertLess(len(self.last_stderr), 4096)

    def test_the_mistakes_that_the_server_finds_have_their_lines(self):
        spec = {
            **EXAMPLE,
            "arrays": [
                {**EXAMPLE["arrays"][0], "name": name, "element_type": kind}
                for name, kind in (("a", "bf16"), ("b", "bf17"))
            ],
        }
        text = json.dumps(spec, indent=1)
        line = [
            number
            for number, content in enumerate(text.splitlines(), 1)
            if '"element_type"' in content
        ]
        self.ctl("plan", "-f", "-", "--server", self.cluster.server_address, code=1, stdin=text)
        self.assertTrue(
            self.last_stderr.startswith(
                f'remeshctl: stdin:{line[1]}: spec.arrays[1].element_type: value "bf17"'
            ),
            self.last_stderr,
        )


if __name__ == "__main__":
    unittest.main()
