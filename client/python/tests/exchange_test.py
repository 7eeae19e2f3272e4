# SPDX-License-Identifier: Apache-2.0
"""Worlds of real processes over a real server: what all are told when one of 16 dies, stops or
differs, and rounds of 8 while the server is killed again and again.

REMESH_SERVER_KILLS: how often (10); a nightly run takes 200."""

import collections
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
import unittest

import exchange_keeper
import exchange_stuck
from exchange_keeper import MODES, STOPPED_SECONDS, VICTIM
from remesh.testing import LocalCluster

_BIN = os.environ.get("REMESH_BIN_DIR", "build/release/bin")
_KILLS = int(os.environ.get("REMESH_SERVER_KILLS", "10"))
_SIZE = 16
_ROUNDS_PER_KILL = 5
# Rounds after the last kill. When a world ends, one member may have come a round further than
# another. If that were the last round, it would end, and the other wait for it in the next world.
_QUIET_ROUNDS = 20
_STUCK_SECONDS = 120.0  # without a word
_ONE = f"{VICTIM}@host-{VICTIM}"
_OTHERS = ", ".join(f"{each}@host-{each}" for each in range(_SIZE) if each != VICTIM)
_CALLS = {
    "barrier": 'barrier "{}"',
    "agree": 'agree "{}"',
    "broadcast": 'broadcast "{}" with root 0',
    "gather": 'gather "{}" with root 0',
    "gather_all": 'gather "{}" with root -1',
}
_OTHER_CALLS = {
    "barrier": 'agree "same"',
    "broadcast": 'broadcast "same" with root 1',
    "gather": 'gather "same" with root 1',
    "gather_all": 'gather "same" with root 1',
}
_OTHER_STRUCTURE = f"STRUCTURE_MISMATCH: same: structures differ; equal ones at {_OTHERS} | {_ONE}"
_OTHER_VALUE = (
    f"VALUES_DIFFER: same: values differ in group 0 of leaves; equal ones at {_OTHERS} | {_ONE}"
)


def calls_differ(mode, other):
    same = _CALLS[mode].format("same")
    return f"NAME_MISMATCH: members are at different calls: {_OTHERS} at {same}; {_ONE} at {other}"


def told(mode, case, rank):
    """The table: what a living member is told."""
    if case in ("killed", "silent"):
        return f"MEMBER_LOST: {_ONE} is lost: its stream ended"
    if case == "stopped":
        return f"BARRIER_TIMEOUT: same: not all members came in time; absent: {_ONE}"
    if case == "name":
        return calls_differ(mode, _CALLS[mode].format("other"))
    if case == "structure":
        return _OTHER_STRUCTURE if mode == "agree" else calls_differ(mode, _OTHER_CALLS[mode])
    if mode == "agree":
        return _OTHER_VALUE
    values = ",".join("odd" if each == VICTIM else "v" for each in range(_SIZE))
    gets_all = mode == "gather_all" or (mode == "gather" and rank == 0)
    return f"OK {values if gets_all else 'v' if mode == 'broadcast' else ''}"


