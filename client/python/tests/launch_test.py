# SPDX-License-Identifier: Apache-2.0
"""remesh launch: real processes that are killed, stopped, asked to leave."""

import argparse
import contextlib
import io
import json
import os
import pathlib
import select
import signal
import statistics
import sys
import threading
import time
import unittest
import unittest.mock

from launch_case import LaunchCase

from remesh import launch
from remesh.launch_world import World

_RANK = pathlib.Path(__file__).with_name("launch_rank.py")
_SECONDS = 60


class DecisionTest(unittest.TestCase):
    """What follows a world, as a table."""

    def decide(self, statuses, asked=0, next_size=None, overdue=()):
        settings = argparse.Namespace(min=2, max=6, next_size=next_size)
        following = launch.next_size(statuses, asked, 4, settings)
        return following, launch.exit_status(statuses, overdue)

    def test_what_follows(self):
        rows = (
            # name, statuses, more, (next size, exit status)
            ("all finished", [0] * 4, {}, (0, 0)),
            ("one killed", [137], {}, (3, 137)),
            ("two killed", [137, 137], {}, (2, 137)),
            ("one killed, for which a signal has no name", [128 + 36], {}, (3, 164)),
            ("a bug, and those who notice", [1, 1, 7], {}, (3, 7)),
            ("a bug with the highest status, and one who notices", [255, 1], {}, (3, 255)),
            ("one killed, and those who notice", [137, 1, 134], {}, (3, 137)),
            ("two killed, and those who notice", [139, 137, 1, 134], {}, (2, 139)),
            ("aborted, and those who notice", [134, 134, 1], {}, (3, 134)),
            ("some finished, one died", [0, 0, 0, 3], {}, (3, 3)),
            ("one left, one died", [143, 137], {"asked": 6}, (3, 137)),
            ("one asked to leave", [143] * 4, {}, (3, 143)),
            ("one asked to leave, next size", [143] * 4, {"next_size": 6}, (6, 143)),
            (
                "a process asks for more than the next size",
                [143] * 4,
                {"asked": 5, "next_size": 6},
                (5, 143),
            ),
            ("asked for too many", [75] * 4, {"asked": 99}, (6, 75)),
            ("asked for too few", [75] * 4, {"asked": 1}, (2, 75)),
            ("resized to the same size", [75] * 4, {"asked": 4, "next_size": 6}, (4, 75)),
            ("resized without a size", [75] * 4, {}, (4, 75)),
            ("left, one did not end", [143] * 3, {"overdue": (3,)}, (3, 137)),
            ("some came to the last step first", [0, 0, 143, 143], {}, (3, 143)),
        )
        for name, statuses, more, want in rows:
            with self.subTest(name):
                self.assertEqual(self.decide(statuses, **more), want)


class WorldTest(unittest.TestCase):

    # Regression: it was waited for 5 s for the output of each rank.
    def test_what_holds_the_output_of_all_ranks_is_waited_for_once(self):
        world = World(["true"], 3, os.environ)
        with unittest.mock.patch.object(threading.Thread, "join") as join:
            world.close()
        self.assertEqual(len(join.call_args_list), 6)
        self.assertAlmostEqual(sum(call.args[0] for call in join.call_args_list), 5.0)


