# SPDX-License-Identifier: Apache-2.0
"""NCCL's communicators serve one move after the other among the same hosts, and end with any of
them. Over simulated GPUs and the fake NCCL."""

import os
import re
import unittest
import urllib.request

from remesh.trainer import ExecutionFailed, Trainer
from remesh.v1 import plan_pb2, reshard_pb2, state_pb2

from harness import CALL_SECONDS, Array, ClusterTest, targets, text_sharding

ROWS = text_sharding("{devices=[4,1]<=[4]}", 0, 1, 2, 3)
COLUMNS = text_sharding("{devices=[1,4]<=[4]}", 3, 2, 1, 0)
ON_HOST_0 = text_sharding("{devices=[2,1]<=[2]}", 0, 1)
ARRAYS = [Array("w", "f32", (64, 32)), Array("b", "bf16", (16, 8))]
# In windows so small that there is time to cancel.
LARGE, SLOW = [Array("w", "f32", (2048, 1024))], plan_pb2.PlanOptions(window_bytes=16 << 10)


@unittest.skipUnless(os.environ.get("REMESH_TEST_DEVICE") == "sim", "only GPUs exchange by NCCL")
class NcclReuseTest(ClusterTest):
    HOSTS = 2

    def _made(self):
        """(created, reused) of both workers, each since it started."""
        return [
            tuple(
                int(
                    float(
                        re.search(
                            rf'^remesh_worker_nccl_communicators_total{{outcome="{outcome}"}} '
                            r"(\S+)$",
                            text,
                            re.M,
                        )[1]
                    )
                )
                for outcome in ("created", "reused")
            )
            for text in map(self._metrics, self.cluster.host_names)
        ]

    def _metrics(self, host: str) -> str:
        with urllib.request.urlopen(
            self.cluster.worker_metrics_url(host), timeout=CALL_SECONDS
        ) as page:
            return page.read().decode()

    def _since(self, before):
        return [(now[0] - then[0], now[1] - then[1]) for now, then in zip(self._made(), before)]

    def _create(self, what: str, arrays=None) -> str:
        name = f"jobs/reuse/states/{what}"
        self.create_and_write(name, arrays or ARRAYS, ROWS)
        return name

    def _delete(self, name: str) -> None:
        self.controller.states.DeleteState(
            state_pb2.DeleteStateRequest(name=name), timeout=CALL_SECONDS
        )

    def _restart(self, host: str) -> None:
        self.cluster.workers[host].kill()
        self.cluster.start_worker(host)
        self.trainers[host].close()
        self.trainers[host] = Trainer(self.cluster.server_address, self.cluster.worker_socket(host))
        self.controller = self.trainers[self.cluster.host_names[0]]

    def test_the_second_move_uses_those_of_the_first(self):
        name, before = self._create("twice"), self._made()
        self.move(name, 1, targets(ARRAYS, COLUMNS))
        first = self._since(before)
        self.assertEqual({sum(host) for host in first}, {1})
        self.move(name, 2, targets(ARRAYS, ROWS))
        self.move(name, 3, targets(ARRAYS, COLUMNS))
        self.assertEqual([(host[0], host[1] + 2) for host in first], self._since(before))
        self.check_everywhere(name, 4, ARRAYS)
        self._delete(name)

    def test_other_states_use_them_too(self):
        name, other = self._create("one"), self._create("other")
        self.move(name, 1, targets(ARRAYS, COLUMNS))
        before = self._made()
        self.move(other, 1, targets(ARRAYS, COLUMNS))
        self.assertEqual(self._since(before), [(0, 1), (0, 1)])
        self.check_everywhere(other, 2, ARRAYS)
        self._delete(name)
        self._delete(other)

    def test_a_move_inside_a_host_leaves_them_alone(self):
        name, inside = self._create("between"), "jobs/reuse/states/inside"
        self.create_and_write(inside, ARRAYS, ON_HOST_0, ["host-0"])
        self.move(name, 1, targets(ARRAYS, COLUMNS))
        before = self._made()
        self.move(inside, 1, targets(ARRAYS, text_sharding("{devices=[1,2]<=[2]}", 1, 0)))
        self.move(name, 2, targets(ARRAYS, ROWS))
        self.assertEqual(self._since(before), [(0, 1), (0, 1)])
        self.check_everywhere(name, 3, ARRAYS)
        self._delete(name)
        self._delete(inside)

    def test_after_a_killed_worker_they_are_made_again(self):
        name = self._create("killed")
        self.move(name, 1, targets(ARRAYS, COLUMNS))
        self._restart("host-1")
        self.wait_until(
            "the state is READY", lambda: self.controller.wait_ready(name, CALL_SECONDS)
        )
        before = self._made()
        self.move(name, 2, targets(ARRAYS, ROWS))
        self.assertEqual(self._since(before), [(1, 0), (1, 0)])
        self.move(name, 3, targets(ARRAYS, COLUMNS))
        self.assertEqual(self._since(before), [(1, 1), (1, 1)])
        self.check_everywhere(name, 4, ARRAYS)
        self._delete(name)

    def test_after_a_restarted_server_they_are_made_again(self):
        name = self._create("server")
        self.move(name, 1, targets(ARRAYS, COLUMNS))
        self.cluster.server.kill()
        self.cluster.start_server()
        self.wait_until(
            "the state is READY", lambda: self.controller.wait_ready(name, CALL_SECONDS)
        )
        before = self._made()
        self.move(name, 2, targets(ARRAYS, ROWS))
        self.assertEqual(self._since(before), [(1, 0), (1, 0)])
        self.check_everywhere(name, 3, ARRAYS)
        self._delete(name)

    def test_after_a_failed_move_they_are_made_again(self):
        name = self._create("failed", LARGE)
        self.move(name, 1, targets(LARGE, COLUMNS))
        started = self.controller.start_reshard(name, 2, targets(LARGE, ROWS), SLOW)
        self.controller.reshards.CancelExecution(
            reshard_pb2.CancelExecutionRequest(name=started.name), timeout=CALL_SECONDS
        )
        with self.assertRaises(ExecutionFailed):
            self.controller.wait_execution(started.name)
        before = self._made()
        self.move(name, 2, targets(LARGE, ROWS))
        self.assertEqual(self._since(before), [(1, 0), (1, 0)])
        self.check_everywhere(name, 3, LARGE)
        self._delete(name)


if __name__ == "__main__":
    unittest.main()
