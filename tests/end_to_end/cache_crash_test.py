# SPDX-License-Identifier: Apache-2.0
"""The plan cache on disk under kill -9: the server always starts again, and never answers with
anything but what it would compute.

REMESH_KILLS: how often the server is killed, 10 by default.
"""

import os
import random
import sqlite3
import tempfile
import threading
import time
import unittest
from typing import Dict, List

import grpc
from remesh.testing import LocalCluster, Process
from remesh.v1 import cache_pb2, plan_pb2, plan_pb2_grpc, topology_pb2

from harness import BIN_DIR, CALL_SECONDS, text_sharding

KILLS = int(os.environ.get("REMESH_KILLS", "10"))
SEED = 20260101
CLIENTS = 4
LOAD_SECONDS_MAX = 0.4
CHECKS_A_ROUND = 12
HOSTS, DEVICES = 4, 4


def question(number: int) -> plan_pb2.PlanSpec:
    """Plans of no two numbers are equal; each has a few hundred transfers."""
    count = HOSTS * DEVICES
    ids = list(range(count))
    tiles = text_sharding(f"{{devices=[{count},1]<=[{count}]}}", *ids)
    turned = text_sharding(f"{{devices=[1,{count}]<=[{count}]}}", *ids[::-1])
    return plan_pb2.PlanSpec(
        topology=topology_pb2.Topology(
            hosts=[
                topology_pb2.Host(
                    name=f"h{host}",
                    device_ids=ids[host * DEVICES : (host + 1) * DEVICES],
                    nics=1,
                    nic_bytes_per_second=1e9,
                    fabric_bytes_per_second=1e10,
                )
                for host in range(HOSTS)
            ]
        ),
        arrays=[
            plan_pb2.ArraySpec(
                name="a",
                shape=[64 + number, 96 + number % 7],
                element_type="f32",
                source=tiles,
                target=turned,
            ),
            plan_pb2.ArraySpec(
                name="b", shape=[128, 64 + number], element_type="bf16", source=turned, target=tiles
            ),
        ],
    )


class Plans:
    """A server's PlanService."""

    def __init__(self, cluster: LocalCluster):
        self._channel = cluster.channel()
        self._stub = plan_pb2_grpc.PlanServiceStub(self._channel)

    def create(self, number: int, wait_for_ready: bool = True) -> plan_pb2.CreatePlanResponse:
        return self._stub.CreatePlan(
            plan_pb2.CreatePlanRequest(spec=question(number)),
            timeout=CALL_SECONDS,
            wait_for_ready=wait_for_ready,
        )

    def get(self, name: str) -> plan_pb2.Plan:
        return self._stub.GetPlan(
            plan_pb2.GetPlanRequest(name=name), timeout=CALL_SECONDS, wait_for_ready=True
        )

    def transfers(self, name: str) -> List[bytes]:
        request = plan_pb2.GetPlanRequest(name=name, view=plan_pb2.FULL)
        return [
            transfer.SerializeToString(deterministic=True)
            for part in self._stub.StreamPlan(request, timeout=CALL_SECONDS)
            for transfer in part.transfers
        ]

    def stats(self) -> cache_pb2.CacheStats:
        return self._stub.GetCacheStats(
            cache_pb2.GetCacheStatsRequest(), timeout=CALL_SECONDS, wait_for_ready=True
        )

    def close(self):
        self._channel.close()


class Load:
    """Clients that ask ever new questions until the server is gone."""

    def __init__(self, cluster: LocalCluster, first: int):
        self.answered: List[int] = []
        self.errors: List[grpc.RpcError] = []  # but that the server is gone
        self._lock, self._next = threading.Lock(), first
        self._threads = [
            threading.Thread(target=self._ask, args=(cluster,)) for _ in range(CLIENTS)
        ]
        for thread in self._threads:
            thread.start()

    def _ask(self, cluster: LocalCluster):
        plans = Plans(cluster)
        try:
            while True:
                with self._lock:
                    number, self._next = self._next, self._next + 1
                plans.create(number, wait_for_ready=False)
                with self._lock:
                    self.answered.append(number)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                self.errors.append(error)
        finally:
            plans.close()

    def join(self) -> int:
        """Returns the next question that was not asked yet."""
        for thread in self._threads:
            thread.join()
        return self._next


