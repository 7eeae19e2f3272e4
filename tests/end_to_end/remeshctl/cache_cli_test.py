# SPDX-License-Identifier: Apache-2.0
"""remeshctl plans and cache against a live server: lists, pages, files, watches, plans made ahead,
restarts."""

import copy
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from commands import CommandCase
from harness import BIN_DIR


def spec(count=8, rows=24, hosts=6):
    """One array from rows to columns over the first `count` devices, two a host."""
    return {
        "topology": {
            "hosts": [
                {
                    "name": f"h{h}",
                    "device_ids": [2 * h, 2 * h + 1],
                    "nics": 1,
                    "nic_bytes_per_second": 1e9,
                    "fabric_bytes_per_second": 1e11,
                }
                for h in range(hosts)
            ]
        },
        "device_lists": {"data": {"range": {"start": 0, "count": count}}},
        "shardings": {
            "rows": {"hlo_text": f"{{devices=[{count},1]<=[{count}]}}", "devices": {"ref": "data"}},
            "cols": {"hlo_text": f"{{devices=[1,{count}]<=[{count}]}}", "devices": {"ref": "data"}},
        },
        "arrays": [
            {
                "name": "w",
                "shape": [rows, 120],
                "element_type": "f32",
                "source": {"ref": "cols"},
                "target": {"ref": "rows"},
            }
        ],
    }


