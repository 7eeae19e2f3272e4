# SPDX-License-Identifier: Apache-2.0
"""What steps say of what they saw, in a few words."""

import statistics


class Skip(Exception):
    """The step cannot be done here; says why."""


def words_of(done) -> str:
    """What a command in a pod said, without what kubectl adds."""
    return " ".join(
        line.strip()
        for line in done.stderr.splitlines()
        if not line.startswith("command terminated")
    )[:160]


def spread(seconds) -> str:
    return (
        f"attached after {statistics.median(seconds):.1f} s (median), {max(seconds):.1f} s "
        f"(maximum) of {len(seconds)}"
    )
