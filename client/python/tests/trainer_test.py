# SPDX-License-Identifier: Apache-2.0
"""remesh.trainer against a planner and a worker that only pretend, in this process."""

import concurrent.futures
import contextlib
import gc
import itertools
import pathlib
import shutil
import socket
import sys
import tempfile
import threading
import time
import types
import unittest
import warnings
import weakref
from unittest import mock

import grpc
import numpy as np
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from waiting import wait_until

from remesh import errors, lending
from remesh.trainer import ExecutionFailed, Trainer
from remesh.v1 import (
    local_pb2,
    local_pb2_grpc,
    reshard_pb2,
    reshard_pb2_grpc,
    sharding_pb2,
    state_pb2,
    state_pb2_grpc,
)

STATE = "jobs/a/states/b"
_INFO = error_details_pb2.ErrorInfo(
    reason="WORKER_LOST", domain="remesh", metadata={"host": "host-1"}
)


def _details(info=_INFO, code=14):
    packed = any_pb2.Any()
    packed.Pack(info)
    return status_pb2.Status(code=code, message="host-1 is lost", details=[packed])


def _abort(context, code, reason):
    details = _details(error_details_pb2.ErrorInfo(reason=reason, domain="remesh"), code.value[0])
    context.set_trailing_metadata((("grpc-status-details-bin", details.SerializeToString()),))
    context.abort(code, "host-1 is lost")


class FakeWorker(local_pb2_grpc.LocalServiceServicer):
    """Two shards of one file: bf16 [2, 3] and s4 of three elements."""

    def __init__(self, folder):
        self.path = folder / "buffer"
        self.path.write_bytes(bytes(128))
        self.retires = self.retired = self.hangs = self.refuses_loans = False
        self.on_lend = lambda: None
        self.writes = []
        self.refusals = iter([])  # of GetShards: codes and reasons

    def Allocate(self, request, context):
        if self.hangs:
            context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
        common = {"path": str(self.path), "device": 4}
        return local_pb2.ShardsResponse(
            generation=1,
            shards=[
                local_pb2.Shard(
                    array="w",
                    box=sharding_pb2.Box(lo=[2, 0], hi=[4, 3]),
                    element_type="bf16",
                    offset=0,
                    bytes=12,
                    shape=[4, 3],
                    **common,
                ),
                local_pb2.Shard(
                    array="q",
                    box=sharding_pb2.Box(lo=[0], hi=[3]),
                    element_type="s4",
                    offset=64,
                    bytes=2,
                    shape=[3],
                    **common,
                ),
            ],
        )

    def GetShards(self, request, context):
        """A generation may be retired between the answer and the mapping."""
        for code, reason in self.refusals:
            _abort(context, code, reason)
        if self.retired:
            context.abort(grpc.StatusCode.NOT_FOUND, "retired")
        if self.retires:
            self.path.unlink()
            self.retired = True
        return self.Allocate(request, context)

    def Seal(self, request, context):
        self.writes.append(("Seal", request.write))
        return local_pb2.SealResponse(sealed_shards=2, total_shards=2)

    def Unseal(self, request, context):
        self.writes.append(("Unseal", request.write))
        return local_pb2.SealResponse(total_shards=2)

    def Lend(self, request, context):
        self.on_lend()
        self.writes.append(("Lend", request.write))
        if self.refuses_loans:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no")
        return local_pb2.SealResponse(sealed_shards=1, total_shards=1, generation=1)


class FakeHandles:
    """The worker's socket of handles. `has` says whether the worker has memory of the lease open,
    each time that it is asked; None: it gives no answer. leases: how many stand."""

    def __init__(self, path):
        self.has, self.asked, self.leases = itertools.repeat(False), 0, 0
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._server.bind(path)
        self._server.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(
                    target=self._answer, args=(self._server.accept()[0],), daemon=True
                ).start()

    def _answer(self, end):
        lease = 0
        with end:
            while question := end.recv(100):
                if question == b"lease":
                    lease = 1
                    self.leases += 1
                    end.send(b"ok 0123")
                else:
                    self.asked += 1
                    has = next(self.has)
                    if has is not None:
                        end.send(b"yes" if has else b"no")
        self.leases -= lease


