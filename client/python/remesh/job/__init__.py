# SPDX-License-Identifier: Apache-2.0
"""A job that outlives its processes, of any framework.

core.py        Core: what the processes of a world call
worlds.py      the job's states on the server: claims, clean-up
members.py     which process is on which host
saving.py      a save        restoring.py   a restore
save.py        a save as the caller sees it
requests.py    what is exchanged before a save
placement.py   where its boxes lie
finishing.py   what ends it   committing.py   from its seal to its commit
reserving.py   the memory of the next save
leaving.py     the step at which all leave      signals.py   SIGTERM
extras.py      what a process saves beside the arrays
pieces.py      boxes in and out of shards
errors.py      what a job raises
"""

from remesh.job.core import Core
from remesh.job.errors import (
    ExtraTooLarge,
    JobRunsTwice,
    NotCovered,
    SaveFailed,
    StructureMismatch,
    Superseded,
)
from remesh.job.leaving import GroupNotice, Notice, Reason
from remesh.job.pieces import Piece
from remesh.job.restoring import Found
from remesh.job.save import Save

__all__ = [
    "Core",
    "ExtraTooLarge",
    "Found",
    "GroupNotice",
    "JobRunsTwice",
    "NotCovered",
    "Notice",
    "Piece",
    "Reason",
    "Save",
    "SaveFailed",
    "StructureMismatch",
    "Superseded",
]