class LaunchTest(LaunchCase):

    def start(self, *options, command=None, behaviour="", **environment):
        light = [] if behaviour.startswith("resize") else ["-I", "-S"]  # without remesh
        rank = [sys.executable, *light, str(_RANK), str(self.folder), behaviour]
        self.launch(*options, "--", *(command or rank), **environment)

    # The next line of a rank that has the field.
    def heard(self, field):
        for line in self.launcher.stdout:
            fields = json.loads(line)
            if field in fields:
                return fields
        self.fail(f"no {field}: {self.said()}")

    # What each rank of the next world said first, by rank.
    def world(self, size):
        found = {}
        while len(found) < size:
            fields = self.heard("pid")
            self.assertEqual(fields["size"], size, self.said())
            found[fields["rank"]] = fields
        self.assertEqual(sorted(found), list(range(size)))
        return found

    def wait_gone(self, pids):
        for pid in pids:
            try:
                descriptor = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            gone = select.select([descriptor], [], [], _SECONDS)[0]
            os.close(descriptor)
            self.assertTrue(gone, f"process {pid} runs")

    def test_what_ranks_are_told(self):
        self.start("-n", "3", REMESH_SOCKET="/a/socket")
        seen = [each["environment"] for _, each in sorted(self.world(3).items())]
        for rank, environment in enumerate(seen):
            self.assertEqual(environment["REMESH_SOCKET"], "/a/socket")
            for variable in ("REMESH_RANK", "RANK", "LOCAL_RANK"):
                self.assertEqual(environment[variable], str(rank))
            for variable in ("REMESH_WORLD_SIZE", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
                self.assertEqual(environment[variable], "3")
            host, port = environment["REMESH_COORDINATOR"].split(":")
            self.assertEqual((host, port), (environment["MASTER_ADDR"], environment["MASTER_PORT"]))
            self.assertRegex(environment["REMESH_ATTEMPT"], r"^[0-9a-f]{32}\.0$")
        self.assertEqual(len({each["REMESH_COORDINATOR"] for each in seen}), 1)
        self.assertEqual(self.finish(), 0)
        self.assertEqual(self.said(), "")

    def test_after_a_death_the_next_world_has_those_that_are_left(self):
        self.start("-n", "3", behaviour="deaf")
        first = self.world(3)
        os.kill(first[1]["pid"], signal.SIGKILL)
        second = self.world(2)
        self.wait_gone(each["pid"] for each in first.values())
        attempts = [each[0]["environment"]["REMESH_ATTEMPT"] for each in (first, second)]
        self.assertEqual([each.split(".")[1] for each in attempts], ["0", "1"])
        self.assertEqual(len({each.split(".")[0] for each in attempts}), 1)
        self.assertEqual(self.finish(), 0)
        self.assertEqual(
            self.said(),
            f"remesh launch: rank 1 (pid {first[1]['pid']}) died: SIGKILL; the others are killed\n"
            "remesh launch: world 2 begins with 2 processes\n",
        )

    def test_one_after_the_other_dies(self):
        self.start("-n", "6", "--restarts", "5")
        seconds = []
        world = self.world(6)
        for size in range(5, 0, -1):
            killed = time.monotonic()
            os.kill(world[size // 2]["pid"], signal.SIGKILL)
            world = self.world(size)
            seconds.append(time.monotonic() - killed)
        self.assertEqual(self.finish(), 0)
        text = (
            f"kill to the next world: median {statistics.median(seconds):.2f} s, worst "
            f"{max(seconds):.2f} s"
        )
        print(text, flush=True)

    def test_too_few_are_left(self):
        self.start("-n", "2", "--min", "2")
        os.kill(self.world(2)[0]["pid"], signal.SIGSEGV)
        self.assertEqual(self.launcher.wait(_SECONDS), 139)
        self.assertIn("the job ends: 1 processes are left, --min is 2\n", self.said())

    def test_deaths_are_counted(self):
        self.start("-n", "4", "--restarts", "1", command=["sh", "-c", "exit 9"])
        self.assertEqual(self.launcher.wait(_SECONDS), 9)
        self.assertIn(
            "exited with 9; the others are killed\nremesh launch: world 2 begins with 3",
            self.said(),
        )
        self.assertTrue(self.said().endswith("the job ends: 2 deaths, --restarts is 1\n"))

    def test_a_next_size_that_is_no_number(self):
        leaves = r"printf '\377' > $REMESH_NEXT_SIZE_FILE; exit 75"
        command = ["sh", "-c", f"case $REMESH_ATTEMPT in *.0) {leaves};; esac"]
        self.start("-n", "2", command=command)
        self.assertEqual(self.launcher.wait(_SECONDS), 0)
        self.assertEqual(
            self.said(),
            "remesh launch: a size that a process asked for is no number: b'\\xff'\n"
            "remesh launch: world 2 begins with 2 processes\n",
        )

    def test_told_to_end_all_save(self):
        self.start("-n", "3")
        self.world(3)
        self.launcher.terminate()
        self.assertEqual(sum(self.heard("saved")["saved"] for _ in range(3)), 3)
        self.assertEqual(self.launcher.wait(_SECONDS), 143)
        self.assertEqual((self.launcher.stdout.read(), self.said()), ("", ""))

    def test_told_to_end_and_deaf(self):
        self.start("-n", "2", "--grace", "0.1", behaviour="deaf")
        pids = [each["pid"] for each in self.world(2).values()]
        self.launcher.terminate()
        self.assertEqual(self.launcher.wait(_SECONDS), 137)
        self.wait_gone(pids)
        late = "was killed: it had not ended in time"
        self.assertEqual(
            self.said(), f"remesh launch: rank 0 {late}\nremesh launch: rank 1 {late}\n"
        )

    def test_interrupted_twice(self):
        self.start("-n", "2", "--grace", "1000", behaviour="deaf")
        pids = [each["pid"] for each in self.world(2).values()]
        self.launcher.send_signal(signal.SIGINT)
        self.heard("told")
        self.launcher.send_signal(signal.SIGINT)
        self.assertEqual(self.launcher.wait(_SECONDS), 137)
        self.wait_gone(pids)

    def test_one_rank_is_told_to_go(self):
        self.start("-n", "3")
        os.kill(self.world(3)[2]["pid"], signal.SIGTERM)
        os.kill(self.world(2)[0]["pid"], signal.SIGTERM)
        self.world(1)
        self.assertEqual(self.finish(), 0)
        self.assertEqual(self.said().count("remesh launch: world"), 2)

    def test_one_rank_is_told_to_go_and_the_next_size_is_given(self):
        self.start("-n", "3", "--next-size", "5")
        os.kill(self.world(3)[0]["pid"], signal.SIGTERM)
        self.world(5)
        self.assertEqual(self.finish(), 0)

    def test_a_process_asks_for_a_size(self):
        self.start("-n", "2", "--max", "4", behaviour="resize:4")
        os.kill(self.world(2)[0]["pid"], signal.SIGTERM)
        self.world(4)
        self.assertEqual(self.finish(), 0)

    def test_the_launcher_is_killed(self):
        self.start("-n", "2", behaviour="child")
        lines = [json.loads(self.launcher.stdout.readline()) for _ in range(4)]
        self.launcher.kill()
        pids = [each[key] for each in lines for key in ("pid", "child") if key in each]
        self.assertEqual(len(pids), 4)
        self.wait_gone(pids)

    def test_what_a_rank_started_ends_with_it(self):
        self.start("-n", "1", behaviour="child")
        child = self.heard("child")["child"]
        os.kill(self.heard("pid")["pid"], signal.SIGKILL)
        self.wait_gone([child])

    def test_one_has_left_and_another_does_not_end(self):
        self.start("-n", "2", "--min", "2", "--grace", "0.2", behaviour="deaf:1")
        os.kill(self.world(2)[0]["pid"], signal.SIGTERM)
        self.world(2)
        self.assertEqual(self.finish(), 0)
        self.assertEqual(
            self.said(),
            "remesh launch: rank 1 was killed: it had not ended in time\n"
            "remesh launch: world 2 begins with 2 processes\n",
        )

    def test_told_to_end_twice(self):
        self.start("-n", "2")
        self.world(2)
        self.launcher.terminate()
        self.launcher.terminate()
        self.assertEqual(sum(self.heard("saved")["saved"] for _ in range(2)), 2)
        self.assertEqual(self.launcher.wait(_SECONDS), 143)
        self.assertEqual(self.said(), "")

    def test_told_to_end_before_the_ranks_can_take_a_signal(self):
        self.start("-n", "2", command=["sh", "-c", "echo '{\"pid\": 1}'; exec sleep 1000"])
        self.heard("pid")
        self.launcher.terminate()
        self.assertEqual(self.launcher.wait(_SECONDS), 143)

    def test_a_bug_is_not_started_again(self):
        self.start("-n", "2", "--restarts", "0", command=["sh", "-c", "exit 7"])
        self.assertEqual(self.launcher.wait(_SECONDS), 7)
        self.assertTrue(self.said().endswith("the job ends: 1 deaths, --restarts is 0\n"))

    # The shell that ends the ranks if the launcher is killed.
    def guard(self):
        children = pathlib.Path(f"/proc/{self.launcher.pid}/task/{self.launcher.pid}/children")
        for pid in map(int, children.read_text().split()):
            if b"while read" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
        self.fail("no guard")

    def test_the_guard_is_killed(self):
        self.start("-n", "3", behaviour="child")
        lines = [json.loads(self.launcher.stdout.readline()) for _ in range(6)]
        os.kill(self.guard(), signal.SIGKILL)
        os.kill(next(each["pid"] for each in lines if "pid" in each), signal.SIGKILL)
        self.world(2)
        self.wait_gone(each[key] for each in lines for key in ("pid", "child") if key in each)

    def test_the_launcher_stands_still(self):
        self.start("-n", "2")
        first = self.world(2)
        self.launcher.send_signal(signal.SIGSTOP)
        os.kill(first[0]["pid"], signal.SIGKILL)
        self.launcher.send_signal(signal.SIGCONT)
        self.world(1)
        self.assertEqual(self.finish(), 0)

    def test_lines_do_not_mix(self):
        program = "for i in $(seq 300); do printf a; printf b$REMESH_RANK; echo c; done; printf end"
        self.start("-n", "4", command=["sh", "-c", program])
        lines = self.launcher.stdout.read().splitlines()
        self.assertEqual(self.launcher.wait(_SECONDS), 0)
        wanted = {f"ab{rank}c": 300 for rank in range(4)} | {"end": 4}
        self.assertEqual({each: lines.count(each) for each in lines}, wanted)

    def test_output_that_is_not_read(self):
        self.start("-n", "2", command=["sh", "-c", "seq 100000"])
        self.launcher.stdout.readline()
        self.launcher.stdout.close()
        self.assertEqual(self.launcher.wait(_SECONDS), 0)

    def test_what_is_refused(self):
        rows = (
            (["-n", "0"], "-n: 1 <= --min 1 <= 0 <= --max 0 must hold"),
            (["-n", "2", "--min", "0"], "-n: 1 <= --min 0 <= 2 <= --max 2 must hold"),
            (["-n", "2", "--min", "3"], "-n: 1 <= --min 3 <= 2 <= --max 2 must hold"),
            (["-n", "4", "--max", "3"], "-n: 1 <= --min 1 <= 4 <= --max 3 must hold"),
            (
                ["-n", "4", "--max", "6", "--next-size", "7"],
                "--next-size: 1 <= --min 1 <= 7 <= --max 6 must hold",
            ),
            (["-n", "x"], "invalid int value: 'x'"),
        )
        for options, text in rows:
            with self.subTest(options):
                self.assertIn(text, self.refusal([*options, "--", "true"]))
        text = self.refusal(["-n", "1", "--", "/no/program"])
        self.assertIn("COMMAND: value '/no/program' must be a program", text)

    def refusal(self, arguments):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as refused:
            launch.main(arguments)
        self.assertEqual(refused.exception.code, 2)
        return said.getvalue()


if __name__ == "__main__":
    unittest.main()
