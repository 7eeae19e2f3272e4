# SPDX-License-Identifier: Apache-2.0
"""Names of a job's states: saves, claims of worlds, and temporary states.

A *world* is one life of a job's processes, W = 1, 2 ... A save is `save.W.N`: N counts the saves of
world W. Of two saves, the one with the higher (W, N) is newer, whatever its training step:
steps go down when a job is rolled back. tests/data/save_names.txt lists examples, which C++ reads
as well.
"""

import dataclasses
import re
from typing import Optional, Union

_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_NAME = re.compile(
    r"(?:save\.(?P<save>\d+)\.(?P<number>\d+)|world\.(?P<world>\d+)|tmp\.(?P<tmp>\d+)\..+)",
    re.ASCII,
)
_WORLD_DIGITS = 6
_NUMBER_DIGITS = 8
_MAX_DIGITS = 18  # fits an int64


@dataclasses.dataclass(frozen=True, order=True)
class SaveId:
    """A save. SaveIds are ordered from the oldest to the newest."""

    world: int
    number: int

    def __str__(self) -> str:
        return f"save.{self.world:06d}.{self.number:08d}"


@dataclasses.dataclass(frozen=True)
class WorldId:
    """The claim of a world: the state whose creation makes a process the only owner of W."""

    world: int

    def __str__(self) -> str:
        return f"world.{self.world:06d}"


@dataclasses.dataclass(frozen=True)
class TemporaryId:
    """A state that is never restored and goes with its world."""

    world: int
    text: str

    def __str__(self) -> str:
        return f"tmp.{self.world:06d}.{self.text}"


StateId = Union[SaveId, WorldId, TemporaryId]


def check_job(job: str) -> str:
    """Returns the job's name. ValueError unless it can be part of a state's name."""
    if not _SEGMENT.fullmatch(job):
        raise ValueError(
            f"name: value {job!r} must be 1 to 63 of [A-Za-z0-9._-], a letter or digit first"
        )
    return job


def state_name(job: str, state: StateId) -> str:
    """jobs/JOB/states/STATE."""
    return f"{job_name(job)}/states/{state}"


def job_name(job: str) -> str:
    """jobs/JOB: the parent of the job's states and executions."""
    return f"jobs/{job}"


def parse(name: str) -> Optional[StateId]:
    """The id in a state's full name or in its last part; None for a state of another kind."""
    last = name.rpartition("/")[2]
    found = _NAME.fullmatch(last)
    if not found:
        return None
    digits = found["save"] or found["world"] or found["tmp"]
    world = _number(digits, _WORLD_DIGITS)
    if not world:
        return None
    if found["world"]:
        return WorldId(world)
    if found["tmp"]:
        return TemporaryId(world, last.split(".", 2)[2])
    number = _number(found["number"], _NUMBER_DIGITS)
    return None if number is None else SaveId(world, number)


# The value of digits as "%0Nd" prints it; None for any other form.
def _number(digits: str, width: int) -> Optional[int]:
    if len(digits) < width or len(digits) > _MAX_DIGITS:
        return None
    if len(digits) > width and digits.startswith("0"):
        return None
    return int(digits)