class CacheCrashTest(unittest.TestCase):
    def start(self, *server_config: str) -> LocalCluster:
        cluster = LocalCluster(BIN_DIR, 0, server_config=server_config)
        self.addCleanup(cluster.close)
        return cluster

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="remesh-plans-")
        self.addCleanup(folder.cleanup)
        self.store = f"{folder.name}/plans.db"
        self.cluster = self.start(f"plan_store_path: {self.store}")
        self.fresh_cluster = self.start("plan_store_bytes: 0")
        self.fresh_cluster.start_server()
        self.fresh = Plans(self.fresh_cluster)
        self.addCleanup(self.fresh.close)

    def check(self, plans: Plans, number: int) -> plan_pb2.Planning.Cache:
        """What is answered is what a server without a past computes, transfer for transfer."""
        answer, computed = plans.create(number), self.fresh.create(number)
        self.assertEqual(
            (answer.plan.name, answer.plan.fingerprint),
            (computed.plan.name, computed.plan.fingerprint),
        )
        self.assertEqual(answer.plan.summary, computed.plan.summary)
        self.assertEqual(
            plans.transfers(answer.plan.name), self.fresh.transfers(computed.plan.name)
        )
        return answer.planning.cache

    def test_killed_while_it_writes(self):
        seeded = random.Random(SEED)
        next_question, answered = 0, []
        came_from: Dict[int, int] = {}
        for kill in range(KILLS):
            with self.subTest(kill=kill, seed=SEED):
                self.kill_while_starting(seeded)
                self.cluster.start_server()
                plans = Plans(self.cluster)
                for number in (
                    seeded.sample(answered, min(CHECKS_A_ROUND // 2, len(answered)))
                    + answered[-CHECKS_A_ROUND // 2 :]
                ):
                    way = self.check(plans, number)
                    came_from[way] = came_from.get(way, 0) + 1
                self.assertEqual(
                    (plans.stats().disk.evictions.corrupt, plans.stats().disk.errors), (0, 0)
                )
                plans.close()
                load = Load(self.cluster, next_question)
                time.sleep(seeded.uniform(0, LOAD_SECONDS_MAX))
                self.cluster.kill_server()
                next_question = load.join()
                self.assertEqual(load.errors, [])
                answered += load.answered
        print(
            f"{KILLS} kills, {len(answered)} plans answered, checked: "
            f"{ {plan_pb2.Planning.Cache.Name(way): count for way, count in came_from.items()} }"
        )
        self.assertGreater(
            came_from.get(plan_pb2.Planning.DISK, 0), 0, "nothing was ever found on disk"
        )
        with sqlite3.connect(self.store) as database:
            self.assertEqual(database.execute("PRAGMA integrity_check").fetchall(), [("ok",)])

    def kill_while_starting(self, seeded: random.Random):
        """Now and then, when it has been started before."""
        config = self.cluster.root / "server.yaml"
        if not config.exists() or seeded.random() < 0.7:
            return
        early = Process(
            "early",
            [str(BIN_DIR / "remesh-server"), "--config", str(config)],
            self.cluster.root / "early.log",
        )
        time.sleep(seeded.uniform(0, 0.05))
        self.assertTrue(early.alive(), early.log_tail())
        early.kill()

    def test_a_restarted_server_answers_from_disk(self):
        self.cluster.start_server()
        plans = Plans(self.cluster)
        self.assertEqual(self.check(plans, 1), plan_pb2.Planning.MISS)
        self.assertEqual(self.check(plans, 1), plan_pb2.Planning.HIT)
        plans.close()
        self.assertEqual(self.cluster.stop_server(), 0)
        self.cluster.start_server()
        plans = Plans(self.cluster)
        self.assertEqual(self.check(plans, 1), plan_pb2.Planning.DISK)
        self.assertEqual(self.check(plans, 1), plan_pb2.Planning.HIT)
        self.assertEqual(self.check(plans, 2), plan_pb2.Planning.MISS)
        self.assertEqual((plans.stats().disk.hits, plans.stats().disk.misses), (1, 1))
        plans.close()

    def test_a_restarted_server_knows_plans_by_name(self):
        self.cluster.start_server()
        plans = Plans(self.cluster)
        name = plans.create(1).plan.name
        before = plans.transfers(name)
        plans.close()
        self.assertEqual(self.cluster.stop_server(), 0)
        self.cluster.start_server()
        plans = Plans(self.cluster)
        self.assertEqual(plans.get(name).name, name)
        self.assertEqual(plans.transfers(name), before)
        self.assertEqual(plans.stats().computations, 0)
        plans.close()


if __name__ == "__main__":
    unittest.main()
