# SPDX-License-Identifier: Apache-2.0
"""Waiting for what another process or thread does."""

import time

_SECONDS = 60.0  # a bound for busy machines
_PAUSE_SECONDS = 0.01


def wait_until(holds, what="", seconds=_SECONDS):
    """Returns what holds() returns once that is true. AssertionError, which says what was waited
    for, after so many seconds."""
    give_up = time.monotonic() + seconds
    while True:
        found = holds()
        if found:
            return found
        assert time.monotonic() < give_up, f"not within {seconds:g} s: {what}"
        time.sleep(_PAUSE_SECONDS)
