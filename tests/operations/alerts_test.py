# SPDX-License-Identifier: Apache-2.0
"""Every alert fires when it should and is silent when it should not, in promtool's simulation of
Prometheus; and has its runbook."""

import json
import pathlib
import re
import tempfile
import unittest

import yaml

import support
from support import CHART, ROOT, faults_of_query, run

RULES = CHART / "files" / "rules.yaml"
RUNBOOKS = ROOT / "docs" / "runbooks"
HEADINGS = ["Meaning", "Impact", "Check", "Fix"]
SERVER = {"namespace": "ml", "job": "remesh-server", "instance": "s:7071"}
WORKER = {"namespace": "ml", "job": "remesh-worker", "instance": "a:7081", "node": "a"}
SPACE = {"namespace": "ml"}


def series(name: str, target: dict, values: str, **labels) -> dict:
    pairs = ",".join(f'{key}="{value}"' for key, value in {**target, **labels}.items())
    return {"series": f"{name}{{{pairs}}}", "values": values}


def handled(code: str, values: str) -> dict:
    return series(
        "grpc_server_handled_total",
        SERVER,
        values,
        grpc_type="unary",
        grpc_service="s",
        grpc_method="m",
        grpc_code=code,
    )


def planned(bound: str, values: str) -> dict:
    return series("remesh_planning_seconds_bucket", SERVER, values, cache="hit", le=bound)


