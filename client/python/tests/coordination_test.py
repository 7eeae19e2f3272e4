# SPDX-License-Identifier: Apache-2.0
"""The utilities of remesh.coordination in 16 threads: what they return, bit by bit, and what all
raise when one is at fault."""

import collections
import os
import signal
import threading
import unittest
from unittest import mock

import numpy as np

from remesh import coordination, errors, layout, trees
from remesh.job import StructureMismatch, signals
from remesh.local_group import LocalGroup, run_together

_SIZE = 16
_ODD = 11  # the one at fault
Pair = collections.namedtuple("Pair", "first second")

# Of each type bits that arithmetic or a conversion would change.
_NANS = np.array([0x7FF4000000000001, 0xFFF8000000000000, 0x8000000000000000, 1], np.uint64)
_VALUES = {
    "payload": _NANS.view(np.float64),
    "half": np.array([0x7D01, 0x8000, 0x0001], np.uint16).view(np.float16),
    "long": np.array([2**62 + 1, -(2**63)], np.int64),
    "unsigned": np.array([2**64 - 1], np.uint64),
    "flag": np.array([[True], [False]]),
    "complex": np.array([complex(-0.0, float("nan"))]),
    "empty": np.zeros((0, 3), np.float32),
    "scalar": np.float32(-0.0),
    "number": 2**53 + 1,
    "pair": Pair([np.int8(-1)], (np.uint8(200),)),
    "none": None,
    "strided": np.arange(12).reshape(3, 4)[:, ::2],
}


def bits(tree):
    """What is equal for trees of equal bits."""
    found = trees.of(tree)
    return [(leaf.name, str(leaf), leaf.data.tobytes()) for leaf in found.leaves]


def run(function, deadline=30.0):
    """function(group) in 16 threads; what each returned."""
    return run_together(LocalGroup.make(_SIZE, deadline), function)


def each_error(function, deadline=30.0):
    """What function(group) raised in each of 16 threads."""
    raised = [None] * _SIZE

    def caught(group):
        try:
            function(group)
        except Exception as error:  # pylint: disable=broad-exception-caught
            raised[group.rank] = error

    run(caught, deadline)
    return raised


