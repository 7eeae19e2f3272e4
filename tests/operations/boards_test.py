# SPDX-License-Identifier: Apache-2.0
"""The Grafana boards: as their script writes them, of series that exist, and by the rules of
Grafana's dashboard linter."""

import json
import re
import tempfile
import unittest

import yaml

import support
from support import CHART, ROOT, faults_of_query, metric_table, run

# Series that no board shows, and why.
NOT_SHOWN = {
    "remesh_plan_cache_computations_total": (
        'the count of remesh_planning_seconds{cache="miss"} and of plans made ahead'
    ),
    "remesh_plan_precompute_queued_total": "made ahead, used and waiting say more",
    "remesh_plan_precompute_refused_total": "for who asked; the API says it",
    "remesh_owed_generations": "shown in bytes",
    "process_virtual_memory_bytes": "says nothing about load",
}


def boards() -> list:
    return [
        json.loads(path.read_text())
        for path in sorted((CHART / "files" / "dashboards").glob("*.json"))
    ]


def rules() -> list:
    return yaml.safe_load((CHART / "files" / "rules.yaml").read_text())["groups"]


def level(value: float, steps: list) -> str:
    """The colour of a value."""
    return next(
        step["color"] for step in reversed(steps) if step["value"] is None or value >= step["value"]
    )


def plain(expression: str) -> str:
    """With values in place of Grafana's variables."""
    return (
        expression.replace("$__rate_interval", "5m")
        .replace("$__range", "1h")
        .replace("$namespace", ".*")
        .replace("$job", ".+")
        .replace("$instance", ".+")
    )


