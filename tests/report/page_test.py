#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Opens the page that `remeshctl plan --html` writes in headless Chromium and looks at what it
drew.

Exits 77 (skipped) without Chromium.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from browser import CHROMIUM, Browser

REMESHCTL = pathlib.Path(os.environ.get("REMESH_BIN_DIR", "build/release/bin")) / "remeshctl"
EVIL = "</script><img src=x onerror=\"document.title='broken'\">"


def spec(hosts: list[str], size: int = 64, window_bytes: int = 4096) -> dict:
    devices = 2 * len(hosts)
    return {
        "topology": {
            "hosts": [
                {
                    "name": name,
                    "device_ids": [2 * i, 2 * i + 1],
                    "nics": 1,
                    "nic_bytes_per_second": 1e9,
                    "fabric_bytes_per_second": 1e11,
                }
                for i, name in enumerate(hosts)
            ]
        },
        "device_lists": {"all": {"range": {"start": 0, "count": devices}}},
        "shardings": {
            "rows": {
                "hlo_text": "{devices=[%d,1]<=[%d]}" % (devices, devices),
                "devices": {"ref": "all"},
            },
            "columns": {
                "hlo_text": "{devices=[1,%d]<=[%d]}" % (devices, devices),
                "devices": {"ref": "all"},
            },
        },
        "arrays": [
            {
                "name": "w",
                "shape": [size, size],
                "element_type": "f32",
                "source": {"ref": "rows"},
                "target": {"ref": "columns"},
            }
        ],
        "options": {"window_bytes": window_bytes},
    }


