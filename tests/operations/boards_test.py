# SPDX-License-Identifier: Apache-2.0
"""The Grafana boards: as their script writes them, of series that exist, and by the rules of Grafana's dashboard linter."""
import json
import re
import tempfile
import unittest

import support
from support import CHART, ROOT, faults_of_query, metric_table, run

# Series that no board shows, and why.
NOT_SHOWN = {
    "remesh_plan_cache_computations_total": "the count of remesh_planning_seconds{cache=\"miss\"} and of plans made ahead",
    "remesh_plan_precompute_queued_total": "made ahead, used and waiting say more",
    "remesh_plan_precompute_refused_total": "for who asked; the API says it",
    "remesh_owed_generations": "shown in bytes",
    "process_virtual_memory_bytes": "says nothing about load",
}


def boards() -> list:
    return [json.loads(path.read_text()) for path in sorted((CHART / "files" / "dashboards").glob("*.json"))]


def plain(expression: str) -> str:
    """With values in place of Grafana's variables."""
    return expression.replace("$__rate_interval", "5m").replace("$__range", "1h").replace("$namespace", ".*").replace("$job", ".+").replace("$instance", ".+")


class BoardsTest(unittest.TestCase):
    def panels(self) -> list:
        return [(panel, panel["targets"][0]["expr"]) for board in boards() for panel in board["panels"]]

    def test_they_are_what_the_script_writes(self):
        check = run("/usr/bin/python3", ROOT / "helm" / "boards.py", "--check")
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)

    def test_every_query_is_of_series_that_exist(self):
        for _, expression in self.panels():
            self.assertEqual(faults_of_query(plain(expression)), [], expression)

    def test_faults_are_found(self):
        for wrong in ["remesh_worker", 'rate(remesh_executions_total{result="x"}[5m])', "sum by (host) (remesh_states)",
                      "remesh_executions_running_bucket", "sum(remesh_states) / remesh_stats"]:
            self.assertNotEqual(faults_of_query(wrong), [], wrong)

    def test_every_series_is_shown_somewhere(self):
        text = " ".join(expression for _, expression in self.panels())
        shown = {name for name in metric_table() if re.search(rf"\b{name}(_bucket|_sum|_count)?\b", text)}
        self.assertEqual(set(metric_table()) - shown, set(NOT_SHOWN))

    def test_prometheus_parses_every_query(self):
        rules = [{"record": f"panel_{number}", "expr": plain(expression)} for number, (_, expression) in enumerate(self.panels())]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            json.dump({"groups": [{"name": "panels", "rules": rules}]}, file)
            file.flush()
            check = run("promtool", "check", "rules", file.name)
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)
        self.assertIn(f"{len(rules)} rules found", check.stdout)

    def test_counters_are_added_up_only_as_rates(self):
        counters = [name for name, (kind, _) in metric_table().items() if kind == "counter"]
        for _, expression in self.panels():
            for name in counters:
                for found in re.finditer(rf"(?<!\w){name}(?!\w)", expression):
                    self.assertRegex(expression[:found.start()], r"(rate|increase)\($", name)

    def test_rates_follow_the_resolution(self):
        for _, expression in self.panels():
            for interval in re.findall(r"rate\([^[]*\[([^]]*)\]", expression):
                self.assertEqual(interval, "$__rate_interval")

    def test_every_query_follows_the_variables(self):
        for _, expression in self.panels():
            for selector in re.findall(r"\{([^}]*)\}", expression):
                for name in ("namespace", "job", "instance"):
                    self.assertIn(f'{name}=~"${name}"', selector)

    def test_panels_say_what_they_show(self):
        for panel, _ in self.panels():
            self.assertTrue(panel["title"] and panel["description"].endswith("."))
            self.assertTrue(panel["fieldConfig"]["defaults"]["unit"])
            self.assertEqual(panel["datasource"]["uid"], "${datasource}")

    def test_panels_do_not_overlap(self):
        for board in boards():
            taken = set()
            for panel in board["panels"]:
                place = panel["gridPos"]
                cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
                self.assertFalse(taken & cells, panel["title"])
                self.assertLessEqual(place["x"] + place["w"], 24)
                taken |= cells
            self.assertEqual(len({panel["id"] for panel in board["panels"]}), len(board["panels"]))

    def test_variables_are_as_the_linter_wants_them(self):
        for board in boards():
            variables = {variable["name"]: variable for variable in board["templating"]["list"]}
            self.assertEqual(list(variables), ["datasource", "namespace", "job", "instance"])
            self.assertEqual(variables["datasource"]["query"], "prometheus")
            for name in ("job", "instance"):
                self.assertEqual((variables[name]["label"], variables[name]["multi"], variables[name]["allValue"], variables[name]["refresh"]),
                                 (name, True, ".+", 2))
            self.assertFalse(board["editable"])
        self.assertEqual(len({board["uid"] for board in boards()}), 4)


if __name__ == "__main__":
    support.main()