class CacheCommandTest(CommandCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="remesh-cache-"))
        self.addCleanup(shutil.rmtree, self.folder)
        for plan in self.json("plans", "list", "--pinned")["plans"]:
            self.ctl("plans", "unpin", plan["name"])
        self.ctl("cache", "flush")

    def ctl(self, *words, code=0, stdin=None):
        result = self.run_remeshctl(*words, stdin=stdin)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout if code == 0 else result.stderr

    def plan(self, question):
        return self.json(
            "plan", "-f", "-", "--server", self.cluster.server_address, stdin=json.dumps(question)
        )

    def names(self, *flags):
        return [plan["name"] for plan in self.json("plans", "list", *flags)["plans"]]

    def test_lists_choose_and_sort(self):
        small, large = (self.plan(spec(count))["plan"]["name"] for count in (4, 8))
        self.plan(spec(4))
        self.plan(spec(4))
        self.assertEqual(self.names(), [large, small])
        self.assertEqual(self.names("--sort", "hits"), [small, large])
        self.assertEqual(self.names("--source-devices", "5..16"), [large])
        self.assertEqual(self.names("--target-hosts", "2"), [small])
        self.assertEqual(self.names("--hits-min", "2"), [small])
        self.assertEqual(self.names("--hits", "..1"), [large])
        self.assertEqual(self.names("--older", "1h"), [])
        self.assertEqual(self.names("--newer", "1h", "--tier", "memory"), [large, small])
        self.assertEqual(self.names("--tier", "disk"), [])
        self.assertEqual(self.names("--fingerprint", small[len("plans/") :][:12]), [small])
        self.ctl("plans", "pin", small)
        self.assertEqual(self.names("--pinned"), [small])
        self.assertEqual(self.names("--unpinned"), [large])
        self.assertIn(
            "--source-devices", self.ctl("plans", "list", "--source-devices", "9..3", code=2)
        )
        self.assertIn("--older", self.ctl("plans", "list", "--older", "soon", code=2))
        self.assertIn("--state: value", self.ctl("plans", "list", "--state", "nonsense", code=1))
        self.ctl("plans", "list", "--tier", "tape", code=2)
        header, first, _ = self.ctl("plans", "list").splitlines()
        self.assertTrue(header.startswith("NAME"))
        self.assertIn("8->8", first)

    def test_a_cached_plan_has_a_page_a_trace_and_an_explanation(self):
        name = self.plan(spec())["plan"]["name"]
        page, trace = self.folder / "plan.html", self.folder / "trace.json"
        self.ctl("plans", "get", name, "--html", str(page), "--trace", str(trace))
        self.assertIn("<html", page.read_text()[:2000].lower())
        self.assertIn("h0", page.read_text())
        self.assertTrue(json.loads(trace.read_text())["traceEvents"])
        explained = self.json("plans", "explain", name)
        self.assertEqual(explained["plan"]["name"], name)
        self.assertTrue(explained["explanation"]["strategies"])
        self.assertIn("What binds", self.ctl("plans", "explain", name))
        self.assertIn(
            "PLAN_NOT_FOUND", self.ctl("plans", "get", "plans/none", "--html", str(page), code=1)
        )

    def test_plans_travel_as_files(self):
        made = self.plan(spec())["plan"]
        file = self.folder / "x.plan"
        self.ctl("plans", "export", made["name"], str(file))
        self.ctl("cache", "flush")
        self.assertEqual(self.names(), [])
        imported = self.json("plans", "import", str(file))
        self.assertEqual(imported["name"], made["name"])
        self.assertEqual(imported["summary"], made["summary"])
        self.assertEqual(self.plan(spec())["planning"]["cache"], "HIT")
        other = copy.deepcopy(spec())
        for host in other["topology"]["hosts"]:
            host["name"] = "other-" + host["name"]
        (self.folder / "other.json").write_text(json.dumps(other))
        self.ctl("plans", "import", str(file), "-f", str(self.folder / "other.json"))
        self.assertEqual(self.plan(other)["planning"]["cache"], "HIT")
        damaged = bytearray(file.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        file.write_bytes(damaged)
        self.assertIn("PLAN_FILE_INVALID", self.ctl("plans", "import", str(file), code=1))

    def test_a_whole_cache_travels_as_a_folder(self):
        for rows in (8, 16, 24):
            self.plan(spec(rows=rows))
        names = self.names()
        self.ctl("cache", "export", str(self.folder))
        self.assertEqual(
            sorted(f"plans/{path.stem}" for path in self.folder.glob("*.plan")), sorted(names)
        )
        self.ctl("cache", "flush")
        before = int(self.json("cache", "stats")["computations"])
        self.assertEqual(len(self.json("cache", "import", str(self.folder))["plans"]), 3)
        self.assertEqual(sorted(self.names()), sorted(names))
        for rows in (8, 16, 24):
            self.assertEqual(self.plan(spec(rows=rows))["planning"]["cache"], "HIT")
        self.assertEqual(int(self.json("cache", "stats")["computations"]), before)

    def test_watches_print_a_line_a_change(self):
        name = self.plan(spec())["plan"]["name"]
        with subprocess.Popen(
            [BIN_DIR / "remeshctl", "plans", "watch", "--interval", "0.1"],
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment(),
        ) as watch:
            try:
                self.assertEqual(watch.stdout.readline(), f"EXISTING {name}\n")
                self.ctl("plans", "pin", name)
                self.assertEqual(watch.stdout.readline(), f"CHANGED {name}: pinned no -> yes\n")
                self.ctl("plans", "unpin", name)
                self.assertEqual(watch.stdout.readline(), f"CHANGED {name}: pinned yes -> no\n")
                self.ctl("cache", "flush", "--tier", "memory")
                self.assertEqual(watch.stdout.readline(), f"CHANGED {name}: tier memory -> disk\n")
            finally:
                watch.kill()

    def test_what_may_happen_next_is_planned_ahead(self):
        before = int(self.json("cache", "stats")["computations"])
        words = (
            "plans",
            "precompute",
            "-f",
            "-",
            "--elastic",
            "data",
            "--axis",
            "0",
            "--drain-one",
            "--plus-minus",
            "2",
        )
        ahead = self.json(*words, stdin=json.dumps(spec()))["scenarios"]
        self.assertEqual(
            [s["event"] for s in ahead], ["DRAIN"] * 4 + ["SHRINK", "SHRINK", "GROW", "GROW"]
        )
        self.wait_until(
            "all is planned", lambda: self.json("cache", "stats")["precompute"]["waiting"] == "0"
        )
        computed = int(self.json("cache", "stats")["computations"])
        self.assertGreater(computed, before)
        left = spec()
        left["device_lists"] = {
            "before": {"range": {"start": 0, "count": 8}},
            "after": {"ids": [0, 1, 4, 5, 6, 7]},
        }
        left["shardings"] = {
            "before": {"hlo_text": "{devices=[8,1]<=[8]}", "devices": {"ref": "before"}},
            "after": {"hlo_text": "{devices=[6,1]<=[6]}", "devices": {"ref": "after"}},
        }
        left["arrays"][0].update(source={"ref": "before"}, target={"ref": "after"})
        answer = self.plan(left)
        self.assertEqual(answer["planning"]["cache"], "HIT")
        self.assertEqual(answer["plan"]["name"], ahead[1]["plan"])
        self.assertEqual(int(self.json("cache", "stats")["computations"]), computed)
        again = self.json(*words, stdin=json.dumps(spec()))["scenarios"]
        self.assertEqual({s["outcome"] for s in again} - {"CACHED", "SHARED"}, set())
        self.assertIn(
            "elastic_list",
            self.ctl(
                "plans",
                "precompute",
                "-f",
                "-",
                "--elastic",
                "none",
                "--lose-one",
                code=1,
                stdin=json.dumps(spec()),
            ),
        )
        self.ctl("plans", "precompute", "--lose-one", code=2)

    def test_names_and_pins_survive_the_server(self):
        pinned, other = (self.plan(spec(rows=rows))["plan"]["name"] for rows in (8, 16))
        self.ctl("plans", "pin", pinned)
        # Pins are on disk when they are answered, names soon after.
        self.wait_until(
            "both names are on disk", lambda: self.json("cache", "stats")["disk"]["entries"] == "2"
        )
        self.cluster.kill_server()
        self.cluster.start_server()
        self.wait_until("the server is there", self._answers)
        self.assertEqual(sorted(self.names()), sorted([pinned, other]))
        self.assertEqual(self.names("--tier", "disk"), [other])
        self.assertEqual(self.names("--pinned"), [pinned])
        self.assertEqual(self.json("plans", "get", other)["name"], other)
        stats = self.json("cache", "stats")
        self.assertEqual(stats["computations"], "0")
        self.assertEqual(stats["memory"]["pinned"], "1")
        self.assertIn("MEMORY", self.ctl("cache", "stats"))

    def _answers(self):
        result = subprocess.run(
            [BIN_DIR / "remeshctl", "plans", "list"],
            capture_output=True,
            timeout=60,
            check=False,
            env=self.environment(),
        )
        return result.returncode == 0


if __name__ == "__main__":
    unittest.main()
