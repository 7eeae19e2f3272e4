# SPDX-License-Identifier: Apache-2.0
"""remesh.connect() over real processes: states by uid, restarts, moves and refusals."""

import concurrent.futures
import os
import subprocess
import sys
import unittest

import numpy as np

import remesh
from harness import ClusterTest
from remesh import buffers, errors, layout

WEIGHTS = np.arange(64 * 6, dtype=np.float32).reshape(64, 6)

ENDING = """
import sys, threading, remesh
client = remesh.connect()
rows = remesh.layout.replicated(client.host.device_ids)
state = client.create(sys.argv[2], {"w": remesh.Array((1024, 64), "f32", rows)})
state.allocate()


def wait():
    try:
        state.wait_ready(60)
    except remesh.errors.Closed:
        pass


threading.Thread(target=wait, daemon=True).start()
if sys.argv[1] == "closed":
    client.close()
    client.close()
if sys.argv[1] == "exit":
    sys.exit(3)
"""


class PythonClientTest(ClusterTest):
    HOSTS, DEVICES_PER_HOST = 2, 2

    def setUp(self):
        super().setUp()
        self.clients = [
            self.enter(remesh.connect(self.cluster.worker_socket(host)))
            for host in self.cluster.host_names
        ]
        self.first = self.clients[0]
        self.devices = [device for client in self.clients for device in client.host.device_ids]

    def enter(self, client: remesh.Client) -> remesh.Client:
        self.addCleanup(client.close)
        return client

    def arrays(self):
        rows = layout.named({"x": len(self.devices)}, ("x",), self.devices)
        return {
            "w": remesh.Array(WEIGHTS.shape, "f32", rows),
            "v": remesh.Array((64,), "f32", rows),
        }

    def fill(self, local) -> None:
        whole = {"w": WEIGHTS, "v": WEIGHTS[:, 0]}
        buffers.write(
            (shard, whole[shard.info.array][shard.box.slices]) for shard in local.allocate()
        )

    def ready(self, name: str) -> remesh.State:
        """A state that every host has written."""
        state = self.first.create(name, self.arrays(), step=5)
        for client in self.clients:
            local = client.local(name)
            self.fill(local)
            local.seal()
            self.assertEqual(local.uid, state.uid)
        return state.wait_ready()

    def check(self, state: remesh.State, generation: int) -> None:
        whole = {"w": WEIGHTS, "v": WEIGHTS[:, 0]}
        for client in self.clients:
            for shard in client.local(state.name, state.uid).read(generation):
                np.testing.assert_array_equal(
                    shard.values(), whole[shard.info.array][shard.box.slices]
                )

    def test_a_worker_knows_the_host_and_the_server(self):
        hosts = [client.host for client in self.clients]
        self.assertEqual([host.name for host in hosts], self.cluster.host_names)
        self.assertEqual(
            [host.device_ids for host in hosts],
            [tuple(self.cluster.device_ids(name)) for name in self.cluster.host_names],
        )
        self.assertEqual({host.server for host in hosts}, {self.cluster.server_address})
        self.assertEqual(len({host.cluster_uid for host in hosts}), 1)

    def test_a_move_across_restarts_of_the_server(self):
        state = self.ready("jobs/test/states/moved")
        everywhere = {"w": layout.replicated(self.devices), "v": layout.replicated(self.devices)}
        moved = self.while_the_server_restarts(
            lambda: state.wait_ready().reshard(everywhere).wait()
        )
        self.check(state, moved.generation)
        self.assertEqual(self.while_the_server_restarts(state.refresh).generation, moved.generation)
        state.delete(wait=20)

    def while_the_server_restarts(self, call):
        """Makes the call while there is no server, and returns its result. This thread starts the
        server, which lives no longer than it."""
        self.cluster.kill_server()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            result = pool.submit(call)
            self.cluster.start_server()
            self.cluster.wait_workers()
            return result.result()

    def test_a_layout_that_is_there_already_moves_nothing(self):
        state = self.ready("jobs/test/states/same")
        same = state.reshard({name: array.layout for name, array in self.arrays().items()}).wait()
        self.assertEqual((same.generation, same.crossing_bytes), (1, 0))
        self.check(state, 1)
        part = state.reshard({"v": layout.replicated(self.devices)}).wait()
        self.check(state, part.generation)
        state.delete(wait=20)

    def test_a_state_that_was_written_cannot_be_written_again(self):
        state = self.ready("jobs/test/states/once")
        with self.assertRaises(errors.StateCommitted):
            state.allocate()
        with self.assertRaises(errors.StateCommitted):
            state.update(step=6)
        self.assertEqual(state.refresh().step, 5)
        state.delete(wait=20)

    def test_the_step_is_set_before_the_last_seal(self):
        name = "jobs/test/states/late"
        state = self.first.create(name, self.arrays())
        for client in self.clients:
            self.fill(client.local(name))
        self.clients[1].local(name).seal()
        state.update(step=9, labels={"kind": "save"})
        state.seal()
        ready = state.wait_ready()
        self.assertEqual((ready.step, ready.labels), (9, {"kind": "save"}))
        state.delete(wait=20)

    def test_the_writer_of_a_former_state_touches_nothing_of_the_new_one(self):
        name = "jobs/test/states/again"
        former = self.first.create(name, self.arrays())
        locals_of_former = [client.local(name, former.uid) for client in self.clients]
        for local in locals_of_former:
            self.fill(local)
        former.delete(wait=20)
        state = self.first.create(name, self.arrays())
        for client in self.clients:
            client.local(name, state.uid).allocate()
        for call in (
            former.seal,
            former.refresh,
            former.delete,
            lambda: former.update(step=1),
            locals_of_former[1].seal,
        ):
            with self.assertRaises(errors.StateReplaced):
                call()
        self.assertEqual(state.refresh().phase, "BUILDING")
        state.delete(wait=20)

    def test_what_does_not_fit_is_named(self):
        rows = layout.replicated(self.devices)
        with self.assertRaises(errors.NoRoom) as caught:
            self.first.create("jobs/test/states/huge", {"w": remesh.Array((1 << 44,), "f32", rows)})
        self.assertEqual(
            (caught.exception.host, caught.exception.needed_bytes), ("host-0", 2 * 4 << 44)
        )
        self.assertLess(int(caught.exception.metadata["memory_bytes"]), 1 << 44)
        with self.assertRaises(errors.NotFound):
            self.first.state("jobs/test/states/huge")

    def test_states_are_listed_without_their_arrays(self):
        state = self.ready("jobs/test/states/listed")
        (found,) = [each for each in self.first.states("jobs/test") if each.name == state.name]
        self.assertEqual((found.uid, found.step, found.arrays), (state.uid, 5, {}))
        cost = found.plan({name: layout.replicated(self.devices) for name in self.arrays()})
        self.assertEqual(cost.total_bytes, 4 * (WEIGHTS.nbytes + WEIGHTS[:, 0].nbytes))
        self.assertEqual(
            [worker.name for worker in self.first.workers()], ["workers/host-0", "workers/host-1"]
        )
        state.delete(wait=20)

    def test_a_process_that_ends_in_the_middle_of_its_calls_ends_in_order(self):
        """With an open stream in another thread, with and without close(), and by an exit of its
        own."""
        env = {**os.environ, "REMESH_SOCKET": self.cluster.worker_socket("host-0")}
        for attempt in range(3):
            for mode, code in (("open", 0), ("closed", 0), ("exit", 3)):
                name = f"jobs/test/states/{mode}-{attempt}"
                ended = subprocess.run(
                    [sys.executable, "-c", ENDING, mode, name],
                    env=env,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.assertEqual((ended.returncode, ended.stderr), (code, ""), mode)
                self.first.state(name).delete(wait=20)


if __name__ == "__main__":
    unittest.main()
