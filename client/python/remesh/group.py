# SPDX-License-Identifier: Apache-2.0
"""A world of processes, and how they agree.

Every process of a group makes the same calls in the same order, from the thread that owns the
group: never from a background thread, for the calls of other processes would wait for it. `name`
says what the call is for; processes that are at different calls learn so from the names
(NameMismatch) instead of mixing their payloads.
"""

import contextlib
import json
from typing import Callable, Dict, Iterator, List, Optional, Protocol, Union

from remesh import errors

Payload = Union[bytes, BaseException]


class Group(Protocol):
    """Processes 0 ... size - 1, of which this one is `rank`."""

    rank: int
    size: int

    def barrier(self, name: str) -> None:
        """Returns when every process has called it."""

    def agree(self, name: str, value: bytes) -> None:
        """Returns if every process passed an equal value; else ValuesDiffer on all, naming who
        passed what."""

    def gather(self, name: str, payload: bytes, to: int = 0) -> Optional[List[bytes]]:
        """The payloads of all processes, by rank, on process `to`; None on the others."""

    def broadcast(self, name: str, payload: bytes, root: int = 0) -> bytes:
        """The payload of process `root`, on all. What other processes pass is ignored."""


def exchange(
    group: Group,
    name: str,
    payload: Payload,
    decide: Callable[[List[bytes]], bytes] = lambda payloads: b"",
) -> bytes:
    """One exchange of outcomes: every process passes its payload, or the error that it met. Process
    0 decides by the payloads, and may raise. All return what it decided, or all raise the same
    error, which names the process that met it first by rank.

    An error of another package is raised as ProcessFailed; on the process that met it, from the
    original."""
    cause = payload if isinstance(payload, BaseException) else None
    outcome = b"P" + payload if isinstance(payload, bytes) else b"E" + _located(payload, group.rank)
    outcomes = group.gather(name, outcome)
    verdict = group.broadcast(name, _verdict(outcomes, decide) if outcomes is not None else b"")
    if verdict[:1] == b"P":
        return verdict[1:]
    error = errors.from_bytes(verdict[1:])
    raise error from (cause if error.process == group.rank else None)


@contextlib.contextmanager
def together(group: Group, name: str) -> Iterator[None]:
    """Runs the block on every process, then exchange(): all go on, or all raise the same error.

    with together(job_group, "restore"):
        ...  # what may fail on some of them; no call to the group
    """
    try:
        yield
    except Exception as error:  # pylint: disable=broad-exception-caught
        exchange(group, name, error)
        raise AssertionError("an exchange of an error raises one") from error
    exchange(group, name, b"")


def check_equal(values: List[bytes], name: str) -> None:
    """ValuesDiffer unless all are equal: says which ranks passed the same."""
    ranks: Dict[bytes, List[int]] = {}
    for rank, value in enumerate(values):
        ranks.setdefault(value, []).append(rank)
    if len(ranks) > 1:
        passed = "; ".join(
            f"processes {_ranks(who)}: {_shown(value)}" for value, who in list(ranks.items())[:8]
        )
        raise errors.ValuesDiffer(
            f"{name}: {len(ranks)} different values: {passed}", metadata={"name": name}
        )


def _verdict(outcomes: List[bytes], decide: Callable[[List[bytes]], bytes]) -> bytes:
    """What process 0 sends to all: the first error, or its decision."""
    failures = [outcome[1:] for outcome in outcomes if outcome[:1] == b"E"]
    if failures:
        return b"E" + failures[0]
    try:
        return b"P" + decide([outcome[1:] for outcome in outcomes])
    except Exception as error:  # pylint: disable=broad-exception-caught
        return b"E" + _located(error, None if isinstance(error, errors.RemeshError) else 0)


def _located(error: BaseException, rank: Optional[int]) -> bytes:
    """The error's bytes, with the process that met it. An error that was exchanged before keeps its
    process."""
    fields = json.loads(errors.to_bytes(error))
    if fields["process"] is None:
        fields["process"] = rank
    return json.dumps(fields).encode()


def _ranks(ranks: List[int]) -> str:
    shown = ", ".join(map(str, ranks[:8]))
    return shown if len(ranks) <= 8 else f"{shown} and {len(ranks) - 8} more"


def _shown(value: bytes) -> str:
    """A short value as it is, a longer one by its begin."""
    text = repr(value)[1:]
    return text if len(text) <= 80 else text[:77] + "..."
