# SPDX-License-Identifier: Apache-2.0
"""Notices a fork(): gRPC's connections belong to the process that made them."""

import os

from remesh import errors

_forks = 0


def _count() -> None:
    global _forks  # pylint: disable=global-statement
    _forks += 1


os.register_at_fork(after_in_child=_count)


class ForkGuard:
    """Remembers the process that made it. Thread-safe."""

    def __init__(self, what: str):
        self._what, self._forks = what, _forks

    def intact(self) -> bool:
        """Whether this is that process."""
        return self._forks == _forks

    def check(self) -> None:
        """ForkedError in a child of that process."""
        if not self.intact():
            hint = "call connect() there"
            raise errors.ForkedError(f"{self._what} cannot be used in a forked child: {hint}")
