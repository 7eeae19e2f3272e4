#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""remeshctl plan --explain, --trace, --html, --pathways and remeshctl suggest, in process."""

import base64
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

REMESHCTL = pathlib.Path(os.environ.get("REMESH_BIN_DIR", "build/release/bin")) / "remeshctl"
TOPOLOGY = {
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
}


def spec() -> dict:
    def tiles(text):
        return {"hlo_text": text, "devices": {"range": {"start": 0, "count": 4}}}

    return {
        "topology": TOPOLOGY,
        "arrays": [
            {
                "name": "w",
                "shape": [8, 8],
                "element_type": "bf16",
                "source": tiles("{devices=[4,1]<=[4]}"),
                "target": tiles("{devices=[1,4]<=[4]}"),
            }
        ],
    }


def op_sharding(*dims: int) -> str:
    """Base64 of an OpSharding of type OTHER: `dims` tiles over iota(4)."""
    return base64.b64encode(bytes([8, 3, 0x1A, len(dims), *dims, 0x4A, 1, 4, 0x52, 1, 0])).decode()


class CliTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name: str, content) -> pathlib.Path:
        path = self.folder / name
        path.write_text(json.dumps(content))
        return path

    def remeshctl(self, *arguments, code: int = 0) -> str:
        done = subprocess.run([REMESHCTL, *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def test_explain_as_json(self):
        answer = json.loads(
            self.remeshctl("plan", "-f", self.file("s", spec()), "--explain", "-o", "json")
        )
        self.assertEqual(answer["plan"]["summary"]["crossingBytes"], "64")
        explanation = answer["explanation"]
        self.assertEqual(
            [row["name"] for row in explanation["strategies"]],
            ["this plan", "P2P per replica", "gather + broadcast", "checkpoint round trip"],
        )
        self.assertEqual(
            {row["name"]: row["ingressBytes"] for row in explanation["domains"]},
            {"a": "32", "b": "32"},
        )

    def test_explain_as_tables(self):
        text = self.remeshctl(
            "plan", "-f", self.file("s", spec()), "--explain", "--checkpoint-rate", "1e9"
        )
        self.assertIn("must receive 32 B that none of its devices holds", text)
        self.assertRegex(text, r"checkpoint round trip +256 B +128 B +128 ns +4\.00 x")
        self.assertRegex(text, r"(?m)^a +32 B .* binds$")
        self.assertRegex(text, r"(?m)^hosts +2 +64 B +a +32 B in +1\.00 GB/s +32 ns +binds$")
        self.assertIn("gather + broadcast: one device gathers everything", text)

    def test_a_narrow_rack_binds_by_name(self):
        question = spec()
        question["topology"] = {
            "hosts": [dict(host, parent=f"rack-{host['name']}") for host in TOPOLOGY["hosts"]],
            "domains": [
                {
                    "name": f"rack-{name}",
                    "egress_bytes_per_second": rate,
                    "ingress_bytes_per_second": rate,
                }
                for name, rate in (("a", 1e8), ("b", 1e9))
            ],
        }
        text = self.remeshctl("plan", "-f", self.file("s", question), "--explain")
        self.assertRegex(
            text, r"lower bound +320 ns \(domain rack-a must receive 32 B .* at 100 MB/s, 320 ns\)"
        )
        self.assertRegex(
            text, r"(?m)^domains, level 0 +2 +64 B +rack-a +32 B in +100\.00 MB/s +320 ns +binds$"
        )
        self.assertRegex(text, r"(?m)^rack-a +32 B .* binds$")
        self.assertRegex(text, r"(?m)^rack-b +32 B +1\.00 GB/s +32 ns +32 B +1\.00 GB/s +32 ns *$")
        answer = json.loads(
            self.remeshctl("plan", "-f", self.file("s", question), "--explain", "-o", "json")
        )
        proof = answer["explanation"]["lowerBound"]
        self.assertEqual(
            (proof["domains"], proof["hosts"], proof["bytes"], proof["bytesPerSecond"]),
            (["rack-a"], [], "32", 100000000),
        )

    def test_presets(self):
        question = spec()
        del question["topology"]
        path = self.file("s", question)
        names = [
            p["name"]
            for p in json.loads(self.remeshctl("topology", "list", "-o", "json"))["presets"]
        ]
        self.assertIn("hgx-h100", names)
        self.assertIn("hgx-h100 ", self.remeshctl("topology", "list"))
        shown = self.folder / "t.yaml"
        shown.write_text(self.remeshctl("topology", "show", "p3.8xlarge", "--hosts", "1"))
        by_preset = json.loads(
            self.remeshctl("plan", "-f", path, "--preset", "p3.8xlarge", "-o", "json")
        )
        by_file = json.loads(self.remeshctl("plan", "-f", path, "--topology", shown, "-o", "json"))
        self.assertEqual(by_preset["plan"]["name"], by_file["plan"]["name"])
        self.assertEqual(by_preset["plan"]["summary"]["crossingBytes"], "0")
        crossing = json.loads(
            self.remeshctl("plan", "-f", path, "--preset", "loopback", "-o", "json")
        )
        self.assertEqual(crossing["plan"]["summary"]["crossingBytes"], "96")
        self.assertIn(
            "must be one of", self.remeshctl("plan", "-f", path, "--preset", "abacus", code=1)
        )
        self.assertIn("--preset", self.remeshctl("plan", "-f", path, code=1))
        self.assertIn(
            "racks", self.remeshctl("topology", "show", "loopback", "--racks", "2", code=1)
        )

    def test_trace_and_page(self):
        trace, page = self.folder / "trace.json", self.folder / "page.html"
        self.remeshctl("plan", "-f", self.file("s", spec()), "--trace", trace, "--html", page)
        events = json.loads(trace.read_text())["traceEvents"]
        self.assertEqual(
            {e["args"]["name"] for e in events if e["name"] == "process_name"}, {"plan", "a", "b"}
        )
        self.assertTrue(page.read_text().startswith("<!doctype html>"))

    def test_files_that_cannot_be_written_and_bad_usage(self):
        question = self.file("s", spec())
        self.assertIn(
            "FILE_NOT_WRITTEN",
            self.remeshctl("plan", "-f", question, "--html", "/nowhere/x", code=1),
        )
        self.remeshctl("plan", "-f", question, "--checkpoint-rate", "-1", code=2)
        self.remeshctl("plan", code=2)
        self.remeshctl("plan", "--pathways", question, code=2)

    def test_pathways_asks_the_same_question(self):
        def side(*dims):
            return [
                {"devices": {"device_ids": [0, 1, 2, 3]}, "xla_hlo_sharding": op_sharding(*dims)}
            ]

        request = {
            "reshardRequest": {
                "donateInput": False,
                "inSharding": side(4, 1),
                "outSharding": side(1, 4),
            }
        }
        arrays = [{"name": "w", "shape": [8, 8], "element_type": "bf16"}]
        flags = [
            "--arrays",
            self.file("a", arrays),
            "--topology",
            self.file("t", TOPOLOGY),
            "-o",
            "json",
        ]
        theirs = json.loads(self.remeshctl("plan", "--pathways", self.file("p", request), *flags))
        ours = json.loads(self.remeshctl("plan", "-f", self.file("s", spec()), "-o", "json"))
        self.assertEqual(theirs["plan"]["name"], ours["plan"]["name"])
        request["reshardRequest"]["inSharding"][0]["devices"]["device_ids"][2] = -1
        self.assertIn(
            "reshardRequest.inSharding[0].devices.device_ids[2]",
            self.remeshctl("plan", "--pathways", self.file("p", request), *flags, code=1),
        )
        request["reshardRequest"]["inSharding"] = [
            {"devices": {"device_ids": [0, 1]}, "xla_hlo_sharding": op_sharding(4, 1)}
        ]
        self.assertIn(
            "inSharding[0]].devices",
            self.remeshctl("plan", "--pathways", self.file("p", request), *flags, code=1),
        )
        self.assertIn(
            'reshardRequest: value "" is missing',
            self.remeshctl(
                "plan", "--pathways", self.file("p", request["reshardRequest"]), *flags, code=1
            ),
        )

    def test_suggest(self):
        def suggest(source, target, code=0):
            return self.remeshctl(
                "suggest", "--source", source, "--target", target, "-o", "json", code=code
            )

        answer = json.loads(suggest("{devices=[8,1]<=[8]}", "{devices=[1,4]<=[4]}"))
        self.assertEqual(
            answer["intermediate"]["hloText"], "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"
        )
        self.assertEqual(answer["replicas"], "2")
        self.assertIn(
            "NO_INTERMEDIATE_SHARDING_NEEDED",
            suggest("{devices=[8,1]<=[8]}", "{devices=[4,1]<=[4]}", code=1),
        )
        self.assertIn("source.hlo_text", suggest("{devices", "{replicated}", code=1))


if __name__ == "__main__":
    unittest.main()
