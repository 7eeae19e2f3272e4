# SPDX-License-Identifier: Apache-2.0
"""remesh.trainer against a planner and a worker that only pretend, in this process."""

import sys
import types
import unittest

import grpc
import numpy as np

from remesh import errors, lending
from remesh.trainer import ExecutionFailed, Trainer
from remesh.v1 import reshard_pb2, state_pb2

from trainer_case import STATE, TrainerCase


class TrainerTest(TrainerCase):
    def test_what_is_written_is_read(self):
        trainer = self.start()
        weights, codes = trainer.allocate(STATE)
        weights.values()[:] = np.arange(6, dtype=np.uint16).reshape(2, 3)
        codes.bytes[:] = (0x21, 0x03)
        self.assertEqual(trainer.seal(STATE).sealed_shards, 2)
        weights, codes = trainer.read(STATE, generation=1)
        self.assertEqual((weights.values().shape, weights.values().dtype), ((2, 3), np.uint16))
        self.assertEqual(weights.values()[1, 2], 5)
        self.assertEqual(codes.bytes.tolist(), [0x21, 0x03])
        with self.assertRaises(TypeError):
            codes.values()
        with self.assertRaises(ValueError):
            weights.values()[0, 0] = 1

    def test_a_generation_retired_before_it_is_mapped_is_refused(self):
        trainer = self.start()
        self.worker.retires = True
        with self.assertRaises(grpc.RpcError) as refusal:
            trainer.read("jobs/a/states/b", 1)
        self.assertEqual(refusal.exception.code(), grpc.StatusCode.NOT_FOUND)

    @unittest.skipIf(sys.version_info < (3, 11), "errors have no notes")
    def test_a_deadline_says_what_was_waited_for(self):
        trainer = self.start()
        self.worker.hangs = True
        for wait, what in (
            (lambda: trainer.allocate("jobs/a/states/b", 0.2), "jobs/a/states/b is on this host"),
            (
                lambda: trainer.read("jobs/a/states/b", 9, 0.2),
                "generation 9 of jobs/a/states/b is committed on this host",
            ),
        ):
            with self.assertRaises(grpc.RpcError) as late:
                wait()
            self.assertEqual(late.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
            self.assertEqual(late.exception.__notes__, [f"after 0.2 s of waiting until {what}"])

    def test_waits_over_a_restart_of_the_server(self):
        seen = []
        ended = self.start().wait_execution("jobs/a/executions/1", 10, on_change=seen.append)
        self.assertEqual(ended.phase, reshard_pb2.Execution.SUCCEEDED)
        self.assertEqual(len(seen), 3)

    def test_waits_for_a_state_over_a_restart_of_the_server(self):
        self.assertEqual(self.start().wait_ready(STATE, 10).phase, state_pb2.State.READY)
        self.assertEqual(self.planner.watches, 3)

    @unittest.skipIf(sys.version_info < (3, 11), "errors have no notes")
    def test_a_state_that_does_not_become_ready_says_why(self):
        State, HostWrite = state_pb2.State, state_pb2.HostWrite
        for stays, why in (
            (State(phase=State.DEGRADED, lost_hosts=["host-1"]), "DEGRADED; lost: host-1"),
            (
                State(
                    phase=State.BUILDING,
                    host_writes=[HostWrite(host="host-0", write="7"), HostWrite(host="host-1")],
                ),
                "BUILDING; of different writes: 7 on host-0, no write on host-1",
            ),
        ):
            trainer = self.start()
            self.planner.stays = stays
            with self.assertRaises(grpc.RpcError) as late:
                trainer.wait_ready(STATE, 1)
            self.assertEqual(
                late.exception.__notes__,
                [f"after 1 s of waiting until {STATE} is READY; it is {why}"],
            )

    def test_a_start_whose_answer_was_lost_is_asked_again_with_the_same_id(self):
        targets = reshard_pb2.Targets(arrays=[reshard_pb2.TargetArray(name="w")])
        self.assertEqual(self.start().start_reshard(STATE, 1, targets).name, "jobs/a/executions/1")
        first, second = self.planner.starts
        self.assertEqual(first, second)
        self.assertEqual(len(first.request_id), 36)

    def test_a_start_carries_plan_id_and_deadline(self):
        self.start().start_reshard(
            STATE, 3, plan="plans/p", request_id="mine", deadline_seconds=1.5
        )
        request = self.planner.starts[-1]
        self.assertEqual(
            (request.plan, request.request_id, request.expected_generation), ("plans/p", "mine", 3)
        )
        self.assertEqual(request.deadline.ToTimedelta().total_seconds(), 1.5)
        self.assertFalse(request.HasField("targets"))
        self.assertFalse(request.lose_absent_hosts)
        self.start().start_reshard(STATE, 3, reshard_pb2.Targets(), lose_absent_hosts=True)
        self.assertTrue(self.planner.starts[-1].lose_absent_hosts)
        for wrong in ({}, {"targets": reshard_pb2.Targets(), "plan": "plans/p"}):
            with self.assertRaises(ValueError):
                self.start().start_reshard(STATE, 3, **wrong)

    def test_a_failure_says_why(self):
        with self.assertRaises(ExecutionFailed) as failure:
            self.start(reshard_pb2.Execution.FAILED).wait_execution("jobs/a/executions/1", 10)
        self.assertEqual(
            str(failure.exception),
            "jobs/a/executions/1 ended in FAILED: "
            "UNAVAILABLE (WORKER_LOST): host-1 is lost [host=host-1]",
        )

    def test_a_write_is_named_in_every_call_that_takes_one(self):
        trainer = self.start()
        trainer.seal(STATE)
        trainer.unseal(STATE, write="7")
        trainer.seal(STATE, write="7")
        trainer.unseal(STATE, write="9")
        trainer.seal(
            STATE
        )  # another process may have begun a write since: the name is that of ours
        trainer.seal(STATE)
        memory = types.SimpleNamespace(
            kind="sim", device_uuid="sim:0", bytes=64, ipc=lending.Allocation(bytes(64), 64)
        )
        trainer.lend(STATE, [memory], [], write="8")
        self.assertEqual(
            self.worker.writes,
            [
                ("Seal", ""),
                ("Unseal", "7"),
                ("Seal", "7"),
                ("Unseal", "9"),
                ("Seal", "9"),
                ("Seal", ""),
                ("Lend", "8"),
            ],
        )
        trainer.close()

    def test_a_server_is_host_and_port(self):
        for wrong in ("http://127.0.0.1:7070", "127.0.0.1", "localhost:", ""):
            with self.assertRaisesRegex(ValueError, "must be HOST:PORT"):
                Trainer(wrong, "/nowhere/worker.sock")
        for right in ("[::1]:7070", "unix:/tmp/x.sock", "dns:///planner:7070"):
            Trainer(right, "/nowhere/worker.sock").close()

    def test_a_refusal_says_why(self):
        with self.assertRaises(grpc.RpcError) as refusal:
            self.start().states.GetState(state_pb2.GetStateRequest(name=STATE), timeout=10)
        self.assertEqual(
            errors.describe(refusal.exception),
            "UNAVAILABLE (WORKER_LOST): host-1 is lost [host=host-1]",
        )


if __name__ == "__main__":
    unittest.main()