class ValuesTest(unittest.TestCase):

    def test_broadcast_keeps_every_bit(self):
        def call(group):
            mine = _VALUES if group.rank == 3 else zeros(_VALUES)
            return coordination.broadcast_one_to_all(mine, group.rank == 3, group=group)

        for found in run(call):
            self.assertEqual(bits(found), bits(_VALUES))
            self.assertIsInstance(found["pair"], Pair)
            self.assertIsNone(found["none"])
            self.assertTrue(found["payload"].flags.writeable)

    def test_process_0_is_the_source_unless_another_one_is(self):
        call = lambda group: coordination.broadcast_one_to_all(group.rank, group=group)
        self.assertEqual(run(call), [0] * _SIZE)

    def test_allgather_stacks_every_bit(self):
        def call(group):
            tree = {
                "x": _VALUES["payload"] if group.rank % 2 else -_VALUES["payload"],
                "n": group.rank,
            }
            return coordination.process_allgather(tree, group=group)

        for found in run(call):
            self.assertEqual(found["n"].tolist(), list(range(_SIZE)))
            for rank in range(_SIZE):
                want = _VALUES["payload"] if rank % 2 else -_VALUES["payload"]
                self.assertEqual(found["x"][rank].tobytes(), want.tobytes())

    def test_allgather_tiled(self):
        def call(group):
            tree = [np.full((2, 3), group.rank, np.int16), np.float32(group.rank)]
            return coordination.process_allgather(tree, True, group=group)

        rows, numbers = run(call)[_ODD]
        self.assertEqual((rows.shape, rows.dtype), ((2 * _SIZE, 3), np.int16))
        self.assertEqual(rows[:, 0].tolist(), [rank // 2 for rank in range(2 * _SIZE)])
        self.assertEqual(numbers.tolist(), list(range(_SIZE)))

    def test_large_trees_take_several_rounds(self):
        content = np.arange(3 << 18, dtype=np.uint32)
        (alone,) = run_together(
            LocalGroup.make(1), lambda group: coordination.process_allgather(content, group=group)
        )
        self.assertEqual((alone.shape, alone.tobytes()), ((1, 3 << 18), content.tobytes()))

        def call(group):
            got = coordination.broadcast_one_to_all(content * (group.rank == 0), group=group)
            return got.tobytes() == content.tobytes()

        self.assertEqual(run(call), [True] * _SIZE)

    def test_equal_and_without_a_group(self):
        run(lambda group: coordination.assert_equal(_VALUES, group=group))
        coordination.assert_equal(_VALUES)
        coordination.barrier("alone")
        self.assertEqual(coordination.process_allgather(3).tolist(), [3])
        self.assertEqual(bits(coordination.broadcast_one_to_all(_VALUES)), bits(_VALUES))
        self.assertEqual(coordination.global_axis_size(4), 4)
        self.assertIs(coordination.reached_preemption_sync_point(7), False)

    def test_equal_as_numpy_sees_it(self):
        def call(group):
            zero = -0.0 if group.rank % 2 else 0.0
            tree = [np.float32(zero), np.array([complex(zero, 1)]), 5]
            coordination.assert_equal(tree, compare="numpy", group=group)

        run(call)

    def test_axis_of_unequal_parts(self):
        call = lambda group: coordination.global_axis_size(group.rank, group=group)
        self.assertEqual(run(call), [sum(range(_SIZE))] * _SIZE)

    def test_leading_axis(self):
        found = layout.leading_axis([3, 1, 2])
        self.assertEqual(found, layout.named({"leading": 3}, ("leading",), [3, 1, 2]))
        with self.assertRaisesRegex(ValueError, "must name at least one device"):
            layout.leading_axis([])

    def test_group_of_later_calls(self):
        (alone,) = LocalGroup.make(1)
        coordination.use(alone)
        self.addCleanup(coordination.use, None)
        self.assertIs(coordination.reached_preemption_sync_point(0), False)
        coordination.barrier("x")
        with self.assertRaises(errors.NameMismatch):
            run(lambda group: coordination.barrier(f"{group.rank // 9}", group=group))


class FaultsTest(unittest.TestCase):
    """One of 16 is at fault: all raise one text."""

    def check(self, rows):
        for name, call, text in rows:
            with self.subTest(name):
                raised = each_error(call)
                self.assertEqual({str(error) for error in raised}, {text})

    @mock.patch.object(coordination, "MOST_BYTES", 3000)
    def test_what_differs_is_named(self):
        def odd(value, other):
            return lambda group: other if group.rank == _ODD else value

        x = np.array([0.0, 1.0], np.float32)
        flipped = x.copy()
        flipped.view(np.uint32)[1] ^= 1
        nan = np.array([np.nan], np.float32)
        tree = lambda leaf: {"a": 1, "w": {"x": leaf}}
        values = odd(tree(x), tree(flipped))
        shapes = odd(tree(x), tree(x[:1]))
        types = odd(tree(x), tree(x.astype(np.float16)))
        names = odd(tree(x), {"a": 1, "w": {"y": x}})
        containers = odd([x], (x,))
        texts = odd([x], ["text"])
        zeros_ = odd([x], [-x])
        broadcast, gather, equal = (
            coordination.broadcast_one_to_all,
            coordination.process_allgather,
            coordination.assert_equal,
        )
        where = "processes 0-10, 12-15 | 11"
        structure = "INVALID_ARGUMENT (STRUCTURE_MISMATCH)"
        self.check(
            (
                (
                    "a bit",
                    lambda group: equal(values(group), "the seed", group=group),
                    "FAILED_PRECONDITION (VALUES_DIFFER): the seed: 1 of 2 leaves differ, the first is "
                    f"w.x (float32[2]): {where}",
                ),
                (
                    "the sign of zero",
                    lambda group: equal(zeros_(group), group=group),
                    "FAILED_PRECONDITION (VALUES_DIFFER): assert_equal: 1 of 1 leaves differ, the first "
                    f"is 0 (float32[2]): {where}",
                ),
                (
                    "NaN, by NumPy",
                    lambda group: equal(odd([x[:1]], [nan])(group), compare="numpy", group=group),
                    "process 11: FAILED_PRECONDITION (VALUES_DIFFER): assert_equal: 0 (float32[1]) has a "
                    "NaN, which equals nothing",
                ),
                (
                    "shape",
                    lambda group: broadcast(shapes(group), group=group),
                    f"{structure}: broadcast_one_to_all: the trees of {where} differ: "
                    "w.x: process 0 has float32[2], process 11 has float32[1]",
                ),
                (
                    "type",
                    lambda group: gather(types(group), group=group),
                    f"{structure}: process_allgather(tiled=False): the trees of {where} differ: "
                    "w.x: process 0 has float32[2], process 11 has float16[2]",
                ),
                (
                    "name",
                    lambda group: equal(names(group), group=group),
                    f"{structure}: assert_equal(compare='bits'): the trees of {where} differ: "
                    "w.x: process 0 has float32[2], process 11 has no such leaf",
                ),
                (
                    "container",
                    lambda group: broadcast(containers(group), group=group),
                    f"{structure}: broadcast_one_to_all: the trees of {where} differ: process 0 has "
                    "the containers PyTreeDef([*]), process 11 PyTreeDef((*,))",
                ),
                (
                    "no array",
                    lambda group: broadcast(texts(group), group=group),
                    "process 11: UNKNOWN (PROCESS_FAILED): TypeError: 0: value of <U4 must be an array "
                    "of numbers",
                ),
                (
                    "two sources",
                    lambda group: broadcast(x, group.rank in (2, _ODD), group=group),
                    "INVALID_ARGUMENT (SOURCE_COUNT): is_source: must be true on one process: processes "
                    "2, 11 are the source",
                ),
                (
                    "no source",
                    lambda group: broadcast(x, False, group=group),
                    "INVALID_ARGUMENT (SOURCE_COUNT): is_source: must be true on one process: no "
                    "process is the source",
                ),
                (
                    "devices in another order",
                    lambda group: group.check_devices(odd([4, 5, 6], [4, 6, 5])(group)),
                    f"FAILED_PRECONDITION (VALUES_DIFFER): devices: {where} have different lists: at 1 "
                    "process 0 has 5, process 11 has 6",
                ),
                (
                    "fewer devices",
                    lambda group: group.check_devices(odd([4, 5, 6], [4, 5])(group)),
                    f"FAILED_PRECONDITION (VALUES_DIFFER): devices: {where} have different lists: "
                    "process 0 has 3, process 11 has 2",
                ),
                (
                    "a device twice",
                    lambda group: group.check_devices(odd([4, 5], [4, 4])(group)),
                    "process 11: INVALID_ARGUMENT: ordered: device 4 must not be there twice",
                ),
                (
                    "too large to send",
                    lambda group: broadcast({"big": np.zeros(3001, np.uint8)}, group=group),
                    "RESOURCE_EXHAUSTED (TOO_LARGE): broadcast_one_to_all: 3001 bytes are more than "
                    "the 3000 that processes may exchange (the largest leaf is big, "
                    "uint8[3001]): move arrays of devices by jax.reshard",
                ),
                (
                    "too large to gather",
                    lambda group: gather(np.zeros((2, 100), np.uint8), group=group),
                    "RESOURCE_EXHAUSTED (TOO_LARGE): process_allgather: 3200 bytes are more than "
                    "the 3000 that processes may exchange (the largest leaf is value, "
                    "uint8[2, 100]): move arrays of devices by jax.reshard",
                ),
            )
        )

    def test_what_differs_is_of_both_kinds(self):
        for error in each_error(lambda group: coordination.assert_equal(group.rank, group=group)):
            self.assertIsInstance(error, AssertionError)
            self.assertIn("processes 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | and 8 more groups", str(error))
        for error in each_error(
            lambda group: coordination.broadcast_one_to_all(0, True, group=group)
        ):
            self.assertIsInstance(error, errors.SourceCount)
            self.assertIn("processes 0-15 are the source", str(error))

    def test_calls_that_do_not_fit(self):
        def call(group):
            if group.rank == _ODD:
                coordination.process_allgather(1, group=group)
            else:
                coordination.process_allgather(1, True, group=group)

        for error in each_error(call):
            self.assertIsInstance(error, errors.NameMismatch)
            self.assertIn("process_allgather(tiled=True)", str(error))

    # Each call, with one that has left and one that does not come.
    CALLS = {
        "barrier": lambda group: coordination.barrier("b", 0.3, group=group),
        "sync": lambda group: coordination.sync_global_devices("b", deadline=0.3, group=group),
        "broadcast": lambda group: coordination.broadcast_one_to_all(1, group=group),
        "gather": lambda group: coordination.process_allgather(1, group=group),
        "equal": lambda group: coordination.assert_equal(1, group=group),
        "axis": lambda group: coordination.global_axis_size(1, group=group),
        "devices": lambda group: group.check_devices([1]),
    }

    def test_one_has_left(self):
        for name, call in self.CALLS.items():
            with self.subTest(name):
                raised = each_error(
                    lambda group: group.close() if group.rank == _ODD else call(group)
                )
                raised.pop(_ODD)
                self.assertEqual({type(error) for error in raised}, {errors.MemberLost})
                self.assertTrue(all("process 11 has left" in str(error) for error in raised))

    def test_one_does_not_come(self):
        for name, call in self.CALLS.items():
            with self.subTest(name):
                raised = each_error(lambda group: group.rank == _ODD or call(group), deadline=0.3)
                raised.pop(_ODD)
                self.assertEqual({type(error) for error in raised}, {errors.BarrierTimeout})
                self.assertEqual({tuple(error.absent) for error in raised}, {(_ODD,)})


class PreemptionTest(unittest.TestCase):

    def setUp(self):
        self.addCleanup(coordination.use, None)

    # Steps of each at which it is to save; `steps(rank)` are those that it asks about.
    def ask(self, steps, told_at, deadline=30.0):
        listener = signals.Listener(lambda: None)  # in the main thread: others may join
        self.addCleanup(listener.close)

        def call(group):
            for step in steps(group.rank):
                if group.rank == 5 and step == told_at:
                    os.kill(os.getpid(), signal.SIGTERM)
                if coordination.reached_preemption_sync_point(step, group=group):
                    return step
            return None

        found = []
        worker = threading.Thread(target=lambda: found.append(each_result(call, deadline)))
        worker.start()
        worker.join()  # in which signals are handled
        return found[0]

    def test_all_save_the_same_step(self):
        (step,) = set(self.ask(lambda rank: range(200), 23))
        self.assertIsInstance(step, int)
        self.assertGreater(step, 23)

    def test_without_a_notice(self):
        self.assertEqual(self.ask(lambda rank: range(25), None), [None] * _SIZE)

    def test_who_asks_about_other_steps(self):
        found = self.ask(lambda rank: range(0, 60, 1 if rank != _ODD else 7), None)
        self.assertEqual({type(error) for error in found}, {errors.NameMismatch})
        self.assertIn(
            "processes 0-10, 12-15: gather job: leaving at 10; process 11: gather job: leaving at 14",
            str(found[0]),
        )

    def test_who_does_not_ask(self):
        found = self.ask(lambda rank: range(30 if rank != _ODD else 5), None, deadline=0.3)
        self.assertIsNone(found.pop(_ODD))
        self.assertEqual({tuple(error.absent) for error in found}, {(_ODD,)})

    def test_not_in_the_main_thread(self):
        call = lambda group: coordination.reached_preemption_sync_point(0, group=group)
        for error in each_error(call):
            self.assertIsInstance(error, RuntimeError)
            self.assertIn("in the main thread first", str(error))


def each_result(function, deadline):
    """What each returned or raised."""
    results = [None] * _SIZE

    def caught(group):
        try:
            results[group.rank] = function(group)
        except Exception as error:  # pylint: disable=broad-exception-caught
            results[group.rank] = error

    run(caught, deadline)
    return results


def zeros(tree):
    """The tree with other values."""
    found = trees.of(tree)
    return found.rebuild(
        [leaf.make(np.zeros(leaf.bytes, np.uint8), leaf.shape) for leaf in found.leaves]
    )


if __name__ == "__main__":
    unittest.main()
