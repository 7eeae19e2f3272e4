# SPDX-License-Identifier: Apache-2.0
"""The journal goes back in time, or belongs to another cluster: nothing that workers hold is lost, and somebody is told."""
import shutil
import unittest
import urllib.request

import grpc
from remesh.v1 import state_pb2, worker_pb2, worker_pb2_grpc

from harness import CALL_SECONDS, Array, ClusterTest, targets, text_sharding

NAME = "jobs/test/states/kept"
ARRAYS = [Array("w", "f32", (8, 8), 1)]
ROWS = text_sharding("{devices=[2,1]<=[2]}", 0, 1)
COLUMNS = text_sharding("{devices=[1,2]<=[2]}", 0, 1)


class OlderJournalTest(ClusterTest):
    HOSTS, DEVICES_PER_HOST = 2, 1

    def get(self):
        return self.controller.states.GetState(state_pb2.GetStateRequest(name=NAME), timeout=CALL_SECONDS, wait_for_ready=True)

    def answers(self):
        """Whether the channel, which may still be one to a dead server, reaches the present one."""
        try:
            return self.get()
        except grpc.RpcError as error:
            self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE, error.details())
            return None

    def files(self):
        return [path for path in self.cluster.root.glob("journal.db*") if "plans" not in path.name and "ballast" not in path.name]

    def gauge(self, name):
        with urllib.request.urlopen(self.cluster.server_metrics_url, timeout=CALL_SECONDS) as page:
            for line in page.read().decode().splitlines():
                if line.startswith(name + " "):
                    return float(line.split()[1])
        self.fail(f"no {name}")

    def test_a_volume_restored_from_a_snapshot(self):
        self.create_and_write(NAME, ARRAYS, ROWS)
        self.cluster.stop_server()
        copies = {path: path.read_bytes() for path in self.files()}
        self.cluster.start_server()
        self.wait_until("READY", lambda: self.answers() and self.get().phase == state_pb2.State.READY)
        self.move(NAME, 1, targets(ARRAYS, COLUMNS))
        self.wait_until("generation 1 has gone", lambda: not self.readable(1))

        self.cluster.kill_server()
        for path in self.files():
            path.unlink()
        for path, content in copies.items():  # PATH.head as well: only the workers can know
            path.write_bytes(content)
        self.cluster.start_server()
        self.wait_until("the journal is known to be behind", lambda: self.gauge("remesh_journal_behind") == 1)
        self.wait_until("the server answers", self.answers)
        with self.assertRaises(grpc.RpcError) as refused:
            self.controller.states.DeleteState(state_pb2.DeleteStateRequest(name=NAME), timeout=CALL_SECONDS)
        self.assertEqual(refused.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
        self.assertIn("--accept-older-journal=", refused.exception.details())
        self.check_everywhere(NAME, 2, ARRAYS)  # was: told to free generation 2, the only one

        journal = refused.exception.details().split("--accept-older-journal=")[1].split()[0].rstrip(".;,")
        self.assertIn(f"journal_uid={journal}", self.cluster.server.log.read_text())
        self.cluster.stop_server()
        self.cluster._server_config.append(f"accept_older_journal: {journal}")
        self.addCleanup(self.cluster._server_config.pop)
        self.cluster.start_server()
        self.wait_until("both are attached", lambda: self.answers() and len(self.get().newer_hosts) == 2)
        self.assertEqual(self.gauge("remesh_journal_behind"), 0)
        self.assertEqual((self.get().phase, self.get().generation), (state_pb2.State.LOST, 1))
        self.check_everywhere(NAME, 2, ARRAYS)
        self.controller.states.DeleteState(state_pb2.DeleteStateRequest(name=NAME), timeout=CALL_SECONDS, wait_for_ready=True)
        self.wait_until("what was deleted has gone", lambda: not self.readable(2))

    def test_a_truncated_write_ahead_log_is_refused_at_start(self):
        self.create_and_write(NAME, ARRAYS, ROWS)
        self.cluster.kill_server()
        log = self.cluster.root / "journal.db-wal"
        content = log.read_bytes()
        log.write_bytes(content[:len(content) // 2])
        with self.assertRaises(Exception) as refused:
            self.cluster.start_server()
        self.assertIn("journal", str(refused.exception))
        self.check_everywhere(NAME, 1, ARRAYS)
        log.write_bytes(content)
        self.cluster.start_server()
        self.wait_until("READY", lambda: self.answers() and self.get().phase == state_pb2.State.READY)
        self.controller.states.DeleteState(state_pb2.DeleteStateRequest(name=NAME), timeout=CALL_SECONDS, wait_for_ready=True)

    def test_another_clusters_server_frees_nothing(self):
        self.create_and_write(NAME, ARRAYS, ROWS)
        self.cluster.stop_server()
        aside = self.cluster.root / "aside"
        aside.mkdir()
        for path in self.cluster.root.glob("journal.db*"):
            shutil.move(path, aside / path.name)
        self.cluster.start_server()  # by the same address, with a journal of its own
        self.wait_until("both were refused", lambda: all(
            "OTHER_CLUSTER" in worker.log_tail(30) for worker in self.cluster.workers.values()))
        self.check_everywhere(NAME, 1, ARRAYS)
        self.cluster.stop_server()
        for path in self.cluster.root.glob("journal.db*"):
            path.unlink()
        for path in aside.iterdir():
            shutil.move(path, self.cluster.root / path.name)
        self.cluster.start_server()
        self.wait_until("READY", lambda: self.answers() and self.get().phase == state_pb2.State.READY, 60)
        self.controller.states.DeleteState(state_pb2.DeleteStateRequest(name=NAME), timeout=CALL_SECONDS, wait_for_ready=True)

    def test_a_deleted_state_of_a_forgotten_host_is_freed_when_it_comes(self):
        self.create_and_write(NAME, ARRAYS, ROWS)
        self.cluster.workers["host-1"].kill()
        self.wait_until("host-1 is lost", lambda: self.get().phase == state_pb2.State.LOST)
        self.controller.states.DeleteState(state_pb2.DeleteStateRequest(name=NAME), timeout=CALL_SECONDS, wait_for_ready=True)
        with self.cluster.channel() as channel:
            worker_pb2_grpc.WorkerServiceStub(channel).ForgetWorker(
                worker_pb2.ForgetWorkerRequest(name="workers/host-1"), timeout=CALL_SECONDS)
        self.cluster.start_worker("host-1")
        folder = self.cluster.buffers / "host-1"
        self.wait_until("its buffers have gone", lambda: not any(
            path.is_file() and path.stat().st_size >= 128 for path in folder.rglob("data*")))

    def readable(self, generation):
        try:
            return self.trainers["host-0"].read(NAME, generation, 0.5)
        except grpc.RpcError:
            return []


if __name__ == "__main__":
    unittest.main()
