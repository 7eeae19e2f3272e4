# SPDX-License-Identifier: Apache-2.0
"""All processes leave at one step, whoever is asked to leave and when."""

import os
import random
import signal
import subprocess
import sys
import threading
import unittest

import notice_laws
from remesh import errors
from remesh.job import signals
from remesh.job.leaving import Decision, GroupNotice, Poll, Reason
from remesh.local_group import LocalGroup, run_together

TOLD, RESIZED = Reason.TOLD_TO_GO, Reason.RESIZED


class ScriptedNotice:
    """Says what it is told at the step that it is told for."""

    def __init__(self, safe=None, reason=TOLD):
        self.safe, self.reason, self.asked, self.closed = safe, reason, [], False

    def due(self, step):
        self.asked.append(step)
        return self.reason if step == self.safe else None

    def tell(self, reason, next_size=0):
        self.safe, self.reason = self.asked[-1] + 1 if self.asked else 0, reason

    def close(self):
        self.closed = True


class InterruptedGroup:
    """A member whose process is asked to leave while an exchange runs."""

    def __init__(self, member):
        self.rank, self.size, self._member = member.rank, member.size, member
        self.after_gather = lambda: None

    def gather(self, name, payload, to=0):
        gathered = self._member.gather(name, payload, to)
        self.after_gather()
        return gathered

    def broadcast(self, name, payload, root=0):
        return self._member.broadcast(name, payload, root)


class SkewTest(unittest.TestCase):
    """1,000 worlds of 1 to 5 processes, each told at moments of its own."""

    def test_all_leave_at_one_step(self):
        left, ended = 0, 0
        for seed in range(1000):
            with self.subTest(seed=seed):
                safe = self.one_world(random.Random(seed))
                left, ended = left + (safe is not None), ended + (safe is None)
        print(f"{left} worlds left, {ended} came to their end", flush=True)
        self.assertGreater(left, 500)
        self.assertGreater(ended, 50)

    def one_world(self, chosen):
        size, poll, start = chosen.randint(1, 5), chosen.randint(1, 6), chosen.randint(0, 50)
        steps = range(start, start + chosen.randint(1, 30), chosen.choice((1, 1, 1, 3)))
        told = {
            (rank, chosen.choice(steps)): chosen.choice((TOLD, TOLD, RESIZED))
            for rank in range(size)
            if chosen.random() < 0.5
        }
        late = {rank: chosen.choice(steps) for rank in range(size) if chosen.random() < 0.1}

        def process(member):
            group = InterruptedGroup(member)
            notice = GroupNotice(group, poll)
            tardy = {}

            def tell_late(step):
                if late.get(member.rank) == step and not tardy:
                    tardy[step] = TOLD
                    notice.tell(TOLD)

            def before(step):
                group.after_gather = lambda: tell_late(step)
                if (member.rank, step) in told:
                    notice.tell(told[member.rank, step])
                return told.get((member.rank, step))

            record = notice_laws.run(notice, steps, before)
            for step, reason in tardy.items():
                record.told.setdefault(step, reason)
            return record

        return notice_laws.check(run_together(LocalGroup.make(size), process), 2 * poll)


class PollTest(unittest.TestCase):

    def exchanges(self, poll, steps):
        made = Poll(poll)
        result = []
        for step in steps:
            if made.is_due(step):
                result.append(step)
                made.answer(step, None)
        return result

    def test_exchanges_at_the_first_step_and_every_so_many(self):
        self.assertEqual(self.exchanges(4, range(7, 20)), [7, 11, 15, 19])
        self.assertEqual(self.exchanges(4, range(0, 30, 3)), [0, 6, 12, 18, 24])
        self.assertEqual(self.exchanges(1, range(3)), [0, 1, 2])
        self.assertEqual(self.exchanges(4, [10, 11, 3, 4, 7]), [10, 3, 7], "after a roll-back")

    def test_leaves_after_the_step_of_the_exchange(self):
        poll = Poll(4)
        poll.answer(8, TOLD)
        self.assertEqual([poll.leave_at(step) for step in (8, 9, 12)], [None, TOLD, TOLD])
        self.assertFalse(poll.is_due(12))


