# SPDX-License-Identifier: Apache-2.0
"""Names of saves, worlds and temporary states, by the examples that C++ reads too."""

import pathlib
import unittest

from remesh import names

_EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "tests" / "data" / "save_names.txt"


def _examples():
    for line in _EXAMPLES.read_text().splitlines():
        if line and not line.startswith("#"):
            name, kind, *numbers = line.split(" ")
            yield name, kind, [int(number) for number in numbers]


class NamesTest(unittest.TestCase):

    def test_examples(self):
        makers = {"save": names.SaveId, "world": names.WorldId}
        for name, kind, numbers in _examples():
            with self.subTest(name):
                parsed = names.parse(f"jobs/a/states/{name}")
                if kind == "tmp":
                    self.assertIsInstance(parsed, names.TemporaryId)
                    self.assertEqual([parsed.world], numbers)
                else:
                    self.assertEqual(parsed, makers[kind](*numbers) if kind in makers else None)
                if parsed:
                    self.assertEqual(str(parsed), name)
                    self.assertEqual(names.state_name("a", parsed), f"jobs/a/states/{name}")

    def test_newest_is_the_highest_world_and_number(self):
        saves = [names.parse(name) for name, kind, _ in _examples() if kind == "save"]
        self.assertGreater(len(saves), 5)
        self.assertEqual(saves, sorted(saves))

    def test_refuses_a_job_that_no_state_can_be_named_after(self):
        for job in ("", "a/b", "a b", "x" * 64, "é", ".a"):
            with self.subTest(job), self.assertRaisesRegex(ValueError, "name: value"):
                names.check_job(job)
        self.assertEqual(names.check_job("llama-7b_v1.2"), "llama-7b_v1.2")


if __name__ == "__main__":
    unittest.main()
