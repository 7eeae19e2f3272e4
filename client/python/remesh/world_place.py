# SPDX-License-Identifier: Apache-2.0
"""Where this process is in its world, by what its launcher says."""

import dataclasses
import os
import sys
from typing import Mapping, Optional, Tuple

from remesh import errors

# Who says it, by (rank, size), in order.
_LAUNCHERS = (("REMESH_RANK", "REMESH_WORLD_SIZE"), ("RANK", "WORLD_SIZE"))


@dataclasses.dataclass(frozen=True)
class Place:
    """Process `rank` of `size`. attempt: which start of the processes this is; "": not said, then
    only the processes themselves are distinguished. local_index: among those of this host."""

    rank: int
    size: int
    attempt: str = ""
    local_index: int = 0


def place_of(environment: Mapping[str, str], jax_place: Optional[Tuple[int, int]] = None) -> Place:
    """The place by the variables of `remesh launch`, else by those of torchrun and others who set
    RANK and WORLD_SIZE, else by jax_place, (rank, size) of jax.distributed, else alone.

    BadArgument names a variable that is not a number, or is not one of its world."""
    for rank, size in _LAUNCHERS:
        if environment.get(rank, "") or environment.get(size, ""):
            return Place(
                *_numbers(environment, rank, size),
                _attempt(environment),
                _number(environment, "LOCAL_RANK", 0),
            )
    return Place(*(jax_place or (0, 1)))


def present_place() -> Place:
    """place_of() this process. Neither imports JAX nor starts its backend."""
    return place_of(os.environ, _jax_place())


def _attempt(environment: Mapping[str, str]) -> str:
    if environment.get("REMESH_RANK", ""):
        return environment.get("REMESH_ATTEMPT", "")
    run_id = environment.get("TORCHELASTIC_RUN_ID", "")
    return f"{run_id}.{environment.get('TORCHELASTIC_RESTART_COUNT', '0')}" if run_id else ""


def _numbers(environment: Mapping[str, str], rank: str, size: str) -> Tuple[int, int]:
    world = _number(environment, size, 1)
    if not 0 <= _number(environment, rank, 0) < world:
        raise errors.BadArgument(
            f"{rank}: value {environment.get(rank, '')!r} must be 0 to {size} - 1, "
            f"which is {world - 1}"
        )
    return _number(environment, rank, 0), world


def _number(environment: Mapping[str, str], variable: str, missing: int) -> int:
    text = environment.get(variable, "")
    if not text:
        return missing
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise errors.BadArgument(f"{variable}: value {text!r} must be a number from 0 on")
    return int(text)


# Asking jax.process_index() of a program that did not initialize
# jax.distributed would start its backend.
def _jax_place() -> Optional[Tuple[int, int]]:
    jax = sys.modules.get("jax")
    is_initialized = getattr(getattr(jax, "distributed", None), "is_initialized", None)
    if is_initialized is None or not is_initialized():
        return None
    return jax.process_index(), jax.process_count()