class FakePlanner(reshard_pb2_grpc.ReshardServiceServicer, state_pb2_grpc.StateServiceServicer):
    def __init__(self, last_phase):
        self.last_phase, self.watches, self.starts, self.stays = last_phase, 0, [], None

    def StartExecution(self, request, context):
        """Takes the first request and goes down before it can answer."""
        self.starts.append(request)
        if len(self.starts) == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "going down")
        return reshard_pb2.Execution(name="jobs/a/executions/1")

    def WatchExecution(self, request, context):
        """Breaks off once, as a restarting server does."""
        self.watches += 1
        yield reshard_pb2.Execution(name=request.name, phase=reshard_pb2.Execution.TRANSFERRING)
        if self.watches == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "going down")
        yield reshard_pb2.Execution(name=request.name, phase=self.last_phase, error=_details())

    def WatchState(self, request, context):
        """Breaks off once, ends without a reason once."""
        self.watches += 1
        if self.stays is not None:
            yield self.stays
            while context.is_active():
                time.sleep(0.01)
            return
        yield state_pb2.State(name=request.name, phase=state_pb2.State.BUILDING)
        if self.watches == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "going down")
        if self.watches > 2:
            yield state_pb2.State(name=request.name, phase=state_pb2.State.READY)

    def GetState(self, request, context):
        context.set_trailing_metadata(
            (("grpc-status-details-bin", _details().SerializeToString()),)
        )
        context.abort(grpc.StatusCode.UNAVAILABLE, "host-1 is lost")


class Memory:
    """What a weak reference can name."""


