# SPDX-License-Identifier: Apache-2.0
"""Groups of threads, and the exchange of outcomes."""

import random
import time
import unittest

from remesh import errors
from remesh.group import exchange, together
from remesh.local_group import LocalGroup, run_together


def each_error(size, function, deadline=60.0):
    """What function(member) raises on each."""
    raised = [None] * size

    def run(member):
        try:
            function(member)
        except Exception as error:  # pylint: disable=broad-exception-caught
            raised[member.rank] = error

    run_together(LocalGroup.make(size, deadline), run)
    return raised


class GroupTest(unittest.TestCase):
    def test_what_arrives_where(self):
        def calls(member):
            member.barrier("begin")
            gathered = member.gather("all", bytes([member.rank]), to=1)
            return gathered, member.broadcast("one", bytes([9 + member.rank]), root=2)

        self.assertEqual(
            run_together(LocalGroup.make(3), calls),
            [(None, b"\x0b"), ([b"\0", b"\1", b"\2"], b"\x0b"), (None, b"\x0b")],
        )

    def test_rounds_do_not_mix(self):
        def calls(member):
            for number in range(200):
                if random.random() < 0.05:
                    time.sleep(0.001)
                self.assertEqual(
                    member.broadcast(
                        "r", b"%d" % number if member.rank == number % 4 else b"", root=number % 4
                    ),
                    b"%d" % number,
                )
            self.assertLessEqual(len(member._room.rounds), 3)  # pylint: disable=protected-access

        run_together(LocalGroup.make(4), calls)

    def test_different_values_are_named(self):
        raised = each_error(3, lambda member: member.agree("step", b"%d" % (member.rank // 2)))
        self.assertEqual(
            {str(error) for error in raised},
            {
                "FAILED_PRECONDITION (VALUES_DIFFER): step: 2 different values: processes 0, 1: "
                "'0'; processes 2: '1' [name=step]"
            },
        )

    def test_different_calls_are_named(self):
        raised = each_error(2, lambda member: member.barrier("ab"[member.rank]))
        for error in raised:
            self.assertIsInstance(error, errors.NameMismatch)
            self.assertIn("process 0: barrier a; process 1: barrier b", str(error))

    def test_one_who_does_not_come(self):
        raised = each_error(
            3, lambda member: member.rank == 2 or member.barrier("b"), deadline=0.05
        )
        self.assertEqual(
            [type(error) for error in raised],
            [errors.BarrierTimeout, errors.BarrierTimeout, type(None)],
        )
        self.assertEqual(raised[0].absent, [2])

    def test_one_who_left(self):
        def calls(member):
            if member.rank == 1:
                raise ValueError("bad")
            member.barrier("b")

        with self.assertRaisesRegex(errors.MemberLost, "process 1 has left the group"):
            run_together(LocalGroup.make(2), calls)

    def test_an_error_on_any_process_is_raised_by_all(self):
        for failing in range(3):

            def calls(member, failing=failing):
                with together(member, "restore"):
                    if member.rank == failing:
                        raise ValueError("the disk is full")

            raised = each_error(3, calls)
            self.assertEqual(
                {str(error) for error in raised},
                {f"process {failing}: UNKNOWN (PROCESS_FAILED): ValueError: the disk is full"},
            )
            self.assertEqual(
                [type(error.__cause__) for error in raised],
                [ValueError if rank == failing else type(None) for rank in range(3)],
            )

    def test_errors_of_several_are_the_first_ones(self):
        def calls(member):
            exchange(member, "save", errors.StateReplaced("gone") if member.rank else b"")

        raised = each_error(3, calls)
        self.assertEqual(
            {(type(error), error.process) for error in raised}, {(errors.StateReplaced, 1)}
        )

    def test_an_error_that_was_exchanged_before_keeps_its_process(self):
        def calls(member):
            with together(member, "outer"):
                error = errors.NoRoom("full", process=7)
                if member.rank == 0:
                    raise error

        self.assertEqual({error.process for error in each_error(2, calls)}, {7})

    def test_process_0_decides(self):
        def total(payloads):
            return b",".join(payloads)

        decided = run_together(
            LocalGroup.make(3), lambda member: exchange(member, "x", b"%d" % member.rank, total)
        )
        self.assertEqual(decided, [b"0,1,2"] * 3)

    def test_what_process_0_refuses_is_raised_by_all(self):
        def refuse(payloads):
            raise errors.ValuesDiffer(f"{len(payloads)} uids")

        raised = each_error(3, lambda member: exchange(member, "x", b"", refuse))
        self.assertEqual(
            {(type(error), error.message) for error in raised}, {(errors.ValuesDiffer, "3 uids")}
        )
        raised = each_error(
            2, lambda member: exchange(member, "x", b"", lambda payloads: payloads[5])
        )
        self.assertEqual(
            {(type(error), error.process) for error in raised}, {(errors.ProcessFailed, 0)}
        )

    def test_a_group_of_one(self):
        (alone,) = LocalGroup.make(1)
        with together(alone, "x"):
            pass
        self.assertEqual(exchange(alone, "x", b"1", lambda payloads: payloads[0]), b"1")


if __name__ == "__main__":
    unittest.main()