def apart(givers: int, takers: int, columns: int = 2) -> dict:
    """Rows on the devices of some hosts become columns, and replicas of them, on other hosts."""
    question = spec([f"h{i}" for i in range(givers + takers)], size=1 << 12, window_bytes=1 << 20)
    question["device_lists"] = {
        "before": {"range": {"start": 0, "count": 2 * givers}},
        "after": {"range": {"start": 2 * givers, "count": 2 * takers}},
    }
    question["shardings"] = {
        "rows": {
            "hlo_text": "{devices=[%d,1]<=[%d]}" % (2 * givers, 2 * givers),
            "devices": {"ref": "before"},
        },
        "columns": {
            "hlo_text": "{devices=[1,%d,%d]<=[%d] last_tile_dim_replicate}"
            % (columns, 2 * takers // columns, 2 * takers),
            "devices": {"ref": "after"},
        },
    }
    return question


def contrast(a: str, b: str) -> float:
    """WCAG 2's ratio of two colours, #rrggbb."""

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = [
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts
        ]
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.browser.errors.clear()

    def tearDown(self):
        self.assertEqual(self.browser.errors, [])

    def write_page(self, question: dict, name: str = "-") -> pathlib.Path:
        path = self.folder / "plan.html"
        if name != "-":
            name = self.folder / name
            name.write_text(json.dumps(question))
        done = subprocess.run(
            [REMESHCTL, "plan", "-f", name, "-o", "json", "--html", path],
            check=True,
            timeout=60,
            input=json.dumps(question),
            text=True,
            stdout=subprocess.PIPE,
        )
        self.summary = json.loads(done.stdout)["plan"]["summary"]
        return path

    def open(self, question: dict, **how):
        self.browser.open(self.write_page(question), **how)
        self.assertEqual(self.browser.run("document.documentElement.dataset.ready"), "true")

    def texts(self, selector: str) -> list[str]:
        return self.browser.run(
            f"[...document.querySelectorAll({selector!r})].map(e => e.textContent)"
        )

    def texts_beyond_their_card(self) -> list[str]:
        return self.browser.run("""[...document.querySelectorAll('section *')]
            .filter(e => e.checkVisibility() && !e.closest('.hidden') &&
            e.getBoundingClientRect().right > e.closest('section').getBoundingClientRect().right)
            .map(e => e.outerHTML.slice(0, 80))""")

    def cells(self, kind: str) -> int:
        """How many cells of the heat map are drawn: runs of equal ones are one shape."""
        paths = self.browser.run(
            f"[...document.querySelectorAll('#cells path.{kind}')].map(p => p.getAttribute('d'))"
        )
        return sum(int(n) for path in paths for n in re.findall(r"h(\d+)v1", path))

    def test_everything_is_drawn(self):
        self.open(spec(["a", "b", "c", "d"]))
        self.assertEqual((self.cells("between"), self.cells("inside")), (12, 4))
        # 64 x 64 f32 over 8 devices: each host needs a quarter, of which it has a quarter.
        self.assertIn(
            "must receive 3.072 kB that none of its devices holds", self.browser.text("lower-bound")
        )
        for row in ("this plan", "P2P per replica", "gather + broadcast", "checkpoint round trip"):
            self.assertIn(row, self.browser.text("strategies"))
        self.assertRegex(
            self.browser.text("matrix-read"), r"Most: [abcd] sends 1\.024 kB to [abcd]"
        )
        self.assertIn("12.29 kB", self.browser.text("figures"))
        self.assertRegex(
            self.browser.text("domains"),
            r"4 hosts alike\s*a … d\s*3\.072 kB\s*3\.072 µs\s*binds\s*3\.072 kB\s*3\.072 "
            r"µs\s*binds\s*1 GB/s",
        )

    def test_messages_inside_hosts_do_not_cross_the_network(self):
        self.open(spec(["a"]))
        crossing = self.browser.run(
            "[...document.querySelectorAll('#figures div')].find(d => "
            "d.textContent.includes('Crosses')).textContent"
        )
        self.assertIn("0 B", crossing)
        self.assertNotIn("message", crossing)

    def test_names_of_hosts_and_files_stay_text(self):
        self.browser.open(self.write_page(spec([EVIL, "b"]), EVIL.replace("/", "_") + ".json"))
        self.assertEqual(self.browser.run("document.images.length"), 0)
        self.assertRegex(self.browser.run("document.title"), "remesh plan$")
        self.assertIn("onerror", self.browser.text("title"))
        self.assertIn(
            EVIL, self.browser.run("document.querySelector('#domains tbody th[title]').title")
        )

    def test_the_title_says_what_moves(self):
        self.open(apart(2, 8))
        self.assertEqual(self.browser.text("title"), "1 array, 67.11 MB: 4 → 16 devices")
        self.assertEqual(
            self.browser.text("scope"),
            "1 array of 67.11 MB, 536.9 MB with the replicas of the target, "
            "from 2 hosts to 8 other hosts.",
        )
        self.assertIn("4 → 16 devices", self.browser.run("document.title"))
        self.browser.open(self.write_page(apart(2, 8), "llama-405b.yaml"))
        self.assertEqual(self.browser.text("title"), "llama-405b: 4 → 16 devices")
        self.open(spec(["a", "b"]))
        self.assertEqual(self.browser.text("title"), "1 array, 16.38 kB: resharded over 4 devices")

    def test_the_title_is_there_without_scripts(self):
        page = self.write_page(apart(2, 8), "llama.yaml").read_text()
        self.assertIn("<title>llama: 4 → 16 devices – remesh plan</title>", page)

    def test_one_predicted_time_everywhere(self):
        self.open(apart(2, 8))
        predicted = self.browser.run("document.querySelector('#figures dd').firstChild.data")
        self.assertEqual(
            self.browser.run("document.querySelector('#times b').textContent"), predicted
        )
        self.assertEqual(
            self.browser.run("document.querySelector('#ticks .last').textContent"), predicted
        )
        last = self.browser.run("data.steps.at(-1).start + data.steps.at(-1).seconds")
        self.assertAlmostEqual(last / self.summary["predictedSeconds"], 1, places=9)

    def test_the_matrix_has_axes_with_names_and_ticks(self):
        self.open(apart(2, 8))
        self.assertEqual(self.texts(".axis-name"), ["receives →", "sends ↓"])
        self.assertEqual(self.texts("#columns span"), [f"h{i}" for i in range(2, 10)])
        self.assertEqual(self.texts("#rows span")[:2], ["h0", "h1"])
        self.open(spec([f"n{i}" for i in range(150)], size=600, window_bytes=1 << 20), width=390)
        ticks = self.texts("#rows span")
        self.assertGreater(len(ticks), 3)
        self.assertLess(len(ticks), 40)
        overlap = self.browser.run(
            """[...document.querySelectorAll('#rows span')].map(e => e.getBoundingClientRect())
            .some((box, i, all) => i > 0 && box.top < all[i - 1].bottom - 1)"""
        )
        self.assertFalse(overlap)

    def test_small_cells_stand_off_the_ground_and_the_diagonal_has_its_own_colour(self):
        question = spec(["a", "b", "c", "d"], size=1024)
        # From d to a only, ten thousand times less than the others send.
        question["shardings"] |= {
            "d": {"hlo_text": "{maximal device=0}", "devices": {"ids": [6]}},
            "a": {"hlo_text": "{maximal device=0}", "devices": {"ids": [0]}},
        }
        question["arrays"][0]["name"] = "v"
        question["arrays"].append(
            {
                "name": "w",
                "shape": [4],
                "element_type": "u8",
                "source": {"ref": "d"},
                "target": {"ref": "a"},
            }
        )
        self.open(question)
        least = self.browser.run(
            """Math.min(...[...document.querySelectorAll('#cells .between, #cells .inside')]
            .map(e => e.getAttribute('fill-opacity')))"""
        )
        self.assertGreaterEqual(least, 0.3)
        fill = "getComputedStyle(document.querySelector('#cells .%s')).fill"
        self.assertNotEqual(self.browser.run(fill % "inside"), self.browser.run(fill % "between"))

    def test_a_narrow_band_fills_its_box(self):
        question = spec([f"n{i}" for i in range(64)])
        question["device_lists"]["fewer"] = {"range": {"start": 0, "count": 126}}
        question["shardings"] = {
            name: {"hlo_text": "{devices=[%d]<=[%d]}" % (n, n), "devices": {"ref": devices}}
            for name, n, devices in (("rows", 128, "all"), ("columns", 126, "fewer"))
        }
        question["arrays"][0]["shape"] = [128 * 126]
        self.open(question)
        box = "document.querySelector('#cells svg').viewBox.baseVal"
        self.assertEqual(self.browser.run(f"{box}.width"), 64)
        self.assertLessEqual(self.browser.run(f"{box}.height"), 3)
        self.assertIn("itself", self.texts("#rows span"))
        drawn = self.cells("between"), self.cells("inside")
        self.browser.run("document.getElementById('matrix-view').click()")
        self.assertEqual(self.browser.run(f"[{box}.width, {box}.height]"), [63, 64])
        self.assertEqual((self.cells("between"), self.cells("inside")), drawn)
        self.assertNotIn("itself", self.texts("#rows span"))

    def test_a_band_to_fewer_hosts_is_one_row(self):
        question = spec([f"n{i}" for i in range(64)])
        question["device_lists"]["half"] = {"range": {"start": 0, "count": 64}}
        question["shardings"] = {
            name: {"hlo_text": "{devices=[%d]<=[%d]}" % (n, n), "devices": {"ref": devices}}
            for name, n, devices in (("rows", 128, "all"), ("columns", 64, "half"))
        }
        question["arrays"][0]["shape"] = [128 * 64]
        self.open(question)
        self.assertEqual(self.browser.run("[view.columns, view.rows]"), [64, 1])
        self.assertEqual(self.texts("#rows span"), ["same place"])

    def test_racks_have_borders_and_sums(self):
        question = spec(["a", "b", "c", "d"])
        question["topology"]["domains"] = [
            {"name": name, "egress_bytes_per_second": 1e9, "ingress_bytes_per_second": 1e9}
            for name in ("r1", "r2")
        ]
        for i, host in enumerate(question["topology"]["hosts"]):
            host["parent"] = "r1" if i < 2 else "r2"
        self.open(question)
        self.assertEqual(
            self.browser.run("document.querySelector('#cells .rack').getAttribute('d')"),
            "M2 0V4M0 2H4",
        )
        # Each host sends each other one 1,024 bytes.
        self.assertIn(
            "8.192 kB (50 %) cross between racks, 4.096 kB (25 %) go between hosts of one rack",
            self.browser.text("racks-note"),
        )
        self.assertEqual(len(self.texts("#racks tbody tr")), 4)
        self.assertRegex(self.browser.text("racks"), r"r1r24\.096 kB25 %")
        self.open(spec(["a", "b"]))
        self.assertFalse(
            self.browser.run("document.getElementById('racks-part').checkVisibility()")
        )

    def test_shares_add_up_to_all_bytes_of_the_target(self):
        self.open(spec(["a", "b", "c", "d"]))
        shares = [float(text.rstrip(" %")) for text in self.texts("#flows tbody b")]
        self.assertAlmostEqual(sum(shares), 100, delta=1)  # each is rounded
        self.assertIn("(75 %)", self.browser.text("bytes-legend"))
        self.assertEqual(shares[0], 75)

    def test_a_lane_is_as_high_as_its_nics_are_busy(self):
        self.open(spec(["a", "b", "c", "d"]))
        busy = self.browser.run("Math.max(...data.steps[0].in)")
        self.assertLess(busy, 0.2)
        height = self.browser.run(
            "document.querySelector('#lanes path.in:not(.pale)').getAttribute('d')"
        )
        top = float(re.match(r"M0 0.5V([\d.]+)H", height)[1])
        self.assertAlmostEqual(top, 0.5 - 0.45 * self.browser.run("data.steps[0].in[0]"), places=3)

    def test_the_colours_say_that_they_are_not_linear(self):
        self.open(spec(["a", "b"]))
        self.assertIn("square root", self.browser.text("ramps"))

    def test_hosts_that_are_alike_stand_together(self):
        self.open(apart(2, 64, columns=128))
        self.assertIn("64 hosts alike", self.browser.text("domains"))
        self.assertIn("h2 … h65", self.browser.text("domains"))
        self.assertIn("64 hosts alike", self.browser.text("lanes"))
        self.assertEqual(len(self.texts("#domains tbody tr:not(.level)")), 2)
        self.assertRegex(self.browser.text("flows"), "2 hosts alike\\s*h0 and h1\\s*64 hosts alike")

    def test_the_timeline_has_no_seams_and_shows_how_busy_hosts_are(self):
        question = apart(2, 8)
        question["options"]["window_bytes"] = 1 << 16
        self.open(question)
        self.assertGreater(self.browser.run("data.steps.length"), 100)
        # One shape from begin to end for each curve: sums, and of each kind its mean and busiest,
        # in and out.
        paths = self.browser.run(
            "[...document.querySelectorAll('#lanes path')].map(p => p.getAttribute('d'))"
        )
        self.assertEqual(
            len(paths), len(self.texts("#lanes .lane")) + 3 * self.browser.run("data.kinds.length")
        )
        for path in paths:
            self.assertEqual(path.count("M"), 1)
            self.assertTrue(path.endswith("z"))
            self.assertIn("H1000.00", path)
        self.assertRegex(self.browser.text("lanes"), r"2 hosts alike.*out \d+ %")

    def test_long_names_lose_their_middle(self):
        names = [f"p5-gpu-node-us-east-1a-rack-17-{i:04d}" for i in range(4)]
        self.open(spec(names))
        shown = self.texts("#rows span")
        self.assertEqual(len(set(shown)), 4)
        for text, name in zip(shown, names):
            head, tail = text.split("…")
            self.assertTrue(name.startswith(head) and name.endswith(tail) and len(tail) >= 4, text)

    def test_terms_are_explained_on_hover_and_focus(self):
        self.open(spec(["a", "b"]))
        unknown = self.browser.run(
            "[...document.querySelectorAll('[data-term]')].filter(e => "
            "!terms[e.dataset.term]).length"
        )
        self.assertEqual(unknown, 0)
        self.assertFalse(self.browser.run("document.getElementById('tip').checkVisibility()"))
        self.browser.hover("#figures [data-term='quality Q']")
        self.assertIn("over the lower bound", self.browser.text("tip"))
        self.assertTrue(self.browser.run("document.getElementById('tip').checkVisibility()"))
        self.browser.press("Escape")
        self.assertFalse(self.browser.run("document.getElementById('tip').checkVisibility()"))
        self.browser.run("document.querySelector('#times [data-term]').focus()")
        self.assertTrue(self.browser.run("document.getElementById('tip').checkVisibility()"))
        self.assertEqual(
            len(self.texts("#terms dt")), self.browser.run("Object.keys(terms).length")
        )

    def test_readable_at_390_pixels(self):
        names = [f"p5-gpu-node-us-east-1a-rack-17-{i:04d}" for i in range(40)]
        for question in (spec(["a", "b"]), spec(names, size=1600, window_bytes=1 << 20)):
            self.open(question)
            self.assertEqual(self.texts_beyond_their_card(), [])
            self.browser.open(self.folder / "plan.html", width=390)
            self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), 390)
            self.assertEqual(self.texts_beyond_their_card(), [])
            small = self.browser.run("""[...document.querySelectorAll('main *')]
                .filter(e => e.checkVisibility() && !e.childElementCount &&
                e.textContent && parseFloat(getComputedStyle(e).fontSize) < 11).length""")
            self.assertEqual(small, 0)

    def test_texts_have_contrast_in_light_and_dark(self):
        for dark in (False, True):
            self.open(spec(["a", "b"]), dark=dark)
            colour = {
                name: self.browser.run(
                    "getComputedStyle(document.documentElement)"
                    f".getPropertyValue('--{name}').trim()"
                )
                for name in (
                    "ground",
                    "surface",
                    "field",
                    "ink",
                    "muted",
                    "accent",
                    "late",
                    "cross",
                    "inside",
                    "out",
                    "kept",
                )
            }
            for text in ("ink", "muted", "accent", "late"):
                for under in ("ground", "surface", "field"):
                    self.assertGreaterEqual(
                        contrast(colour[text], colour[under]), 4.5, (dark, text, under)
                    )
            for shape in ("cross", "inside", "out"):
                self.assertGreaterEqual(contrast(colour[shape], colour["field"]), 3, (dark, shape))
            self.assertEqual(colour["surface"] < "#888888", dark)

    def test_keys_read_the_matrix_and_the_timeline(self):
        self.open(spec(["a", "b"]))
        self.browser.run("document.getElementById('matrix').focus()")
        self.browser.press("ArrowRight")
        self.assertEqual(self.browser.text("matrix-read"), "a sends 4.096 kB to b")
        self.browser.run("document.getElementById('timeline').focus()")
        self.browser.press("ArrowRight")
        self.assertRegex(
            self.browser.text("timeline-read"),
            r"^window 0, from 0 s on for .* between hosts, .* inside$",
        )

    def test_many_hosts_are_grouped(self):
        self.open(spec([f"n{i}" for i in range(150)], size=600, window_bytes=1 << 20))
        self.assertEqual(self.cells("between"), 75 * 75)
        self.assertIn("Each stands for 2 hosts", self.browser.text("matrix-note"))

    def test_nothing_moves(self):
        question = spec(["a", "b"])
        question["arrays"][0]["target"] = {"ref": "rows"}
        self.open(question)
        self.assertIn("Nothing moves between devices", self.browser.text("timeline-note"))

    def test_it_asks_for_nothing_from_outside(self):
        page = (
            self.write_page(spec(["a", "b"])).read_text().replace("http://www.w3.org/2000/svg", "")
        )
        self.assertNotRegex(page, r"https?://|src=|@import|url\(")
        self.assertLess(len(page), 60_000)

    def test_it_paints(self):
        self.open(spec(["a", "b", "c", "d"]))
        picture = self.browser.picture()
        self.assertEqual(picture[:8], b"\x89PNG\r\n\x1a\n")
        self.assertGreater(len(picture), 40_000)


if __name__ == "__main__":
    if CHROMIUM is None:
        print("chromium is not installed: skipped")
        sys.exit(77)
    unittest.main()
