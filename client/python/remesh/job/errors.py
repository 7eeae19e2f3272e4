# SPDX-License-Identifier: Apache-2.0
"""Errors of a job. All processes of the job raise the same one; `process` says where it
happened."""

from typing import List

from remesh.errors import RemeshError, StructureMismatch

__all__ = [
    "ExtraTooLarge",
    "JobRunsTwice",
    "NotCovered",
    "SaveFailed",
    "StructureMismatch",
    "Superseded",
]


class JobRunsTwice(RemeshError):
    """Another process 0 claimed the same world at the same moment: metadata has its host, pid and
    time."""

    reasons = ("JOB_RUNS_TWICE",)
    default_code = "ALREADY_EXISTS"


class Superseded(RemeshError):
    """A later world of the job has begun. This process belongs to an earlier one and saves no
    more."""

    reasons = ("SUPERSEDED",)
    default_code = "ABORTED"


class SaveFailed(RemeshError):
    """A save did not commit. It is deleted; the save before it stands."""

    reasons = ("SAVE_FAILED",)
    default_code = "ABORTED"

    @property
    def hosts(self) -> List[str]:
        """Hosts that had not sealed it, at most 16; none if it failed otherwise."""
        return self._names("hosts")


class ExtraTooLarge(RemeshError, ValueError):
    """The `extra` of a process or of all processes is over the limit."""

    reasons = ("EXTRA_TOO_LARGE",)
    default_code = "INVALID_ARGUMENT"


class NotCovered(RemeshError):
    """No save is whole on the hosts that are attached; the message says of each what is missing."""

    reasons = ("NOT_COVERED",)
    default_code = "DATA_LOSS"