UP = series("up", SERVER, "1+0x400")  # without it there is no server, and that alert fires too
EXPIRY, NOT_BEFORE = (
    f"remesh_tls_certificate_{end}_timestamp_seconds" for end in ("expiry", "not_before")
)
MISMATCH = "remesh_worker_digest_mismatches_total"
# Alert -> (series that make it fire, minute, labels of the alert beside its severity, series that
# must not). One sample a minute, of those that take hours one in five.
LONG = {"RemeshCallsFailingSlowly"}
CASES = {
    "RemeshServerDown": (
        [series("up", SERVER, "1 0+0x20")],
        3,
        SPACE,
        [series("up", SERVER, "1 0 1+0x20")],
    ),
    "RemeshTwoServers": (
        [UP, series("up", {**SERVER, "instance": "t:7071"}, "1+0x20")],
        4,
        SPACE,
        [UP, series("up", {**SERVER, "instance": "t:7071"}, "1 0+0x20")],
    ),
    "RemeshServerRestarting": (
        [UP, series("process_start_time_seconds", SERVER, "1 2 3 4 4+0x20")],
        5,
        SERVER,
        [UP, series("process_start_time_seconds", SERVER, "1 2 3 3+0x20")],
    ),
    "RemeshJournalBehind": (
        [UP, series("remesh_journal_behind", SERVER, "1+0x9")],
        1,
        SERVER,
        [UP, series("remesh_journal_behind", SERVER, "0+0x9")],
    ),
    "RemeshJournalLost": (
        [UP, series("remesh_journal_lost", SERVER, "1+0x9")],
        1,
        SERVER,
        [UP, series("remesh_journal_lost", SERVER, "0+0x9")],
    ),
    "RemeshJournalFull": (
        [UP, series("remesh_journal_full", SERVER, "1+0x9")],
        1,
        SERVER,
        [UP, series("remesh_journal_full", SERVER, "0+0x9")],
    ),
    "RemeshDescriptorsNearlyGone": (
        [
            UP,
            series("process_open_fds", WORKER, "90+0x20"),
            series("process_max_fds", WORKER, "100+0x20"),
        ],
        12,
        WORKER,
        [
            UP,
            series("process_open_fds", WORKER, "79+0x20"),
            series("process_max_fds", WORKER, "100+0x20"),
        ],
    ),
    "RemeshConfigReloadFailed": (
        [UP, series("remesh_config_last_reload_successful", WORKER, "0+0x9")],
        7,
        WORKER,
        [UP, series("remesh_config_last_reload_successful", WORKER, "1 0 0 1+0x9")],
    ),
    # A life of an hour and one of ten; without TLS both are 0.
    "RemeshCertificateExpires": (
        [UP, series(EXPIRY, WORKER, "3600+0x60"), series(NOT_BEFORE, WORKER, "0+0x60")],
        47,
        WORKER,
        [
            UP,
            series(EXPIRY, WORKER, "36000+0x60"),
            series(NOT_BEFORE, WORKER, "0+0x60"),
            series(EXPIRY, SERVER, "0+0x60"),
            series(NOT_BEFORE, SERVER, "0+0x60"),
        ],
    ),
    "RemeshCallsFailingFast": (
        [UP, handled("OK", "0+100x90"), handled("Unavailable", "0+2x90")],
        70,
        SPACE,
        [
            UP,
            handled("OK", "0+100x90"),
            handled("Unavailable", "0+1x90"),
            handled("NotFound", "0+90x90"),
        ],
    ),
    "RemeshCallsFailingSlowly": (
        [UP, handled("OK", "0+500x80"), handled("Internal", "0+5x80")],
        370,
        SPACE,
        [UP, handled("OK", "0+5000x80"), handled("Internal", "0+5x80")],
    ),
    "RemeshWorkersLost": (
        [UP, series("remesh_workers", SERVER, "1+0x9", alive="false")],
        3,
        {**SERVER, "alive": "false"},
        [
            UP,
            series("remesh_workers", SERVER, "0+0x9", alive="false"),
            series("remesh_workers", SERVER, "2+0x9", alive="true"),
        ],
    ),
    "RemeshWorkerDown": (
        [UP, series("up", WORKER, "0+0x9")],
        3,
        WORKER,
        [UP, series("up", WORKER, "0 1+0x9")],
    ),
    "RemeshWorkerDetached": (
        [UP, series("remesh_worker_attached", WORKER, "0+0x9")],
        3,
        WORKER,
        [UP, series("remesh_worker_attached", WORKER, "0 1+0x9")],
    ),
    "RemeshWorkerRestarting": (
        [UP, series("process_start_time_seconds", WORKER, "1 2 3 4 4+0x20")],
        5,
        WORKER,
        [UP, series("process_start_time_seconds", WORKER, "1 2 2+0x20")],
    ),
    "RemeshBuffersNearlyFull": (
        [
            UP,
            series("remesh_worker_buffer_bytes", WORKER, "95+0x20"),
            series("remesh_worker_buffer_max_bytes", WORKER, "100+0x20"),
        ],
        12,
        WORKER,
        [
            UP,
            series("remesh_worker_buffer_bytes", WORKER, "95+0x20"),
            series("remesh_worker_buffer_max_bytes", WORKER, "0+0x20"),
        ],
    ),
    "RemeshBytesOwed": (
        [UP, series("remesh_owed_bytes", SERVER, "4096+0x70")],
        65,
        SERVER,
        [UP, series("remesh_owed_bytes", SERVER, "4096+0x50 0+0x20")],
    ),
    "RemeshRoundWaits": (
        [UP, series("remesh_world_oldest_round_seconds", SERVER, "0+60x20")],
        15,
        SERVER,
        [UP, series("remesh_world_oldest_round_seconds", SERVER, "0+60x9 0+60x9")],
    ),
    "RemeshStatesLost": (
        [UP, series("remesh_states", SERVER, "1+0x9", phase="lost")],
        2,
        {**SERVER, "phase": "lost"},
        [
            UP,
            series("remesh_states", SERVER, "0+0x9", phase="lost"),
            series("remesh_states", SERVER, "3+0x9", phase="moving"),
            series("remesh_states", SERVER, "3+0x9", phase="degraded"),
        ],
    ),
    "RemeshStatesDegraded": (
        [UP, series("remesh_states", SERVER, "1+0x9", phase="degraded")],
        2,
        {**SERVER, "phase": "degraded"},
        [
            UP,
            series("remesh_states", SERVER, "0+0x9", phase="degraded"),
            series("remesh_states", SERVER, "3+0x9", phase="moving"),
        ],
    ),
    "RemeshDigestMismatch": (
        [UP, series(MISMATCH, WORKER, "0 0 1+0x9", where="arrival")],
        4,
        {**WORKER, "where": "arrival"},
        [
            UP,
            series(MISMATCH, WORKER, "7+0x12", where="arrival"),
            series(MISMATCH, WORKER, "0 0 1+0x9", where="source"),
        ],
    ),
    "RemeshSourceModified": (
        [UP, series(MISMATCH, WORKER, "0 0 1+0x9", where="source")],
        4,
        {**WORKER, "where": "source"},
        [UP, series(MISMATCH, WORKER, "7+0x12", where="source")],
    ),
    "RemeshExecutionsFailing": (
        [
            UP,
            series("remesh_executions_total", SERVER, "0+1x40", outcome="failed"),
            series("remesh_executions_total", SERVER, "0+1x40", outcome="succeeded"),
        ],
        38,
        SPACE,
        [
            UP,
            series("remesh_executions_total", SERVER, "0 1+0x40", outcome="failed"),
            series("remesh_executions_total", SERVER, "0+0x40", outcome="succeeded"),
        ],
    ),
    "RemeshExecutionStuck": (
        [
            UP,
            series("remesh_executions_running", SERVER, "1+0x30"),
            series("remesh_worker_transfer_bytes_total", WORKER, "5+0x30", direction="sent"),
        ],
        20,
        SPACE,
        [
            UP,
            series("remesh_executions_running", SERVER, "1+0x30"),
            series("remesh_worker_transfer_bytes_total", WORKER, "5+1x30", direction="sent"),
        ],
    ),
    "RemeshPlanningSlow": (
        [UP, planned("0.1", "0+0x40"), planned("1", "0+9x40"), planned("+Inf", "0+9x40")],
        25,
        SPACE,
        [UP, planned("0.1", "0+9x40"), planned("1", "0+9x40"), planned("+Inf", "0+9x40")],
    ),
    "RemeshPlanStoreErrors": (
        [UP, series("remesh_plan_cache_errors_total", SERVER, "0 0 1+0x9", tier="disk")],
        4,
        {**SERVER, "tier": "disk"},
        [UP, series("remesh_plan_cache_errors_total", SERVER, "3+0x9", tier="disk")],
    ),
}