class BoardsTest(unittest.TestCase):
    def panels(self) -> list:
        return [
            (panel, target["expr"])
            for board in boards()
            for panel in board["panels"]
            for target in panel["targets"]
        ]

    def annotations(self) -> list:
        return [each for board in boards() for each in board["annotations"]["list"]]

    def test_they_are_what_the_script_writes(self):
        check = run("/usr/bin/python3", ROOT / "helm" / "boards.py", "--check")
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)

    def test_every_query_is_of_series_that_exist(self):
        for expression in [expression for _, expression in self.panels()] + [
            each["expr"] for each in self.annotations()
        ]:
            self.assertEqual(
                faults_of_query(plain(expression), recorded={"ALERTS"}), [], expression
            )

    def test_faults_are_found(self):
        for wrong in [
            "remesh_worker",
            'rate(remesh_executions_total{result="x"}[5m])',
            "sum by (host) (remesh_states)",
            "remesh_executions_running_bucket",
            "sum(remesh_states) / remesh_stats",
        ]:
            self.assertNotEqual(faults_of_query(wrong), [], wrong)

    def test_every_series_is_shown_somewhere(self):
        text = " ".join(expression for _, expression in self.panels())
        shown = {
            name for name in metric_table() if re.search(rf"\b{name}(_bucket|_sum|_count)?\b", text)
        }
        self.assertEqual(set(metric_table()) - shown, set(NOT_SHOWN))

    def test_prometheus_parses_every_query(self):
        queries = [expression for _, expression in self.panels()] + [
            each["expr"] for each in self.annotations()
        ]
        rules = [
            {"record": f"panel_{number}", "expr": plain(expression)}
            for number, expression in enumerate(queries)
        ]
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
                    self.assertRegex(expression[: found.start()], r"(rate|increase)\($", name)

    def test_rates_follow_the_resolution(self):
        for _, expression in self.panels():
            for interval in re.findall(r"rate\([^[]*\[([^]]*)\]", expression):
                self.assertEqual(interval, "$__rate_interval")

    def test_every_query_follows_the_variables(self):
        for _, expression in self.panels():
            for selector in re.findall(r"\{([^}]*)\}", expression):
                # An alert has the labels of its rule's result.
                for name in (
                    ("namespace",) if "alertname" in selector else ("namespace", "job", "instance")
                ):
                    self.assertIn(f'{name}=~"${name}"', selector)

    def test_the_overview_begins_with_what_is_wrong(self):
        first = next(board for board in boards() if board["uid"] == "remesh-overview")["panels"][:2]
        self.assertEqual([panel["type"] for panel in first], ["state-timeline", "table"])
        self.assertEqual({panel["gridPos"]["y"] for panel in first}, {0})
        self.assertIn(
            'ALERTS{alertname=~"Remesh.*",alertstate="firing"', first[1]["targets"][0]["expr"]
        )

    def test_what_alerts_watch_has_a_good_and_a_bad_colour(self):
        """A panel that shows a series which a simple rule compares with a number says where it
        turns bad."""
        watched = {
            found[1]
            for group in rules()
            for rule in group["rules"]
            if "alert" in rule
            for found in [
                re.fullmatch(r"(remesh_\w+)(?:\{[^}]*\})? (?:>|==|<) [\d.]+", rule["expr"])
            ]
            if found
        }
        self.assertGreater(len(watched), 6)
        plain_panels = {
            name: [
                panel
                for panel, expression in self.panels()
                if re.fullmatch(
                    rf"(?:sum|max|min)(?: by \([\w, ]+\))? ?\({name}\{{.*\}}\)", expression
                )
            ]
            for name in watched - {"remesh_states", "remesh_workers"}
        }
        for name, found in plain_panels.items():
            self.assertTrue(found, name)
            for panel in found:
                self.assertIn("thresholds", panel["fieldConfig"]["defaults"], panel["title"])

    def test_panels_turn_bad_where_alerts_fire(self):
        """Of rules that compare a series, or two of them divided, with a number."""
        selector = lambda text: re.sub(r'(namespace|job|instance)=~"[^"]*",?', "", text).replace(
            "{}", ""
        )
        series = lambda text: set(
            re.findall(r"(?:remesh|process)_\w+(?:\{[^}]*\})?", selector(text))
        )
        compared = set()
        for rule in (rule for group in rules() for rule in group["rules"] if "alert" in rule):
            found = re.fullmatch(r"(.*) (>|==) ([\d.]+)", rule["expr"])
            if not found or not series(found[1]) or re.search(r"[a-z]\(", selector(found[1])):
                continue
            limit = float(found[3])
            for panel, expression in self.panels():
                steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps")
                if not steps or series(expression) != series(found[1]) or "rate(" in expression:
                    continue
                compared.add(rule["alert"])
                fires = limit if found[2] == "==" else limit * 1.001 or 1
                still = limit + 1 if found[2] == "==" else limit * 0.999
                with self.subTest(rule["alert"], panel=panel["title"]):
                    self.assertNotEqual(level(fires, steps), "green")
                    self.assertIn(level(still, steps), ("green", "orange"))
        self.assertGreaterEqual(len(compared), 10, compared)

    def test_objectives_can_be_seen(self):
        found = {
            panel["title"]: panel["fieldConfig"]["defaults"]
            for panel, _ in self.panels()
            if "objective" in panel["title"]
        }
        self.assertEqual(len(found), 2)
        for title, field in found.items():
            objective, scale = field["thresholds"]["steps"][1]["value"], field["custom"]
            self.assertNotIn("min", field, title)
            place = (objective - scale["axisSoftMin"]) / (
                scale["axisSoftMax"] - scale["axisSoftMin"]
            )
            self.assertTrue(0.2 < place < 0.8, title)

    def test_what_is_lost_or_failed_is_red(self):
        for title, name in (("States by phase", "lost"), ("Moves by outcome", "failed")):
            panel = next(panel for panel, _ in self.panels() if panel["title"] == title)
            color = {
                each["matcher"]["options"]: each["properties"][0]["value"]["fixedColor"]
                for each in panel["fieldConfig"]["overrides"]
            }
            self.assertEqual(color[name], "red")

    def test_legends_are_shown(self):
        for panel, _ in self.panels():
            if panel["type"] == "timeseries":
                self.assertTrue(panel["options"]["legend"]["showLegend"], panel["title"])

    def test_moves_are_annotated(self):
        for board in boards():
            self.assertEqual(
                [each["name"] for each in board["annotations"]["list"]], ["Moves", "Failed moves"]
            )

    def test_watches_that_end_do_not_count_as_failures(self):
        expression = next(
            expression
            for panel, expression in self.panels()
            if panel["title"] == "Calls that failed, by code"
        )
        unary, streams = expression.split(" or ")
        self.assertIn('grpc_type="unary",grpc_code!~"OK|Canceled"', unary)
        self.assertIn(
            'grpc_type!="unary",grpc_code!~"OK|Canceled|DeadlineExceeded|Unavailable"', streams
        )

    def test_codes_are_those_of_the_metrics(self):
        source = (ROOT / "service" / "metrics" / "rpc_metrics.cc").read_text()
        codes = {
            code
            for _, expression in self.panels()
            for values in re.findall(r'grpc_code(?:=~|!~|!=|=)"([^"]+)"', expression)
            for code in values.split("|")
        }
        self.assertGreater(len(codes), 5)
        for code in codes:
            self.assertIn(f'"{code}"', source)

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
                cells = {
                    (x, y)
                    for x in range(place["x"], place["x"] + place["w"])
                    for y in range(place["y"], place["y"] + place["h"])
                }
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
                self.assertEqual(
                    (
                        variables[name]["label"],
                        variables[name]["multi"],
                        variables[name]["allValue"],
                        variables[name]["refresh"],
                    ),
                    (name, True, ".+", 2),
                )
            self.assertFalse(board["editable"])
        self.assertEqual(len({board["uid"] for board in boards()}), 4)


if __name__ == "__main__":
    support.main()
