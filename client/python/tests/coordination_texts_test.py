# SPDX-License-Identifier: Apache-2.0
"""What 16 processes are told over the server when one of them is at fault, stands still or dies, in
each utility of remesh.coordination: all the same text, that of coordination_texts.txt."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

from remesh.testing import LocalCluster

_MEMBER = pathlib.Path(__file__).with_name("coordination_texts_member.py")
_TABLE = pathlib.Path(__file__).with_name("coordination_texts.txt")
_SIZE, _ODD, _LAST = 16, 11, 15
_DEADLINE = 8.0  # of calls that one does not come to; the others must come within it
_STEP = "reached_preemption_sync_point"


def expected():
    """(fault, call, text) of each line."""
    lines = _TABLE.read_text(encoding="utf-8").splitlines()
    return [tuple(line.split(" ", 2)) for line in lines if line and not line.startswith("#")]


class TextsTest(unittest.TestCase):

    def setUp(self):
        # A process that stands still is to be missed at the deadline.
        patient = ("keepalive_time: 60s", "keepalive_timeout: 60s")
        self.cluster = LocalCluster(hosts=1, server_config=patient).__enter__()
        self.addCleanup(self.cluster.close)
        self.members = [self.start(rank) for rank in range(_SIZE)]
        self.worlds = 0
        self.found = []

    def start(self, rank):
        environment = {**os.environ, "REMESH_SOCKET": self.cluster.worker_socket("host-0")}
        member = subprocess.Popen(
            [sys.executable, _MEMBER, str(rank), str(_SIZE)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(member.communicate)
        self.addCleanup(member.kill)
        return member

    def ask(self, ranks, **order):
        for rank in ranks:
            self.members[rank].stdin.write(json.dumps(order) + "\n")
            self.members[rank].stdin.flush()

    def answers(self, ranks):
        return [json.loads(self.members[rank].stdout.readline()) for rank in ranks]

    # Lets all join a world for each of the calls.
    def form(self, calls, deadline=60.0):
        self.worlds += 1
        self.ask(range(_SIZE), join=calls, attempt=f"{self.worlds}", deadline=deadline)
        self.assertEqual(self.answers(range(_SIZE)), ["joined"] * _SIZE)

    # What is the same in all answers.
    def note(self, fault, calls, answers):
        for call in calls:
            texts = {each[call] for each in answers if call in each}
            self.assertEqual(len(texts), 1, f"{fault} {call}: {texts}")
            self.found.append((fault, call, *texts))

    def calls(self, fault):
        return [call for each, call, _ in expected() if each == fault]

    def test_texts(self):
        self.form(list(dict.fromkeys(call for _, call, _ in expected())))
        others = [rank for rank in range(_SIZE) if rank != _ODD]
        for fault in ("name", "shape", "bit", "sources"):
            calls = self.calls(fault)
            self.ask(others, calls=calls, fault=fault if fault == "sources" else "")
            self.ask([_ODD], calls=calls, fault=fault)
            self.note(fault, calls, self.answers(range(_SIZE)))
        self.check_stopped()
        self.check_killed()
        self.maxDiff = None
        text = lambda rows: "\n".join(" ".join(row) for row in rows)
        self.assertEqual(text(self.found), text(expected()))

    # The last comes too late to all calls but the one that asks about steps.
    def check_stopped(self):
        calls = self.calls("stopped")
        self.form(calls, _DEADLINE)
        self.members[_LAST].send_signal(signal.SIGSTOP)
        self.ask(range(_LAST), calls=calls, fault="")
        self.members[3].send_signal(signal.SIGTERM)  # from here on all agree on a step
        told = self.answers(range(_LAST))
        self.members[_LAST].send_signal(signal.SIGCONT)
        self.ask([_LAST], calls=[each for each in calls if each != _STEP], fault="")
        self.note("stopped", calls, told + self.answers([_LAST]))

    def check_killed(self):
        calls = self.calls("killed")
        self.form(calls)
        self.ask(range(_LAST), calls=calls, fault="")
        self.members[_LAST].kill()
        self.note("killed", calls, self.answers(range(_LAST)))


if __name__ == "__main__":
    unittest.main()
