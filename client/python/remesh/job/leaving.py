# SPDX-License-Identifier: Apache-2.0
"""All processes of a job leave at the same step when one of them must.

A Notice tells at which step. A notice that arrives at step s on any process leads to a safe step
after s, which is the same on all: there they save, and leave. GroupNotice works for any group,
server_notice.py for one of the server, without an exchange; remesh.jax.notice has JAX's own.
"""

import enum
import logging
import os
import pathlib
from typing import List, Optional, Protocol, Set

from remesh import group
from remesh.job import signals

_LOG = logging.getLogger("remesh")


class Reason(enum.IntEnum):
    """Why a job leaves. The value is the exit status of its processes."""

    RESIZED = 75  # EX_TEMPFAIL of sysexits.h: to be started again, with another size
    TOLD_TO_GO = 143  # 128 + SIGTERM, as shells say it


def ask_for_size(size: int) -> None:
    """Tells `remesh launch` how many processes the next world should have, if this one leaves.
    Without it does nothing."""
    path = os.environ.get("REMESH_NEXT_SIZE_FILE", "")
    if path:
        try:
            pathlib.Path(path).write_text(f"{int(size)}\n", encoding="ascii")
        except OSError as error:
            _LOG.warning("remesh launch does not learn the next size, %d: %s", size, error)


class Notice(Protocol):
    """Where a job learns that it must leave. Of one process; due() is called in the thread that
    calls the group, tell() in any."""

    def due(self, step: int) -> Optional[Reason]:
        """Why to leave at this step, None to go on: equal on all processes. Called by all of them,
        once a step; no more once there is a reason. A tell() while this step's call runs, or
        after it, is due at a later step. May exchange with the other processes."""

    def tell(self, reason: Reason, next_size: int = 0) -> None:
        """This process must leave, so all must. next_size: of the next world; 0: not said."""

    def close(self) -> None:
        """Notices no more signals."""


class Decision:
    """Whether to leave at a step: one answer a step, whoever asks, and yes from the safe step on.
    Without a notice, or before start(), always no."""

    def __init__(self, notice: Notice):
        self._notice = notice
        self._started = False
        self._step: Optional[int] = None
        self._reason: Optional[Reason] = None

    def start(self) -> None:
        """Asks the notice from now on."""
        self._started = True

    def at(self, step: int) -> Optional[Reason]:
        """Why to leave at this step."""
        if self._started and self._reason is None and step != self._step:
            self._reason = self._notice.due(step)
            self._step = step
        return self._reason


class Poll:
    """At which steps processes exchange their reasons to leave, and when they leave after that.
    Every process holds an equal one, since each asks about the same steps and gets the same
    answers."""

    def __init__(self, steps: int):
        """steps: from one exchange to the next."""
        self._steps = steps
        self._last: Optional[int] = None  # step of the last exchange
        self._reason: Optional[Reason] = None

    def is_due(self, step: int) -> bool:
        """Whether to exchange at this step. The first step is one; steps may go down, after a
        roll-back."""
        if self._reason is not None:
            return False
        return self._last is None or not self._last <= step < self._last + self._steps

    def answer(self, step: int, reason: Optional[Reason]) -> None:
        """The answer of the exchange at this step."""
        self._last, self._reason = step, reason

    def leave_at(self, step: int) -> Optional[Reason]:
        """Why to leave at this step: not yet at that of the exchange, for it may have begun."""
        return None if step == self._last else self._reason


class GroupNotice:
    """SIGTERM to any process, or tell(), by an exchange of the group every few steps. Costs one
    exchange each time, so leaving comes up to `poll` steps after the notice.

    SIGTERM is noticed from the first due() on, by a handler that calls the earlier one, too, if the
    first due() is called in the main thread."""

    def __init__(self, job_group: group.Group, poll: int = 10):
        self._group = job_group
        self._poll = Poll(poll)
        self._told: Set[Reason] = set()
        self._listener: Optional[signals.Listener] = None

    def due(self, step: int) -> Optional[Reason]:
        """Notice.due()."""
        self.listen()
        if self._poll.is_due(step):
            self._poll.answer(step, exchange_reasons(self._group, self._told, f" at {step}"))
        return self._poll.leave_at(step)

    def listen(self) -> bool:
        """Notices SIGTERM from now on. Whether it can."""
        if self._listener is None:
            self._listener = signals.Listener(lambda: self.tell(Reason.TOLD_TO_GO))
        return self._listener.is_installed

    def tell(self, reason: Reason, next_size: int = 0) -> None:
        """Notice.tell()."""
        if next_size:
            ask_for_size(next_size)
        self._told.add(reason)

    def close(self) -> None:
        """Notice.close()."""
        if self._listener is not None:
            self._listener.close()


def exchange_reasons(
    job_group: group.Group, told: Set[Reason], where: str = ""
) -> Optional[Reason]:
    """Why to leave, from the reasons of each process. A resize wins: who asks for one may send
    SIGTERM as well. where: added to the exchange's name, by which processes at different steps
    notice it."""

    def decide(payloads: List[bytes]) -> bytes:
        return bytes(sorted(set(b"".join(payloads)))[:1])

    answer = group.exchange(job_group, "job: leaving" + where, bytes(told), decide)
    return Reason(answer[0]) if answer else None
