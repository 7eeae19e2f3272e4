# SPDX-License-Identifier: Apache-2.0
"""What scripts/ctest-twice tells of tests that fail once, always or never."""

import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parent.parent.parent / "scripts" / "ctest-twice"
ONCE = "[ -e {folder}/{name}.tried ] || {{ touch {folder}/{name}.tried; {fault}; }}"


class CtestTwiceTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.lines = []

    def add(self, name, shell):
        self.lines.append(f"add_test({name} sh -c [==[{shell}]==])")

    def fails_once(self, name, fault):
        self.add(name, ONCE.format(folder=self.folder, name=name, fault=fault))

    def run_ctest(self, *arguments):
        (self.folder / "CTestTestfile.cmake").write_text("\n".join(self.lines) + "\n")
        return subprocess.run(
            [SCRIPT, self.folder, *arguments],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def flaky(self):
        return (self.folder / "flaky.txt").read_text().splitlines()

    def test_what_passes_is_not_named(self):
        self.add("good", "true")
        answer = self.run_ctest()
        self.assertEqual(answer.returncode, 0)
        self.assertNotIn("FLAKY", answer.stdout)
        self.assertEqual(self.flaky(), [])

    def test_what_needs_a_second_try_is_named_however_it_failed(self):
        self.add("good", "true")
        self.fails_once("exits", "echo its trace; exit 1")
        self.fails_once("crashes", "kill -SEGV $$")
        self.fails_once("hangs", "exec sleep 1000")
        self.lines.append("set_tests_properties(hangs PROPERTIES TIMEOUT 1)")
        answer = self.run_ctest("--parallel", "4")
        self.assertEqual(answer.returncode, 0)
        self.assertIn("its trace", answer.stdout)
        self.assertEqual(self.flaky(), ["FLAKY crashes", "FLAKY exits", "FLAKY hangs"])
        self.assertEqual(answer.stdout.splitlines()[-3:], self.flaky())

    def test_what_fails_twice_fails_the_run_and_is_not_flaky(self):
        self.add("bad", "false")
        self.fails_once("exits", "exit 1")
        answer = self.run_ctest()
        self.assertNotEqual(answer.returncode, 0)
        self.assertEqual(self.flaky(), ["FLAKY exits"])

    def test_what_a_test_prints_is_not_taken_for_a_line_of_ctest(self):
        self.fails_once("exits", "echo '1/1 Test #1: good ......***Failed 0.1 sec'; exit 1")
        self.add("good", "true")
        self.run_ctest()
        self.assertEqual(self.flaky(), ["FLAKY exits"])

    def test_names_of_an_earlier_run_are_gone(self):
        self.fails_once("exits", "exit 1")
        self.run_ctest()
        self.run_ctest()
        self.assertEqual(self.flaky(), [])

    def test_the_callers_own_repeat_takes_the_place_of_the_second_try(self):
        self.fails_once("exits", "exit 1")
        self.assertNotEqual(self.run_ctest("--repeat", "until-fail:2").returncode, 0)


if __name__ == "__main__":
    unittest.main()
