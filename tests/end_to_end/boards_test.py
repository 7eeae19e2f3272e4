# SPDX-License-Identifier: Apache-2.0
"""Every panel of the Grafana boards has data in a Prometheus that watches a cluster at work."""

import json
import pathlib
import time
import unittest
import urllib.parse

from remesh.server_group import ServerGroup
from remesh.v1 import plan_pb2, plan_pb2_grpc, sharding_pb2
from remesh.world_place import Place

from harness import CALL_SECONDS, Array, ClusterTest, salted, targets, text_sharding
from prometheus import query, start_prometheus

BOARDS = pathlib.Path(__file__).parents[2] / "helm" / "remesh" / "files" / "dashboards"
STATE = "jobs/test/states/shown"
ARRAYS = [*salted("w", "bf16", (32, 16)), Array("b", "f32", (16, 4))]
ROWS = text_sharding("{devices=[4,1]<=[4]}", 0, 1, 2, 3)
COLUMNS = text_sharding("{devices=[1,4]<=[4]}", 3, 2, 1, 0)
PATIENCE_SECONDS = 90
VARIABLES = {
    "$__rate_interval": "15s",
    "$__range": "5m",
    "$namespace": ".*",
    "$job": ".+",
    "$instance": ".+",
}
# Panels without data, and why.
EMPTY = {
    "Firing alerts": "this Prometheus has no rules",
    "Calls that failed, by code": "no call has to fail here",
    "Memory for shards, of the limit": "no worker of this cluster has a memory_limit_bytes",
    "Time until the certificate expires": "this cluster has no TLS",
    "Certificate lifetime left": "this cluster has no TLS",
}


def panels() -> dict:
    """Title -> query, as Grafana would send it."""
    found = {}
    for path in sorted(BOARDS.glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for i, target in enumerate(panel["targets"]):
                text = target["expr"]
                for name, value in VARIABLES.items():
                    text = text.replace(name, value)
                found[
                    panel["title"] if i == 0 else f'{panel["title"]} {target["legendFormat"]}'
                ] = text
    return found


class BoardsTest(ClusterTest):
    HOSTS = 2

    def work(self, round_: int):
        """Plans new and known, one made ahead, a move there and back, and a round of a world."""
        spec = plan_pb2.PlanSpec(
            topology=self.topology(),
            arrays=[
                plan_pb2.ArraySpec(
                    name="a",
                    shape=[8 + 2 * round_, 8],
                    element_type="f32",
                    source=text_sharding("{devices=[2,1]<=[2]}", 0, 1),
                    target=text_sharding("{replicated}", 0, 1),
                )
            ],
        )
        for _ in range(2):
            self.plans.CreatePlan(plan_pb2.CreatePlanRequest(spec=spec), timeout=CALL_SECONDS)
        elastic = plan_pb2.PlanSpec(
            topology=self.topology(),
            arrays=[
                plan_pb2.ArraySpec(
                    name="a",
                    shape=[64 + 4 * round_, 8],
                    element_type="f32",
                    source=sharding_pb2.Sharding(ref="rows"),
                    target=sharding_pb2.Sharding(ref="rows"),
                )
            ],
        )
        elastic.device_lists["data"].ids.extend(range(4))
        elastic.shardings["rows"].CopyFrom(
            sharding_pb2.Sharding(
                hlo_text="{devices=[4,1]<=[4]}", devices=sharding_pb2.DeviceList(ref="data")
            )
        )
        self.plans.PrecomputePlans(
            plan_pb2.PrecomputePlansRequest(
                spec=elastic, elastic_list="data", elastic_axis="0", hosts_plus_minus=1
            ),
            timeout=CALL_SECONDS,
        )
        self.move(STATE, 1 + 2 * round_, targets(ARRAYS, COLUMNS))
        self.move(STATE, 2 + 2 * round_, targets(ARRAYS, ROWS))
        self.group.barrier("a round")

    def test_every_panel_has_data(self):
        def target(url):
            return urllib.parse.urlsplit(url).netloc

        # As the chart's PodMonitor labels them.
        workers = [
            {
                "targets": [target(self.cluster.worker_metrics_url(host))],
                "labels": {"node": host, "namespace": "ml"},
            }
            for host in self.cluster.host_names
        ]
        prometheus = start_prometheus(
            self,
            self.cluster.root / "prometheus",
            [
                {
                    "job_name": "remesh-server",
                    "static_configs": [
                        {
                            "targets": [target(self.cluster.server_metrics_url)],
                            "labels": {"namespace": "ml"},
                        }
                    ],
                },
                {"job_name": "remesh-worker", "static_configs": workers},
            ],
        )
        channel = self.cluster.channel()
        self.addCleanup(channel.close)
        self.plans = plan_pb2_grpc.PlanServiceStub(channel)
        self.group = ServerGroup("jobs/test/worlds/shown", lambda: channel, Place(0, 1))
        self.addCleanup(self.group.close)
        self.create_and_write(STATE, ARRAYS, ROWS)

        def has_data(expression):
            return any(row["value"][1] != "NaN" for row in query(prometheus, expression))

        missing = panels()
        deadline = time.monotonic() + PATIENCE_SECONDS
        for round_ in range(1000):
            self.work(round_)
            missing = {
                title: expression
                for title, expression in missing.items()
                if not has_data(expression)
            }
            if not set(missing) - set(EMPTY) or time.monotonic() > deadline:
                break
        print(f"{len(panels())} panels, without data: {sorted(missing)}")
        self.assertEqual(set(missing) - set(EMPTY), set(), json.dumps(missing, indent=1))


if __name__ == "__main__":
    unittest.main()
