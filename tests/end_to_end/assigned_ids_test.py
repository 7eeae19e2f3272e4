# SPDX-License-Identifier: Apache-2.0
"""Workers that leave their device ids to the server: two hosts never share one, and each keeps its
own over every restart."""

import unittest

from harness import CALL_SECONDS, Array, ClusterTest, targets, text_sharding
from remesh.v1 import worker_pb2, worker_pb2_grpc

STATE = "jobs/test/states/s"
ARRAYS = [Array("w", "f32", (8, 6))]


class AssignedIdsTest(ClusterTest):
    HOSTS = 2
    ASSIGNED_IDS = True

    def _ids(self):
        return {host: self.cluster.device_ids(host) for host in self.cluster.host_names}

    def test_ids_stay(self):
        ids = self._ids()
        self.assertEqual(sorted(sum(ids.values(), [])), [0, 1, 2, 3])
        self.create_and_write(STATE, ARRAYS, text_sharding("{devices=[4,1]<=[4]}", 0, 1, 2, 3))
        self.move(STATE, 1, targets(ARRAYS, text_sharding("{devices=[1,2]<=[2]}", *ids["host-1"])))
        self.cluster.kill_server()
        for host in self.cluster.host_names:
            self.cluster.workers[host].stop()
        self.cluster.start_server()
        for host in reversed(self.cluster.host_names):  # not in the order of their ids
            self.cluster.start_worker(host)
        self.assertEqual(self._ids(), ids)
        self.check_everywhere(STATE, 2, ARRAYS)
        self.move(STATE, 2, targets(ARRAYS, text_sharding("{devices=[2,1]<=[2]}", *ids["host-0"])))
        self.check_everywhere(STATE, 3, ARRAYS)


class RejoinedHostTest(ClusterTest):
    """A host that a state has left, and that comes back with other device ids."""

    HOSTS = 2
    ASSIGNED_IDS = True

    def test_it_is_a_target_again(self):
        ids = {host: self.cluster.device_ids(host) for host in self.cluster.host_names}
        rows = "{devices=[2,1]<=[2]}"
        state = self.state_of(STATE, ARRAYS, text_sharding(rows, *ids["host-0"]))
        state.spec.ClearField("topology")  # the workers' own numbering
        self.controller.create_state(state)
        self.write_everywhere(STATE, ARRAYS, hosts=["host-0"])
        self.controller.wait_ready(STATE, CALL_SECONDS)
        self.move(STATE, 1, targets(ARRAYS, text_sharding(rows, *ids["host-1"])))
        self.cluster.workers["host-0"].stop()
        with self.cluster.channel() as channel:
            worker_pb2_grpc.WorkerServiceStub(channel).ForgetWorker(
                worker_pb2.ForgetWorkerRequest(name="workers/host-0"), timeout=CALL_SECONDS
            )
        self.cluster.start_worker("host-0")
        new_ids = self.cluster.device_ids("host-0")
        self.assertTrue(set(new_ids).isdisjoint(ids["host-0"]), new_ids)

        self.move(STATE, 2, targets(ARRAYS, text_sharding(rows, *new_ids)))
        self.assertEqual(len(self.check_everywhere(STATE, 3, ARRAYS, hosts=["host-0"])), 2)


if __name__ == "__main__":
    unittest.main()