class DecisionTest(unittest.TestCase):

    def test_asks_once_a_step_and_no_more_after_yes(self):
        notice = ScriptedNotice(safe=2)
        decision = Decision(notice)
        self.assertIsNone(decision.at(0), "before start()")
        decision.start()
        answers = [decision.at(step) for step in (1, 1, 2, 2, 3)]
        self.assertEqual(answers, [None, None, TOLD, TOLD, TOLD])
        self.assertEqual(notice.asked, [1, 2])

    def test_the_laws_hold_for_a_notice_of_any_kind(self):
        for reason in (TOLD, RESIZED):
            notice = ScriptedNotice()

            def before(step, notice=notice, reason=reason):
                if step == 3:
                    notice.tell(reason)
                    return reason
                return None

            record = notice_laws.run(notice, range(10), before)
            self.assertEqual(notice_laws.check([record], 1), 3)

    def test_the_laws_find_processes_that_leave_apart(self):
        records = [
            notice_laws.run(ScriptedNotice(safe), range(5), lambda step: None) for safe in (2, 3)
        ]
        with self.assertRaises(AssertionError):
            notice_laws.check(records, 5)
        with self.assertRaises(AssertionError):
            notice_laws.check(records[:1], 5)


class GroupNoticeTest(unittest.TestCase):

    def test_a_resize_wins(self):
        def process(member):
            notice = GroupNotice(member)
            notice.tell(RESIZED if member.rank == 1 else TOLD)
            return [notice.due(step) for step in range(2)]

        for answers in run_together(LocalGroup.make(3), process):
            self.assertEqual(answers, [None, RESIZED])

    def test_a_process_that_is_gone_is_an_error_of_all(self):
        def process(member):
            if member.rank == 1:
                member.close()
                return
            with self.assertRaises(errors.MemberLost):
                GroupNotice(member).due(0)

        run_together(LocalGroup.make(2), process)


class SignalTest(unittest.TestCase):
    """In the main thread, as unittest runs it."""

    def setUp(self):
        self.addCleanup(signal.signal, signal.SIGTERM, signal.getsignal(signal.SIGTERM))

    def test_the_earlier_handler_is_called_too_and_comes_back(self):
        called = []

        def earlier(number, _):
            called.append(number)

        signal.signal(signal.SIGTERM, earlier)
        told = []
        first = signals.Listener(lambda: told.append(1))
        second = signals.Listener(lambda: told.append(2))
        signal.raise_signal(signal.SIGTERM)
        first.close()
        signal.raise_signal(signal.SIGTERM)
        second.close()
        second.close()
        self.assertEqual((told, called), ([1, 2, 2], [signal.SIGTERM] * 2))
        self.assertIs(signal.getsignal(signal.SIGTERM), earlier)

    def test_a_handler_over_ours_stays(self):
        listener = signals.Listener(lambda: None)
        ours = signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, lambda *arguments: ours(*arguments))
        over = signal.getsignal(signal.SIGTERM)
        listener.close()
        self.assertIs(signal.getsignal(signal.SIGTERM), over)
        signal.signal(signal.SIGTERM, ours)
        signals.Listener(lambda: None).close()
        self.assertEqual(signal.getsignal(signal.SIGTERM), signal.SIG_DFL)

    def test_another_thread_than_the_main_one_changes_no_handler(self):
        before = signal.getsignal(signal.SIGTERM)
        thread = threading.Thread(target=lambda: signals.Listener(lambda: None).close())
        thread.start()
        thread.join()
        self.assertIs(signal.getsignal(signal.SIGTERM), before)

    def test_sigterm_leads_to_a_later_step(self):
        notice = GroupNotice(LocalGroup.make(1)[0], 2)
        self.assertEqual(signal.getsignal(signal.SIGTERM), signal.SIG_DFL, "before the first step")
        self.addCleanup(notice.close)

        def before(step):
            if step not in (3, 4):  # twice, as Slurm sends it
                return None
            signal.raise_signal(signal.SIGTERM)
            return TOLD

        record = notice_laws.run(notice, range(10), before)
        self.assertEqual(notice_laws.check([record], 3), 5)

    def test_forked_children_end_by_sigterm(self):
        program = """
import os, signal
from remesh.job import signals
listener = signals.Listener(lambda: print("told", flush=True))
child = os.fork()
if child == 0:
    signal.pause()
os.kill(child, signal.SIGTERM)
print(os.WTERMSIG(os.waitpid(child, 0)[1]), flush=True)
os.kill(os.getpid(), signal.SIGTERM)
listener.close()
os.kill(os.getpid(), signal.SIGTERM)
print("lives", flush=True)
"""
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ,
        )
        self.assertEqual(done.stdout, "15\ntold\n")
        self.assertEqual(done.returncode, -signal.SIGTERM, done.stderr)


if __name__ == "__main__":
    unittest.main()
