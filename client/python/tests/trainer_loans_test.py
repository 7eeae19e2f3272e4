# SPDX-License-Identifier: Apache-2.0
"""What a Trainer lends: kept until the worker has let go of it, whatever happens in between."""

import gc
import itertools
import types
import unittest
import warnings
import weakref
from unittest import mock

import grpc

from remesh import lending

from trainer_case import STATE, TrainerCase
from waiting import wait_until


class Memory:
    """What a weak reference can name."""


class TrainerLoansTest(TrainerCase):
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


if __name__ == "__main__":
    unittest.main()
