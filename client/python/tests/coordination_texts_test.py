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
_DEADLINE = 3.0  # of calls that one does not come to; the others must come within it
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

    def texts(self, ranks):
        return {json.loads(self.members[rank].stdout.readline()) for rank in ranks}

    def form(self, deadline=60.0):
        self.worlds += 1
        self.ask(range(_SIZE), join=f"world {self.worlds}", deadline=deadline)
        self.assertEqual(self.texts(range(_SIZE)), {""})

    def note(self, fault, call, texts):
        self.assertEqual(len(texts), 1, f"{fault} {call}: {texts}")
        self.found.append((fault, call, *texts))

    def rows(self, *faults):
        return [(fault, call) for fault, call, _ in expected() if fault in faults]

    def test_texts(self):
        self.form()
        others = [rank for rank in range(_SIZE) if rank != _ODD]
        for fault, call in self.rows("name", "shape", "bit", "sources"):
            everyone = fault if fault == "sources" else ""
            self.ask(others, call=call, fault=everyone)
            self.ask([_ODD], call=call, fault=fault)
            self.note(fault, call, self.texts(range(_SIZE)))
        others = range(_LAST)
        self.form(_DEADLINE)
        for fault, call in self.rows("stopped"):
            self.members[_LAST].send_signal(signal.SIGSTOP)
            self.ask(others, call=call, fault="")
            if call == _STEP:
                self.members[3].send_signal(signal.SIGTERM)
            told = self.texts(others)
            self.members[_LAST].send_signal(signal.SIGCONT)
            if call != _STEP:
                self.ask([_LAST], call=call, fault="")
                told |= self.texts([_LAST])
            self.note(fault, call, told)
        for fault, call in self.rows("killed"):
            self.form()
            self.ask(others, call=call, fault="")
            self.members[_LAST].kill()
            self.note(fault, call, self.texts(others))
            self.members[_LAST].communicate()
            self.members[_LAST] = self.start(_LAST)
        self.maxDiff = None
        text = lambda rows: "\n".join(" ".join(row) for row in rows)
        self.assertEqual(text(self.found), text(expected()))


if __name__ == "__main__":
    unittest.main()
