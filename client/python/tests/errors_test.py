# SPDX-License-Identifier: Apache-2.0
"""Errors: their classes, their text, and their way to other processes."""

import pickle
import unittest

from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from remesh import errors


class ErrorsTest(unittest.TestCase):
    def test_the_reason_chooses_the_class_then_the_code(self):
        for code, reason, kind in (
            ("ABORTED", "STATE_MOVING", errors.StateMoving),
            ("FAILED_PRECONDITION", "STATE_REPLACED", errors.StateReplaced),
            ("NOT_FOUND", "GENERATION_RETIRED", errors.GenerationRetired),
            ("NOT_FOUND", "STATE_NOT_FOUND", errors.NotFound),
            ("RESOURCE_EXHAUSTED", "CGROUP_MEMORY", errors.NoRoom),
            ("DEADLINE_EXCEEDED", "", errors.TimedOut),
            ("UNAVAILABLE", "", errors.ServerAway),
            ("FAILED_PRECONDITION", "NEW_REASON", errors.RemeshError),
        ):
            self.assertIs(type(errors.make(code, "no", reason)), kind, reason or code)

    def test_pythons_own_classes_catch_them_too(self):
        self.assertIsInstance(errors.TimedOut("late"), TimeoutError)
        self.assertIsInstance(errors.BadArgument("field"), ValueError)
        self.assertIsInstance(errors.ValuesDiffer("step"), AssertionError)

    def test_one_line(self):
        error = errors.make(
            "FAILED_PRECONDITION",
            "two\nlines",
            "STATE_NOT_READY",
            {"lost_hosts": "a, b", "phase": "LOST"},
        )
        self.assertEqual(
            str(error),
            "FAILED_PRECONDITION (STATE_NOT_READY): two lines [lost_hosts=a, b phase=LOST]",
        )
        self.assertEqual(
            (error.lost_hosts, error.phase, error.unsealed_hosts), (["a", "b"], "LOST", [])
        )
        self.assertEqual(str(errors.make("NOT_FOUND", "gone")), "NOT_FOUND: gone")

    def test_a_number_that_is_none(self):
        self.assertIsNone(errors.GenerationMismatch("no", metadata={"generation": "x"}).generation)
        self.assertEqual(
            errors.GenerationMismatch("no", metadata={"generation": "3"}).generation, 3
        )
        self.assertEqual(
            errors.NoRoom("no", metadata={"limit_bytes": "9", "used_bytes": "4"}).free_bytes, 5
        )

    def test_an_error_travels(self):
        error = errors.make("RESOURCE_EXHAUSTED", "full", "MEMORY_EXHAUSTED", {"host": "h"})
        error.process = 3
        for other in (errors.from_bytes(errors.to_bytes(error)), pickle.loads(pickle.dumps(error))):
            self.assertIs(type(other), errors.NoRoom)
            self.assertEqual((str(other), other.host), (str(error), "h"))

    def test_an_error_of_another_class_travels_as_process_failed(self):
        other = errors.from_bytes(errors.to_bytes(KeyError("x" * 10_000)))
        self.assertIs(type(other), errors.ProcessFailed)
        self.assertTrue(str(other).startswith("UNKNOWN (PROCESS_FAILED): KeyError: 'xxx"))
        self.assertLess(len(str(other)), 5000)

    def test_a_class_that_this_process_lacks(self):
        data = errors.to_bytes(errors.Closed("gone"))
        self.assertIsInstance(
            errors.from_bytes(data.replace(b'"kind": "', b'"kind": "Unknown')), errors.RemeshError
        )

    # Regression: of several mistakes in one request only the first was shown.
    def test_every_mistake_is_shown(self):
        status = self.refusal(
            [
                {"field": "arrays[1].shape[0]", "description": 'value "-1" must be >= 0'},
                {"field": "arrays[2].element_type", "description": "is missing"},
            ]
        )
        error = errors.from_status(status)
        self.assertEqual(
            error.further,
            ['arrays[1].shape[0]: value "-1" must be >= 0', "arrays[2].element_type: is missing"],
        )
        self.assertEqual(
            str(error),
            'INVALID_ARGUMENT (INVALID_FIELD): arrays[0].name: value "" must not be empty; '
            'also arrays[1].shape[0]: value "-1" must be >= 0; '
            "also arrays[2].element_type: is missing [field=arrays[0].name]",
        )
        self.assertEqual(errors.describe_status(status), str(error))
        for other in (errors.from_bytes(errors.to_bytes(error)), pickle.loads(pickle.dumps(error))):
            self.assertEqual((type(other), str(other)), (errors.BadArgument, str(error)))

    def test_a_peer_cannot_make_an_error_of_any_length(self):
        status = self.refusal([{"field": f"f{i}"} for i in range(1000)])
        self.assertEqual(len(errors.from_status(status).further), 20)

    def refusal(self, violations: list) -> status_pb2.Status:
        """Of a field, with these further violations."""
        status = status_pb2.Status(code=3, message='arrays[0].name: value "" must not be empty')
        info = error_details_pb2.ErrorInfo(
            reason="INVALID_FIELD", metadata={"field": "arrays[0].name"}
        )
        for detail in (info, error_details_pb2.BadRequest(field_violations=violations)):
            status.details.add().Pack(detail)
        return status

    def test_a_status_in_a_message(self):
        packed = any_pb2.Any()
        packed.Pack(
            error_details_pb2.ErrorInfo(
                reason="WORKER_LOST", domain="remesh", metadata={"host": "host-1"}
            )
        )
        error = errors.from_status(
            status_pb2.Status(code=14, message="host-1 is lost", details=[packed])
        )
        self.assertEqual(
            (type(error), str(error)),
            (errors.ServerAway, "UNAVAILABLE (WORKER_LOST): host-1 is lost [host=host-1]"),
        )


if __name__ == "__main__":
    unittest.main()
