# SPDX-License-Identifier: Apache-2.0
"""Leaving at a step that the server lets all processes agree on: steps cost no call.

A process that must leave reports it to the server, which sends that to all processes by the
streams of their world. A thread of each then sends the highest step that its process has asked
about, and the process asks about no other until the answer is there: one step above the highest of
all.
"""

import logging
import queue
import threading
from typing import Optional, Tuple

from remesh import errors
from remesh.job import signals
from remesh.job.leaving import Reason, ask_for_size
from remesh.server_group import ServerGroup, again
from remesh.step_agreement import AgreedStep
from remesh.v1 import coordination_pb2

_LOG = logging.getLogger("remesh")
_REPEAT_SECONDS = 5.0  # a report that the server has not passed on in this time is repeated
_JOIN_SECONDS = 5.0
_NEVER = 1 << 62
_Told = Tuple[Reason, int]


class ServerNotice:
    """SIGTERM to any process, tell(), or another's report to the server, such as that of
    `remeshctl jobs resize`. due() makes no call; it waits only while the processes agree."""

    def __init__(self, members: ServerGroup, listens: bool = True):
        """listens: whether to notice SIGTERM, from the first due() on."""
        self._group = members
        self._agreement = members.step_agreement()
        self._listens = listens
        self._listener: Optional[signals.Listener] = None
        # Of what the thread does: None ends it, () is a preemption that the
        # server sent. A signal handler may put something in at any time.
        self._tasks: "queue.SimpleQueue[Optional[Tuple]]" = queue.SimpleQueue()
        self._thread: Optional[threading.Thread] = None
        self._changed = threading.Condition()
        self._asked = -1  # the highest step
        self._is_frozen = False
        self._agreed: Optional[AgreedStep] = None
        self._error: Optional[errors.RemeshError] = None

    def due(self, step: int) -> Optional[Reason]:
        """Notice.due(). MemberLost and what else ends the world, at the first step after it;
        BarrierTimeout if a process did not say its step."""
        self.listen()
        over = self._group.failure()
        if over is not None:
            raise again(over)
        with self._changed:
            self._changed.wait_for(lambda: not self._is_frozen)
            if self._error is not None:
                raise again(self._error)
            if self._agreed is None:
                self._asked = max(self._asked, step)
                return None
            agreed = self._agreed
        return self._leave(agreed) if step >= agreed.step else None

    def _leave(self, agreed: AgreedStep) -> Reason:
        if agreed.next_size:
            ask_for_size(agreed.next_size)
        return Reason.RESIZED if agreed.resize else Reason.TOLD_TO_GO

    def preempted(self) -> Optional[coordination_pb2.WorldEvent.Preempt]:
        """What the server last said of a report; None: nothing."""
        return self._agreement.preempted()

    def listen(self) -> bool:
        """Notices SIGTERM, and what the server sends, from now on. Whether it can notice
        SIGTERM."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="remesh-leaving", daemon=True)
            self._thread.start()
            self._agreement.on_preempted(lambda: self._tasks.put(()))
        if self._listens and self._listener is None:
            self._listener = signals.Listener(lambda: self.tell(Reason.TOLD_TO_GO))
        return self._listener is not None and self._listener.is_installed

    def tell(self, reason: Reason, next_size: int = 0) -> None:
        """Notice.tell()."""
        self._tasks.put((reason, next_size))

    def close(self) -> None:
        """Notice.close()."""
        if self._listener is not None:
            self._listener.close()
        self._tasks.put(None)
        self._agreement.end()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)

    def _work(self) -> None:
        for task in iter(self._tasks.get, None):
            if task:
                self._report(*task)
            else:
                self._agree()

    # Until the report comes back from the server, which loses it if it restarts
    # before any process has received it.
    def _report(self, reason: Reason, next_size: int) -> None:
        by = f"{reason.name} of process {self._group.name}"
        try:
            self._agreement.report(by, next_size, resize=reason == Reason.RESIZED)
            while not self._agreement.wait_preempted(_REPEAT_SECONDS):
                self._agreement.report(by, next_size, resize=reason == Reason.RESIZED)
        except errors.RemeshError as error:
            _LOG.info("%s is not reported: %s", by, error)

    # Once: the process asks about no step until all have agreed.
    def _agree(self) -> None:
        with self._changed:
            if self._agreed is not None or self._error is not None:
                return
            self._is_frozen = True
            asked = self._asked
        agreed: Optional[AgreedStep] = None
        failed: Optional[errors.RemeshError] = None
        try:
            agreed = self._agreement.agree(asked)
        except errors.RemeshError as error:
            failed = error
            if isinstance(error, errors.MemberLeft):  # the job ends: it is too late
                agreed, failed = AgreedStep(_NEVER), None
        with self._changed:
            self._agreed, self._error, self._is_frozen = agreed, failed, False
            self._changed.notify_all()
