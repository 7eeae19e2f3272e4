#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Opens the page that `remeshctl plan --html` writes in headless Chromium and looks at what it drew.

Exits 77 (skipped) without Chromium. The browser finds no network: every host name is unknown to it.
"""
import html.parser
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

CHROMIUM = shutil.which("chromium")
REMESHCTL = pathlib.Path(os.environ.get("REMESH_BIN_DIR", "build/release/bin")) / "remeshctl"
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=5000",
]
EVIL = "</script><img src=x onerror=\"document.title='broken'\">"


def spec(hosts: list[str], size: int = 64, window_bytes: int = 4096) -> dict:
    devices = 2 * len(hosts)
    return {
        "topology": {"hosts": [
            {"name": name, "device_ids": [2 * i, 2 * i + 1], "nics": 1, "nic_bytes_per_second": 1e9,
             "fabric_bytes_per_second": 1e11} for i, name in enumerate(hosts)]},
        "device_lists": {"all": {"range": {"start": 0, "count": devices}}},
        "shardings": {
            "rows": {"hlo_text": "{devices=[%d,1]<=[%d]}" % (devices, devices), "devices": {"ref": "all"}},
            "columns": {"hlo_text": "{devices=[1,%d]<=[%d]}" % (devices, devices), "devices": {"ref": "all"}}},
        "arrays": [{"name": "w", "shape": [size, size], "element_type": "f32", "source": {"ref": "rows"},
                    "target": {"ref": "columns"}}],
        "options": {"window_bytes": window_bytes},
    }


class Page(html.parser.HTMLParser):
    """Counts elements by tag and class and collects the text of elements with an id, and of the title."""

    def __init__(self, dom: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.text: dict[str, str] = {}
        self._open: list[tuple[str, str]] = []
        self.feed(dom)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag not in ("meta", "link", "input", "img", "br"):
            self._open.append((tag, attributes.get("id", "title" if tag == "title" else "")))

    def handle_endtag(self, tag):
        while self._open:
            if self._open.pop()[0] == tag:
                return

    def handle_data(self, data):
        for _, name in self._open:
            if name:
                self.text[name] = self.text.get(name, "") + data

    def count(self, tag: str, of_class: str | None = None) -> int:
        return sum(t == tag and (of_class is None or of_class in a.get("class", "").split()) for t, a in self.tags)


class PageTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write_page(self, question: dict) -> pathlib.Path:
        path = pathlib.Path(self.folder.name) / "plan.html"
        subprocess.run([REMESHCTL, "plan", "-f", "-", "-o", "json", "--html", path], check=True, timeout=60,
                       input=json.dumps(question), text=True, stdout=subprocess.DEVNULL)
        return path

    def browse(self, path: pathlib.Path, *flags: str) -> str:
        profile = tempfile.mkdtemp(dir=self.folder.name)
        return subprocess.run([CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *flags, path.as_uri()], check=True,
                              timeout=60, capture_output=True, text=True).stdout

    def open_page(self, question: dict) -> Page:
        return Page(self.browse(self.write_page(question), "--dump-dom"))

    def test_everything_is_drawn(self):
        page = self.open_page(spec(["a", "b", "c", "d"]))
        root = next(attributes for tag, attributes in page.tags if tag == "html")
        self.assertEqual(root.get("data-ready"), "true")
        self.assertEqual(page.count("rect", "cell"), 16)
        self.assertEqual(page.count("canvas"), 1)
        # 64 x 64 f32 over 8 devices: each host needs a quarter, of which it has a quarter.
        self.assertIn("must receive 3.072 kB that none of its devices holds", page.text["certificate"])
        for row in ("this plan", "P2P per replica", "gather + broadcast", "checkpoint round trip"):
            self.assertIn(row, page.text["strategies"])
        self.assertRegex(page.text["matrix-read"], r"Most: [abcd] sends 1\.024 kB to [abcd]")
        self.assertIn("12.29 kB", page.text["figures"])
        self.assertRegex(page.text["levels"], r"hosts\s*binds\s*4\s*12\.29 kB\s*[abcd]\s*3\.072 kB in\s*1 GB/s\s*3\.072 µs")
        self.assertGreater(page.count("tr"), 10)

    def test_names_of_hosts_stay_text(self):
        page = self.open_page(spec([EVIL, "b"]))
        self.assertEqual(page.count("img"), 0)
        self.assertEqual(page.text["title"], "remesh plan")
        self.assertIn("onerror", page.text["domains"])

    def test_many_hosts_are_grouped(self):
        page = self.open_page(spec([f"n{i}" for i in range(150)], size=600, window_bytes=1 << 20))
        self.assertEqual(page.count("rect", "cell"), 75 * 75)
        self.assertIn("Each row stands for 2 hosts", page.text["matrix-note"])

    def test_nothing_moves(self):
        question = spec(["a", "b"])
        question["arrays"][0]["target"] = {"ref": "rows"}
        page = self.open_page(question)
        root = next(attributes for tag, attributes in page.tags if tag == "html")
        self.assertEqual(root.get("data-ready"), "true")
        self.assertIn("Nothing moves between devices", page.text["timeline-note"])

    def test_it_paints(self):
        path = self.write_page(spec(["a", "b", "c", "d"]))
        picture = pathlib.Path(self.folder.name) / "page.png"
        self.browse(path, f"--screenshot={picture}", "--window-size=1180,2400", "--hide-scrollbars")
        self.assertEqual(picture.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        self.assertGreater(picture.stat().st_size, 40_000)


if __name__ == "__main__":
    if CHROMIUM is None:
        print("chromium is not installed: skipped")
        sys.exit(77)
    unittest.main()
