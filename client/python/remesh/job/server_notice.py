# SPDX-License-Identifier: Apache-2.0
"""Leaving at a step that the server lets all processes agree on: steps cost no call.

Who is told to go reports it to the server, which tells all processes by the streams of their
world. A thread of each then says the highest step that its process has asked about, and the process
asks about no other until the answer is there: one step above the highest of all.
"""

import logging
import queue
import threading
from typing import Optional, Tuple

from remesh import errors
from remesh.job import signals
from remesh.job.leaving import Reason, ask_for_size
from remesh.server_group import AgreedStep, ServerGroup, again

_LOG = logging.getLogger("remesh")
_HEARD_SECONDS = 5.0  # a report that is not heard of again in this time is repeated
_JOIN_SECONDS = 5.0
_NEVER = 1 << 62
_Told = Tuple[Reason, int]


class ServerNotice:
    """SIGTERM to any process, tell(), or another's report to the server, such as that of
    `remeshctl jobs resize`. due() makes no call; it waits only while the processes agree."""

    def __init__(self, members: ServerGroup, listens: bool = True):
        """listens: whether to notice SIGTERM, from the first due() on."""
        self._group = members
        self._listens = listens
        self._listener: Optional[signals.Listener] = None
        # Of what the thread does: None ends it, () is a preemption that the
        # server told. A signal handler may put something in at any time.
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

    def listen(self) -> bool:
        """Hears the server, and notices SIGTERM, from now on. Whether it can notice it."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="remesh-leaving", daemon=True)
            self._thread.start()
            self._group.on_preempted(lambda: self._tasks.put(()))
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
        self._group.end_agreement()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)

    def _work(self) -> None:
        for task in iter(self._tasks.get, None):
            if task:
                self._report(*task)
            else:
                self._agree()

    # Until the server's word comes back: it forgets what it was told if it
    # restarts before any process heard it.
    def _report(self, reason: Reason, next_size: int) -> None:
        by = f"{reason.name} of process {self._group.name}"
        try:
            self._group.report_preemption(by, next_size, resize=reason == Reason.RESIZED)
            while not self._group.wait_preempted(_HEARD_SECONDS):
                self._group.report_preemption(by, next_size, resize=reason == Reason.RESIZED)
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
            agreed = self._group.agree_step(asked)
        except errors.RemeshError as error:
            failed = error
            if isinstance(error, errors.MemberLeft):  # the job ends: it is too late
                agreed, failed = AgreedStep(_NEVER), None
        with self._changed:
            self._agreed, self._error, self._is_frozen = agreed, failed, False
            self._changed.notify_all()