def rules() -> list:
    return [
        rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
    ]


def alerts() -> dict:
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def within(space: str, samples: list) -> list:
    """The same in a namespace of its own: all cases share one simulation, for each costs
    seconds."""
    return [
        {**sample, "series": sample["series"].replace('namespace="ml"', f'namespace="{space}"')}
        for sample in samples
    ]


def firing(name: str, minute: int, samples: list) -> dict:
    return {
        "expr": f'ALERTS{{alertname="{name}",alertstate="firing",namespace=~"{name}|"}}',
        "eval_time": f"{minute}m",
        "exp_samples": samples,
    }


class AlertsTest(unittest.TestCase):
    def test_promtool_accepts_the_rules(self):
        check = run("promtool", "check", "rules", "--lint=all", "--lint-fatal", RULES)
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)

    def test_every_alert_fires_and_stays_silent(self):
        self.assertEqual(set(CASES), set(alerts()))
        for names, minutes in [(set(CASES) - LONG, 1), (LONG, 5)]:
            fires, silent = (
                {"interval": f"{minutes}m", "input_series": [], "promql_expr_test": []}
                for _ in range(2)
            )
            for name in sorted(names):
                bad, minute, labels, good = CASES[name]
                all_labels = {
                    "alertname": name,
                    "alertstate": "firing",
                    "severity": alerts()[name]["labels"]["severity"],
                    **labels,
                    "namespace": name,
                }
                text = ", ".join(f'{key}="{value}"' for key, value in all_labels.items())
                fires["input_series"] += within(name, bad)
                fires["promql_expr_test"].append(
                    firing(name, minute, [{"labels": f"ALERTS{{{text}}}", "value": 1}])
                )
                silent["input_series"] += within(name, good)
                silent["promql_expr_test"].append(firing(name, minute, []))
            self.check({"tests": [fires, silent]}, minutes)

    def test_no_server_at_all_is_one_that_is_down(self):
        labels = (
            'alertname="RemeshServerDown", alertstate="firing", severity="critical", '
            'job="remesh-server"'
        )
        self.check(
            {
                "tests": [
                    {
                        "interval": "1m",
                        "input_series": [series("up", WORKER, "1+0x9")],
                        "promql_expr_test": [
                            firing(
                                "RemeshServerDown",
                                4,
                                [{"labels": f"ALERTS{{{labels}}}", "value": 1}],
                            )
                        ],
                    }
                ]
            }
        )

    def check(self, tests: dict, minutes: int = 1):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "test.json"  # JSON is YAML
            file.write_text(
                json.dumps(
                    {"rule_files": [str(RULES)], "evaluation_interval": f"{minutes}m", **tests}
                )
            )
            result = run("promtool", "test", "rules", file)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_descriptions_name_labels_that_the_alert_has(self):
        for name, rule in alerts().items():
            for label in re.findall(r"\$labels\.(\w+)", rule["annotations"]["description"]):
                self.assertIn(label, CASES[name][2], name)

    def test_every_query_is_of_series_that_exist(self):
        recorded = {rule["record"] for rule in rules() if "record" in rule}
        for rule in rules():
            with self.subTest(rule=rule.get("alert", rule.get("record"))):
                self.assertEqual(faults_of_query(rule["expr"], recorded), [])

    def test_annotations_are_as_alert_managers_want_them(self):
        for name, rule in alerts().items():
            with self.subTest(alert=name):
                self.assertEqual(
                    set(rule["annotations"]), {"summary", "description", "runbook_url"}
                )
                self.assertIn(rule["labels"]["severity"], {"critical", "warning", "info"})
                self.assertNotIn("{{", rule["annotations"]["summary"])
                self.assertTrue(rule["annotations"]["summary"].endswith("."))

    def test_every_alert_has_a_runbook_and_every_runbook_an_alert(self):
        self.assertEqual({path.stem for path in RUNBOOKS.glob("*.md")} - {"README"}, set(alerts()))
        for name, rule in alerts().items():
            with self.subTest(alert=name):
                self.assertEqual(rule["annotations"]["runbook_url"], f"RUNBOOKS/{name}.md")
                text = (RUNBOOKS / f"{name}.md").read_text()
                severity, summary = rule["labels"]["severity"], rule["annotations"]["summary"]
                self.assertTrue(
                    text.startswith(f"# {name}\n\n*{severity}.* {summary}\n"), text[:200]
                )
                self.assertEqual(re.findall(r"(?m)^## (.*)$", text), HEADINGS)
                for section in re.split(r"(?m)^## .*$", text)[1:]:
                    self.assertGreater(len(section.split()), 5)

    def test_the_list_of_runbooks_is_whole(self):
        text = (RUNBOOKS / "README.md").read_text()
        rows = re.findall(r"(?m)^\| \[(\w+)\]\((\w+)\.md\) \| (\w+) \| (.*) \|$", text)
        self.assertEqual(
            rows,
            [
                (name, name, rule["labels"]["severity"], rule["annotations"]["summary"])
                for name, rule in alerts().items()
            ],
        )


if __name__ == "__main__":
    support.main()
