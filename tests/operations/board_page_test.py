# SPDX-License-Identifier: Apache-2.0
"""helm/board_page.py: what it asks a Prometheus, and what it draws of the answers."""

import http.server
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse

import support
from support import ROOT

sys.path.insert(0, str(ROOT / "helm"))
import board_page


class FakePrometheus(http.server.BaseHTTPRequestHandler):
    """Two series for every query of bytes, one value that is none for quantiles, nothing else."""

    asked = []

    def do_GET(self):
        query = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)["query"][0]
        self.asked.append(query)
        values = {"bytes": [[1, "1024"], [2, "2048"]], "quantile": [[1, "NaN"]]}
        found = next((points for word, points in values.items() if word in query), None)
        result = (
            [
                {"metric": {"node": name, "path": name, "kind": name}, "values": found}
                for name in ("<a>", "b")
            ]
            if found
            else []
        )
        body = json.dumps({"status": "success", "data": {"result": result}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class BoardPageTest(unittest.TestCase):
    def test_values_as_people_read_them(self):
        for value, unit, text in (
            (0.995, "percentunit", "99.5 %"),
            (0.012, "s", "12 ms"),
            (2e-5, "s", "20 µs"),
            (1536, "bytes", "1.5 KiB"),
            (12, "bytes", "12 B"),
            (2.5e9, "Bps", "2.5 GB/s"),
            (1200, "none", "1.2K"),
            (0, "s", "0 s"),
            (3, "reqps", "3/s"),
        ):
            self.assertEqual(board_page.text_of(value, unit), text)

    def test_marks_begin_at_nothing_reach_the_top_and_are_few(self):
        for top in (0, 1e-6, 0.3, 1, 7, 99.5, 4096, 3e9):
            for base in (10, 1024):
                marks = board_page.ticks(top, base)
                self.assertEqual(marks[0], 0)
                self.assertGreaterEqual(marks[-1] * (1 + 1e-9), top)
                self.assertLessEqual(len(marks), 6, (top, base))

    def test_values_have_the_colour_of_their_level(self):
        steps = [
            {"color": "red", "value": None},
            {"color": "green", "value": 1},
            {"color": "orange", "value": 3},
        ]
        for value, color in ((0, "red"), (1, "green"), (2.9, "green"), (3, "orange")):
            self.assertEqual(board_page.level_of(value, steps), board_page.LEVEL_COLORS[color])
        self.assertIsNone(board_page.level_of(1, []))

    def test_an_objective_is_seen_while_values_are_near_it(self):
        field = {"unit": "percentunit", "custom": {"axisSoftMin": 0.98, "axisSoftMax": 1}}
        self.assertEqual(
            [board_page.scale([("a", [(0, 0.99)])], field)[i] for i in (0, -1)], [0.98, 1]
        )
        self.assertEqual(board_page.scale([("a", [(0, 0.5)])], field)[0], 0)

    def test_a_timeline_shows_since_when(self):
        steps = [{"color": "green", "value": None}, {"color": "red", "value": 1}]
        drawn = board_page.timeline([("<lost>", [(0, 0.0), (50, 2.0)])], steps, 0, 100)
        self.assertIn("&lt;lost&gt;", drawn)
        self.assertEqual(
            [drawn.count(board_page.LEVEL_COLORS[color]) for color in ("green", "red")], [1, 1]
        )

    def test_variables_are_put_in_the_longest_first(self):
        self.assertEqual(
            board_page.expression("x{$job} $job_name", {"job": "J", "job_name": "N"}), "x{J} N"
        )

    def test_every_board_is_drawn_from_its_own_queries(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), FakePrometheus)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [
                    "/usr/bin/python3",
                    ROOT / "helm" / "board_page.py",
                    "--prometheus",
                    f"http://127.0.0.1:{server.server_port}",
                    "--folder",
                    folder,
                ],
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            pages = {path.stem: path.read_text() for path in pathlib.Path(folder).glob("*.html")}
        self.assertEqual(len(pages), 4)
        self.assertFalse([query for query in FakePrometheus.asked if "$" in query])
        overview = pages["remesh-overview"]
        self.assertIn("<polyline", overview)
        self.assertIn("&lt;a&gt;", overview)  # names are not markup
        self.assertNotIn("<a>", overview)
        self.assertIn("without data: ", done.stdout)
        self.assertIn("Workers drained", done.stdout)


if __name__ == "__main__":
    support.main()