class ExchangeCase(unittest.TestCase):

    def setUp(self):
        self.cluster = LocalCluster(_BIN, 0).__enter__()
        self.addCleanup(self.cluster.close)

    def world(self, **order):
        """Yields what the members of a world say. Whoever is left at the end of the test is
        killed."""
        keeper = subprocess.Popen(
            [sys.executable, pathlib.Path(exchange_keeper.__file__)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.addCleanup(keeper.communicate)
        self.addCleanup(kill_group, keeper.pid)
        order = {"server": self.cluster.server_address, **order}
        keeper.stdin.write(json.dumps(order) + "\n")
        keeper.stdin.flush()
        last_words, pids = {}, []
        while True:
            stuck = threading.Timer(_STUCK_SECONDS, self.end_stuck, [keeper.pid, last_words, pids])
            stuck.start()
            line = keeper.stdout.readline()
            stuck.cancel()
            self.assertTrue(line, f"nothing was said for {_STUCK_SECONDS:g} s")
            said = json.loads(line)
            self.assertNotIn("error", said, said.get("error"))
            if "all_ended" in said:
                return
            pids[:] = said.get("pids", pids)
            if "rank" in said:
                last_words[said["rank"]] = said
            yield said

    def end_stuck(self, keeper, last_words, pids):
        try:
            exchange_stuck.explain(self.cluster, last_words, pids)
        finally:
            kill_group(keeper)


def kill_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


class TableTest(ExchangeCase):
    CASES = ("value", "structure", "name", "stopped", "killed")

    def test_what_all_are_told(self):
        seconds = collections.defaultdict(list)
        for mode in MODES:
            self.check(mode, self.CASES, seconds)
        show(seconds)

    def test_a_member_that_is_stopped_for_longer_is_lost(self):
        seconds = collections.defaultdict(list)
        checks = [threading.Thread(target=self.check_into, args=(mode, seconds)) for mode in MODES]
        self.failures = []
        for each in checks:
            each.start()
        for each in checks:
            each.join()
        self.assertEqual(self.failures, [])
        show(seconds)

    def check_into(self, mode, seconds):
        try:
            self.check(mode, ("silent",), seconds)
        except BaseException as error:  # pylint: disable=broad-except
            self.failures.append(f"{mode}: {error}")

    # Compares all that the members of a world say with the table. seconds: from
    # when the decision could be made until the last was told, by case.
    def check(self, mode, cases, seconds):
        heard = collections.defaultdict(dict)
        victim = {}
        scope = f"jobs/table/worlds/{mode}"
        for said in self.world(program="table", size=_SIZE, scope=scope, mode=mode, cases=cases):
            if "victim" in said:
                victim[said["case"]] = said
            if "told" not in said:
                continue
            case, of_case = said["case"], heard[said["case"]]
            of_case[said["rank"]] = said
            if len(of_case) == _SIZE - 1 and case in ("stopped", "silent"):
                os.kill(victim[case]["victim"], signal.SIGCONT)
        for case in cases:
            living = set(range(_SIZE)) - ({VICTIM} if case == "killed" else set())
            self.assertEqual(set(heard[case]), living, (mode, case))
            for rank, said in heard[case].items():
                self.assertEqual(said["told"], told(mode, case, rank), (mode, case, rank))
            others = [said for rank, said in heard[case].items() if rank != VICTIM]
            begun = [said["begin"] for said in heard[case].values()]
            if case in victim:
                begun = [victim[case]["at"]]
            if case == "stopped":
                begun = [min(said["begin"] for said in others) + STOPPED_SECONDS]
            seconds[case].append(max(said["end"] for said in others) - max(begun))


def show(seconds):
    for case, each in seconds.items():
        print(
            f"{case:9} {_SIZE} processes, {len(each)} modes: all told after "
            f"{statistics.median(each):.3f} s, worst {max(each):.3f} s",
            flush=True,
        )


class ServerKillsTest(ExchangeCase):
    SIZE = 8

    def test_no_two_members_have_different_results(self):
        rounds = _ROUNDS_PER_KILL * _KILLS
        draw = random.Random(11)
        results = collections.defaultdict(dict)  # by epoch and round, by rank
        worlds, kills, begin = [], 0, time.monotonic()
        for said in self.world(
            program="mixed", size=self.SIZE, scope="jobs/kills/worlds/main", rounds=rounds
        ):
            if "ended" in said:
                worlds.append(said["worlds"])
            if "told" not in said:
                continue
            results[said["epoch"], said["round"]][said["rank"]] = said["told"]
            next_kill = kills * (rounds - _QUIET_ROUNDS) // _KILLS
            if said["rank"] == 0 and said["round"] >= next_kill and kills < _KILLS:
                time.sleep(draw.random() * 0.005)  # somewhere in a round
                self.cluster.kill_server()
                self.cluster.start_server()
                kills += 1
        self.assertEqual(len(worlds), self.SIZE)
        last = {}  # round of each epoch that had a result for someone
        for (epoch, number), of_round in results.items():
            if not all(map(ends_world, of_round.values())):
                last[epoch] = max(number, last.get(epoch, -1))
        ended = 0
        for (epoch, number), of_round in sorted(results.items()):
            ended += self.check_round(number, of_round, number >= last.get(epoch, -1))
        print(
            f"{kills} kills of the server in {rounds} rounds of {self.SIZE} members: {max(worlds)} worlds, "
            f"{len(results)} rounds, of which {ended} ended a world, {time.monotonic() - begin:.0f} s",
            flush=True,
        )
        self.assertEqual(kills, _KILLS)

    # The law of a round; whether the world ended in it for some.
    def check_round(self, number, of_round, is_last):
        over = {rank: each for rank, each in of_round.items() if ends_world(each)}
        for rank, each in of_round.items():
            if rank in over:
                continue
            if number >= 0:
                self.assertEqual(each, exchange_keeper.expected(number, rank, self.SIZE), number)
            others = {told for other, told in of_round.items() if other not in over}
            if number < 0:
                self.assertEqual(len(others), 1, of_round)
        if over:
            self.assertTrue(is_last, of_round)
        return bool(over)


def ends_world(told):
    return told.split(":")[0] in ("MEMBER_LOST", "WORLD_OVER", "STALE_EPOCH", "SERVER_AWAY")


if __name__ == "__main__":
    unittest.main()