class TrainerTest(unittest.TestCase):
    def start(self, last_phase=reshard_pb2.Execution.SUCCEEDED):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="trainer-test-"))
        self.addCleanup(shutil.rmtree, folder)
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        self.addCleanup(lambda: server.stop(None).wait())
        planner, self.worker = FakePlanner(last_phase), FakeWorker(folder)
        local_pb2_grpc.add_LocalServiceServicer_to_server(self.worker, server)
        reshard_pb2_grpc.add_ReshardServiceServicer_to_server(planner, server)
        state_pb2_grpc.add_StateServiceServicer_to_server(planner, server)
        socket_path = str(folder / "worker.sock")
        server.add_insecure_port(f"unix:{socket_path}")
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.another_trainer = lambda: Trainer(f"127.0.0.1:{port}", socket_path)
        trainer = self.another_trainer()
        self.planner, self.handles = planner, FakeHandles(socket_path + ".handles")
        self.addCleanup(self.handles.close)
        self.addCleanup(trainer.close)
        return trainer

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
            (lambda: trainer.allocate("jobs/a/states/b", 0.2), "jobs/a/states/b lies on this host"),
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

    def _lend(self, trainer, state=STATE, cells=None):
        """Lends memory that a handle names. Returns a weak reference to the memory, which is also
        appended to `cells`."""
        memory = types.SimpleNamespace(
            kind="sim", device_uuid="sim:0", bytes=64, ipc=lending.Allocation(bytes(64), 64)
        )
        memory.cell = Memory()
        cell = weakref.ref(memory.cell)
        if cells is not None:
            cells.append(cell)
        trainer.lend(state, [memory], [])
        return cell

    def test_close_waits_until_the_worker_has_let_go_of_what_was_lent(self):
        trainer = self.start()
        memory = self._lend(trainer)
        held = []
        self.handles.has = (
            held.append(memory() is not None) or answer for answer in (True, True, False)
        )
        trainer.close()
        self.assertEqual(held, [True, True, True], "asked until it was no, with the memory kept")
        self.assertIsNone(memory())

    def test_a_loan_that_fails_is_waited_for(self):
        trainer = self.start()
        self.worker.refuses_loans, self.handles.has = True, iter([True, False])
        with self.assertRaises(grpc.RpcError) as refusal:
            self._lend(trainer)
        self.assertEqual(refusal.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(self.handles.asked, 2)

    @mock.patch("remesh.loans.LET_GO_SECONDS", 0.0)
    def test_what_the_worker_does_not_let_go_of_is_kept(self):
        trainer = self.start()
        memory = self._lend(trainer)
        self.handles.has = itertools.repeat(True)
        with self.assertWarnsRegex(RuntimeWarning, "still has memory"):
            trainer.close()
        self.assertIsNotNone(memory())

    def test_an_interrupt_frees_nothing_that_the_worker_has(self):
        trainer = self.start()
        memory = self._lend(trainer)
        self.handles.has = itertools.repeat(True)
        with mock.patch("time.sleep", side_effect=KeyboardInterrupt), self.assertRaises(
            KeyboardInterrupt
        ):
            trainer.close()
        self.assertIsNotNone(memory())

    def test_an_interrupt_before_the_wait_frees_nothing_that_the_worker_has(self):
        trainer = self.start()
        memory = self._lend(trainer)
        self.handles.has = itertools.repeat(True)
        with mock.patch(
            "remesh.lending.Lease.close", side_effect=KeyboardInterrupt
        ), self.assertRaises(KeyboardInterrupt):
            trainer.close()
        self.assertIsNotNone(memory())

    def test_a_new_loan_stands_though_the_end_of_the_former_is_interrupted(self):
        trainer, cells = self.start(), []
        self._lend(trainer, cells=cells)
        self.handles.has = itertools.repeat(True)
        with mock.patch("time.sleep", side_effect=KeyboardInterrupt), self.assertRaises(
            KeyboardInterrupt
        ):
            self._lend(trainer, cells=cells)
        self._expect_only_the_second_stands(trainer, cells)

    @mock.patch("remesh.loans.LET_GO_SECONDS", 0.0)
    def test_a_new_loan_stands_though_the_warning_of_the_former_is_an_error(self):
        trainer, cells = self.start(), []
        self._lend(trainer, cells=cells)
        self.handles.has = itertools.repeat(True)
        with warnings.catch_warnings(), self.assertRaisesRegex(RuntimeWarning, "still has memory"):
            warnings.simplefilter("error")
            self._lend(trainer, cells=cells)
        self._expect_only_the_second_stands(trainer, cells)

    def _expect_only_the_second_stands(self, trainer, cells):
        self.assertTrue(all(cell() is not None for cell in cells), "the worker has them")
        wait_until(lambda: self.handles.leases == 1)
        with self.assertRaisesRegex(TimeoutError, "still has"):
            trainer.wait_returned(STATE, 0)
        self.handles.has = itertools.repeat(False)
        trainer.wait_returned(STATE)
        self.assertIsNone(cells[1]())

    def test_a_trainer_that_cannot_close_its_channels_ends_its_loans(self):
        trainer = self.start()
        memory = self._lend(trainer)
        held = []
        self.handles.has = (held.append(memory() is not None) or answer for answer in (True, False))
        with mock.patch.object(
            trainer._server, "close", side_effect=RuntimeError("cannot")
        ), self.assertRaisesRegex(RuntimeError, "cannot"):
            trainer.close()
        self.assertEqual(held, [True, True])
        self.assertIsNone(memory())

    @mock.patch("remesh.loans.LOOK_SECONDS", 10.0)  # a slow machine may need more than a look
    def test_what_a_trainer_lent_that_was_never_closed_is_kept_until_the_worker_has_let_go_of_it(
        self,
    ):
        trainer = self.start()
        memory = self._lend(self.another_trainer())
        gc.collect()
        self.handles.has = itertools.repeat(True)
        self._lend(trainer)
        self.assertIsNotNone(memory())
        self.assertEqual(self.handles.leases, 2)
        self.handles.has = itertools.repeat(False)
        self._lend(trainer, "jobs/a/states/c")
        self.assertIsNone(memory())

    @mock.patch("remesh.loans.LOOK_SECONDS", 10.0)  # a slow machine may need more than a look
    def test_a_loan_that_is_being_made_is_not_taken_for_one_that_was_given_back(self):
        trainer, other = self.start(), self.another_trainer()

        def close_another_trainer():
            self.worker.on_lend = lambda: None
            other.close()

        self.worker.on_lend = (
            close_another_trainer  # it looks for loans that the worker does not have
        )
        memory = self._lend(lender := self.another_trainer())
        self.handles.has = itertools.repeat(True)
        del lender
        gc.collect()
        self.assertIsNotNone(memory())
        self.handles.has = itertools.repeat(False)
        self._lend(trainer)
        self.assertIsNone(memory())

    @mock.patch("remesh.loans.LOOK_SECONDS", 10.0)  # a slow machine may need more than a look
    def test_what_was_kept_is_freed_when_the_worker_has_let_go_of_it(self):
        trainer = self.start()
        for look in (trainer.close, lambda: self._lend(trainer)):
            other = self.another_trainer()
            memory = self._lend(other)
            self.handles.has = itertools.repeat(True)
            with mock.patch("remesh.loans.LET_GO_SECONDS", 0.0), self.assertWarnsRegex(
                RuntimeWarning, "still has memory"
            ):
                other.close()
            self.assertIsNotNone(memory())
            self.handles.has = itertools.repeat(False)
            trainer = self.another_trainer()
            self.addCleanup(trainer.close)
            look()
            self.assertIsNone(memory())

    def test_what_was_given_back_is_not_asked_for_again(self):
        trainer = self.start()
        memory = self._lend(trainer)
        self.handles.has = iter([False])
        trainer.wait_returned(STATE)
        self.assertIsNone(memory())
        self.assertEqual(self.handles.asked, 1)

    def test_waiting_for_a_lease_goes_on_while_the_worker_does_not_answer(self):
        trainer = self.start()
        memory = self._lend(trainer)
        self.handles.has = iter([None, None, True, False])
        with mock.patch("remesh.device_memory.PATIENCE_SECONDS", 0.05):
            trainer.wait_returned(STATE, 20)
        self.assertEqual(list(self.handles.has), [], "asked until it was no")
        self.assertIsNone(memory())

    def test_waiting_for_a_lease_ends_at_its_own_deadline(self):
        trainer = self.start()
        memory = self._lend(trainer)
        self.handles.has = itertools.chain([None], itertools.repeat(False))
        with self.assertRaisesRegex(TimeoutError, "after 0 s the worker still has"):
            trainer.wait_returned(STATE, 0)
        self.assertIsNotNone(memory())

    def test_waiting_goes_on_while_the_worker_does_not_answer(self):
        trainer = self.start()
        with mock.patch("remesh.device_memory.send_handle", return_value="0123"), mock.patch(
            "remesh.trainer._PAUSE_SECONDS", 0.01
        ):
            trainer.lend(
                STATE,
                [types.SimpleNamespace(kind="cuda", device_uuid="GPU-0", bytes=64, descriptor=-1)],
                [],
            )
            self.worker.refusals = iter(
                [
                    (grpc.StatusCode.UNAVAILABLE, "WORKER_STOPS"),
                    (grpc.StatusCode.DEADLINE_EXCEEDED, ""),
                    (grpc.StatusCode.FAILED_PRECONDITION, "SHARDS_LENT"),
                    (grpc.StatusCode.INTERNAL, "BROKEN"),
                    (grpc.StatusCode.PERMISSION_DENIED, "SOCKET_CALLER_REFUSED"),
                    (grpc.StatusCode.UNAVAILABLE, "WORKER_STOPS"),
                    (grpc.StatusCode.NOT_FOUND, "GENERATION_RETIRED"),
                ]
            )
            for unknown in (grpc.StatusCode.INTERNAL, grpc.StatusCode.PERMISSION_DENIED):
                with self.assertRaises(grpc.RpcError) as failure:
                    trainer.wait_returned(STATE, 20)
                self.assertEqual(failure.exception.code(), unknown)
            trainer.wait_returned(STATE, 20)
        self.assertEqual(list(self.worker.refusals), [], "asked until it was retired")

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
