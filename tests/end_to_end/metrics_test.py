# SPDX-License-Identifier: Apache-2.0
"""What server and workers tell Prometheus: clean to promtool, as docs/metrics.md says, and found by
Debian's Prometheus."""

import pathlib
import re
import subprocess
import unittest
import urllib.parse

from remesh.v1 import cache_pb2, plan_pb2, plan_pb2_grpc

from harness import CALL_SECONDS, Array, ClusterTest, devices, salted, targets, text_sharding
from prometheus import fetch, query, start_prometheus

STATE = "jobs/test/states/measured"
ARRAYS = [*salted("w", "bf16", (32, 16)), Array("b", "f32", (16, 4))]
ROWS = text_sharding("{devices=[4,1]<=[4]}", 0, 1, 2, 3)
COLUMNS = text_sharding("{devices=[1,4]<=[4]}", 3, 2, 1, 0)
DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "metrics.md"
SUFFIXES = ("_bucket", "_sum", "_count")
OWN_LABELS = {"le", "quantile"}


def exported(text: str):
    """Name -> (type, labels) of every family that has a series."""
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    families = {name: (kind, set()) for name, kind in types.items()}
    for name, labels in re.findall(r"^([a-z_]+)(?:\{(.*)\})? \S+$", text, re.M):
        family = (
            name
            if name in types
            else next(name.removesuffix(s) for s in SUFFIXES if name.endswith(s))
        )
        families[family][1].update(set(re.findall(r'([a-z_]+)="', labels)) - OWN_LABELS)
    return families


def documented(*sections: str):
    """The same, as the tables under these headings of docs/metrics.md say."""
    families, section = {}, None
    for line in DOCUMENT.read_text().splitlines():
        if line.startswith("## "):
            section = line[3:]
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if section in sections and cells[0].startswith("`"):
            families[cells[0].strip("`")] = (cells[1], set(re.findall(r"`([a-z_]+)`", cells[2])))
    return families


class MetricsTest(ClusterTest):
    HOSTS = 2
    moved = False  # the one state, once

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.channel = cls.cluster.channel()
        cls.addClassCleanup(cls.channel.close)
        cls.plans = plan_pb2_grpc.PlanServiceStub(cls.channel)

    def setUp(self):
        if MetricsTest.moved:
            return
        MetricsTest.moved = True
        self.create_and_write(STATE, ARRAYS, ROWS)
        self.move(STATE, 1, targets(ARRAYS, COLUMNS))

    def urls(self):
        return [
            self.cluster.server_metrics_url,
            *map(self.cluster.worker_metrics_url, self.cluster.host_names),
        ]

    def create_plan(self, rows: int, *ids: int) -> plan_pb2.Planning.Cache:
        spec = plan_pb2.PlanSpec(
            topology=self.topology(),
            arrays=[
                plan_pb2.ArraySpec(
                    name="a",
                    shape=[rows, 8],
                    element_type="f32",
                    source=text_sharding("{devices=[2,1]<=[2]}", *ids),
                    target=text_sharding("{replicated}", *ids),
                )
            ],
        )
        return self.plans.CreatePlan(
            plan_pb2.CreatePlanRequest(spec=spec), timeout=CALL_SECONDS
        ).planning.cache

    def test_promtool_has_nothing_to_say(self):
        for url in self.urls():
            with self.subTest(url=url):
                check = subprocess.run(
                    ["promtool", "check", "metrics"],
                    input=fetch(url),
                    capture_output=True,
                    text=True,
                    timeout=CALL_SECONDS,
                    check=False,
                )
                self.assertEqual((check.returncode, check.stdout, check.stderr), (0, "", ""))

    def test_every_series_is_documented_and_no_other(self):
        for section, url in zip(["Server", "Worker"], self.urls()):
            with self.subTest(section=section):
                self.maxDiff = None
                self.assertEqual(exported(fetch(url)), documented(section, "Both"))

    def test_what_a_move_leaves_on_the_workers(self):
        for host in self.cluster.host_names:
            text = fetch(self.cluster.worker_metrics_url(host))
            for series in [
                r'transfer_bytes_total\{direction="received",transport="tcp"\}',
                r'transfer_bytes_total\{direction="sent",transport="tcp"\}',
                "chunks_verified_total",
                r'phase_seconds_count\{phase="transferring"\}',
                r'phase_seconds_count\{phase="committing"\}',
                "window_seconds_count",
                "buffer_bytes",
                "attached",
            ]:
                value = re.search(rf"^remesh_worker_{series} (\S+)$", text, re.M)
                self.assertIsNotNone(value, f"{series} in\n{text}")
                self.assertGreater(float(value[1]), 0, series)
            self.assertIn('remesh_worker_digest_mismatches_total{where="arrival"} 0', text)
            self.wait_until(
                "a heartbeat is counted",
                lambda url=self.cluster.worker_metrics_url(host): not re.search(
                    r"^remesh_worker_heartbeats_total 0$", fetch(url), re.M
                ),
            )

    def test_prometheus_finds_what_the_server_says(self):
        prometheus = start_prometheus(
            self,
            self.cluster.root / "prometheus",
            [
                {
                    "job_name": "remesh",
                    "static_configs": [
                        {"targets": [urllib.parse.urlsplit(url).netloc for url in self.urls()]}
                    ],
                }
            ],
        )
        seen = [
            self.create_plan(8, 0, 1),
            self.create_plan(8, 0, 1),
            self.create_plan(8, 2, 3),
            self.create_plan(6, 0, 1),
        ]
        cache = plan_pb2.Planning
        self.assertEqual(seen, [cache.MISS, cache.HIT, cache.ISOMORPHIC, cache.MISS])
        stats = self.plans.GetCacheStats(cache_pb2.GetCacheStatsRequest(), timeout=CALL_SECONDS)

        def value_of(promql: str):
            result = query(prometheus, promql)
            return float(result[0]["value"][1]) if result else None

        expected = {
            "sum(up)": 1 + self.HOSTS,
            "sum(remesh_plan_cache_hits_total)": 2,
            'sum(remesh_plan_cache_hits_total{tier="memory",kind="same"})': stats.memory.hits,
            'sum(remesh_plan_cache_hits_total{kind="isomorphic"})': stats.memory.isomorphic_hits,
            'sum(remesh_plan_cache_misses_total{tier="memory"})': stats.memory.misses,
            'sum(remesh_plan_cache_misses_total{tier="disk"})': stats.disk.misses,
            "sum(remesh_plan_cache_computations_total)": stats.computations,
            'sum(remesh_plan_cache_entries{tier="memory"})': stats.memory.entries,
            'sum(remesh_plan_cache_bytes{tier="memory"})': stats.memory.bytes,
            'sum(remesh_planning_seconds_count{cache="miss"})': stats.computations,
            "sum(remesh_planner_compute_seconds_count)": stats.computations,
            'sum(grpc_server_handled_total{grpc_method="CreatePlan",grpc_code="OK"})': len(seen),
            'sum(remesh_workers{alive="true"})': self.HOSTS,
            'sum(remesh_executions_total{outcome="succeeded"})': 1,
            'sum(remesh_worker_transfer_bytes_total{direction="received"})'
            ' == sum(remesh_execution_bytes_total{path="crossing"}) > bool 0': 1,
            "count(count by (version) (remesh_build_info))": 1,
        }
        for promql, value in expected.items():
            with self.subTest(query=promql):
                self.wait_until(
                    f"{promql} = {value}",
                    lambda promql=promql, value=value: value_of(promql) == value,
                )


if __name__ == "__main__":
    unittest.main()
