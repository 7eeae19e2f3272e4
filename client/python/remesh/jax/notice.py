# SPDX-License-Identifier: Apache-2.0
"""SIGTERM as JAX notices it, for a job of jax.distributed."""

import signal
from typing import Optional, Set

import jax
from jax.experimental import multihost_utils

from remesh import group
from remesh.job.leaving import Reason, ask_for_size, exchange_reasons
from remesh.job.server_notice import ServerNotice
from remesh.server_group import ServerGroup

_MOST_SKIPPED = 1 << 22  # steps; half a second of calls
_STEP_LIMIT = 1 << 31  # JAX's steps are C's int


class JaxNotice:
    """JAX's own preemption notice: jax.distributed.initialize() catches SIGTERM from then on, so
    remesh installs no handler. No exchange until it is time to leave, and then one, for the reason.

    The steps are those that jax.experimental.multihost_utils.reached_preemption_sync_point() gets,
    which Orbax calls as well: it may be asked about the same steps."""

    def __init__(self, job_group: group.Group):
        self._group = job_group
        self._next = 1
        self._told: Set[Reason] = set()

    @staticmethod
    def is_available() -> bool:
        """Whether JAX catches SIGTERM in this process."""
        return jax.distributed.is_initialized() and jax.config.jax_enable_preemption_service

    def due(self, step: int) -> Optional[Reason]:
        """Notice.due()."""
        if not self._reaches(step):
            return None
        return exchange_reasons(self._group, self._told | {Reason.TOLD_TO_GO})

    def tell(self, reason: Reason, next_size: int = 0) -> None:
        """Notice.tell(). JAX takes no notice but SIGTERM."""
        if next_size:
            ask_for_size(next_size)
        self._told.add(reason)
        signal.raise_signal(signal.SIGTERM)

    def expect_resize(self, is_asked: bool) -> None:
        """Whether a resize is the reason if the job leaves now."""
        if is_asked:
            self._told.add(Reason.RESIZED)

    def close(self) -> None:
        """Notice.close()."""

    # JAX compares its safe step with each step that it is asked about: one more
    # than the highest before. It may lie among steps that were skipped, as all
    # are before the first one of a job that was restored, so they are asked
    # about, too.
    def _reaches(self, step: int) -> bool:
        first = self._next if step - self._next <= _MOST_SKIPPED else step
        self._next = step + 1
        reached = False
        for each in range(min(first, step), step + 1):
            reached |= multihost_utils.reached_preemption_sync_point(each % _STEP_LIMIT)
        return reached


class JaxServerNotice:
    """JaxNotice for SIGTERM, and ServerNotice for all else. Which of them comes first is equal on
    all processes, since the step of each is."""

    def __init__(self, members: ServerGroup):
        self._jax = JaxNotice(members)
        self._server = ServerNotice(members, listens=False)

    def due(self, step: int) -> Optional[Reason]:
        """Notice.due()."""
        reason = self._server.due(step)
        if reason is None:
            asked = self._server.preempted()
            self._jax.expect_resize(asked is not None and asked.resize)
            reason = self._jax.due(step)
            if reason is not None and asked is not None and asked.next_size:
                ask_for_size(asked.next_size)
        return reason

    def tell(self, reason: Reason, next_size: int = 0) -> None:
        """Notice.tell()."""
        self._server.tell(reason, next_size)

    def close(self) -> None:
        """Notice.close()."""
        self._server.close()
        self._jax.close()
