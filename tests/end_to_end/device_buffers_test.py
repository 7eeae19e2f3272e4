# SPDX-License-Identifier: Apache-2.0
"""Buffers in the memory of (simulated) GPUs: trainers map them, and they outlive worker and
trainer, for the keeper holds them."""

import os
import socket
import unittest

import grpc
from remesh import device_memory, errors
from remesh.v1 import local_pb2, sharding_pb2, state_pb2

from harness import Array, ClusterTest, targets, text_sharding

ROWS = text_sharding("{devices=[4,1]<=[4]}", 0, 1, 2, 3)
COLUMNS = text_sharding("{devices=[1,4]<=[4]}", 3, 2, 1, 0)
ARRAYS = [Array("w", "f32", (64, 32)), Array("b", "bf16", (16, 8))]


class DeviceBuffersTest(ClusterTest):
    HOSTS = 2

    def setUp(self):
        self.wait_until("the keeper has nothing of other tests", lambda: self._kept() == 0)

    def test_shards_are_in_the_memory_of_their_devices(self):
        name = self._create("where")
        for host, trainer in self.trainers.items():
            shards = self._described(trainer, name, 1)
            self.assertEqual({shard.WhichOneof("memory") for shard in shards}, {"device_memory"})
            self.assertEqual({shard.device_memory.kind for shard in shards}, {"sim"})
            self.assertEqual(
                len({shard.device_memory.token for shard in shards}), 2, "one a device"
            )
        # A plan may go from one kind of memory to another, and back.
        to_host = sharding_pb2.Sharding()
        to_host.CopyFrom(COLUMNS)
        to_host.memory_kind = "pinned_host"
        self.move(name, 1, targets(ARRAYS, to_host))
        self.assertEqual(
            {shard.WhichOneof("memory") for shard in self._described(self.controller, name, 2)},
            {"path"},
        )
        self.check_everywhere(name, 2, ARRAYS)
        self.move(name, 2, targets(ARRAYS, ROWS))
        self.check_everywhere(name, 3, ARRAYS)
        self._delete(name)

    def test_a_killed_worker_finds_them_again_with_the_trainer_absent(self):
        name = self._create("killed")
        for host in self.cluster.host_names:
            self.cluster.workers[host].kill()
        for host in self.cluster.host_names:
            self.cluster.start_worker(host)
        self._wait_ready(name)
        self.check_everywhere(name, 1, ARRAYS)
        self.move(name, 1, targets(ARRAYS, COLUMNS))
        self.check_everywhere(name, 2, ARRAYS)
        self._delete(name)

    def test_a_trainer_keeps_what_it_has_mapped(self):
        name = self._create("kept")
        mapped = self.controller.read(name, 1)
        before = [shard.bytes.copy() for shard in mapped]
        self.move(name, 1, targets(ARRAYS, COLUMNS))
        self.move(name, 2, targets(ARRAYS, ROWS))
        self.wait_until("generation 1 is retired", lambda: self._retired(name, 1))
        for shard, bytes_before in zip(mapped, before):
            self.assertTrue((shard.bytes == bytes_before).all())
        self._delete(name)

    def test_retired_and_deleted_memory_is_free(self):
        name = self._create("freed")
        self.assertEqual(self._kept(), 4)
        self.move(name, 1, targets(ARRAYS, COLUMNS))
        self.wait_until("generation 1 is free", lambda: self._kept() == 4)
        self._delete(name)
        self.wait_until("all of it is free", lambda: self._kept() == 0)

    def test_a_restarted_keeper_is_told_of_what_it_is_to_keep(self):
        name = self._create("told")
        self.cluster.keeper.kill()
        self.cluster.start_keeper()
        self.wait_until("the keeper has all again", lambda: self._kept() == 4)
        self.cluster.workers["host-1"].kill()
        self.cluster.start_worker("host-1")
        self._wait_ready(name)
        self.check_everywhere(name, 1, ARRAYS)
        self._delete(name)

    def test_memory_that_no_keeper_kept_is_said_to_be_lost(self):
        name = self._create("lost")
        self.cluster.workers["host-1"].kill()
        self.cluster.keeper.kill()
        self.cluster.start_keeper()
        self.cluster.start_worker("host-1")
        self.wait_until(
            "the state waits for what is lost",
            lambda: self._state(name).phase == state_pb2.State.BUILDING,
        )
        self.assertIn("its device memory", self.cluster.workers["host-1"].log_tail(200))
        # Whoever has it still may write it again.
        self.write_everywhere(name, ARRAYS, hosts=["host-1"])
        self._wait_ready(name)
        self.check_everywhere(name, 1, ARRAYS)
        self._delete(name)

    def test_strangers_at_the_socket_of_handles(self):
        path = self.cluster.worker_socket("host-0") + ".handles"
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o660)
        with self.assertRaisesRegex(ConnectionError, "no memory has this token"):
            device_memory.receive_handle(self.cluster.worker_socket("host-0"), "0" * 32)
        idle = []
        for garbage in (b"x", b"\xff" * 4096, b"y" * 20_000):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            connection.connect(path)
            connection.send(garbage)
            idle.append(connection)
        name = self._create("stranger")
        self.check_everywhere(name, 1, ARRAYS)
        self._delete(name)
        for connection in idle:
            connection.close()

    def test_a_changed_file_of_settings_is_taken(self):
        """The reader knows the same kinds of GPUs as the process."""
        file = self.cluster.root / "host-0.yaml"
        before = file.read_text()
        self.addCleanup(file.write_text, before)
        file.write_text(before + "log_level: debug\n")
        self.wait_until(
            "it is taken",
            lambda: '"settings read again"' in self.cluster.workers["host-0"].log.read_text(),
        )

    def test_more_than_a_device_has_is_refused(self):
        name, huge = "jobs/device/states/huge", [Array("w", "u8", (8 << 30,))]
        self.controller.create_state(
            self.state_of(name, huge, text_sharding("{devices=[4]<=[4]}", 0, 1, 2, 3))
        )
        with self.assertRaises(grpc.RpcError) as refusal:
            self.controller.allocate(name)
        self.assertEqual(errors.error_info(refusal.exception).reason, "DEVICE_MEMORY_EXHAUSTED")
        self._delete(name)

    # ---- steps ----

    def _create(self, name: str) -> str:
        name = f"jobs/device/states/{name}"
        self.create_and_write(name, ARRAYS, ROWS)
        return name

    def _described(self, trainer, name: str, generation: int):
        return trainer.local.GetShards(
            local_pb2.GetShardsRequest(state=name, generation=generation, wait=True), timeout=20
        ).shards

    def _kept(self) -> int:
        """Segments that the keeper holds."""
        folder = f"/proc/{self.cluster.keeper.popen.pid}/fd"
        count = 0
        for entry in os.listdir(folder):
            try:
                count += "remesh-sim-device" in os.readlink(f"{folder}/{entry}")
            except FileNotFoundError:
                pass
        return count

    def _state(self, name: str) -> state_pb2.State:
        return self.controller.states.GetState(state_pb2.GetStateRequest(name=name), timeout=20)

    def _wait_ready(self, name: str) -> None:
        self.wait_until(
            "the state is READY", lambda: self._state(name).phase == state_pb2.State.READY
        )

    def _retired(self, name: str, generation: int) -> bool:
        try:
            self._described(self.controller, name, generation)
        except grpc.RpcError as error:
            return errors.error_info(error).reason == "GENERATION_RETIRED"
        return False

    def _delete(self, name: str) -> None:
        self.controller.states.DeleteState(state_pb2.DeleteStateRequest(name=name), timeout=20)


if __name__ == "__main__":
    unittest.main()
