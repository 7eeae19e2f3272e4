# SPDX-License-Identifier: Apache-2.0
"""A world of processes, and how they agree.

Every process of a group makes the same calls in the same order, from the thread that owns the
group: never from a background thread, for the calls of other processes would wait for it. `name`
says what the call is for; processes that are at different calls learn so from the names
(NameMismatch) instead of mixing their payloads.
"""

import contextlib
import hashlib
import json
from typing import Callable, Dict, Iterable, Iterator, List, Optional, Protocol, Union

from remesh import errors

Payload = Union[bytes, BaseException]
_MOST_GROUPS = 8  # that an error names


class Group(Protocol):
    """Processes 0 ... size - 1, of which this one is `rank`."""

    rank: int
    size: int

    def barrier(self, name: str, deadline: Optional[float] = None) -> None:
        """Returns when every process has called it. deadline: seconds that it waits for the others;
        None: those of the group. BadArgument if the group has one deadline for all calls."""

    def agree(self, name: str, value: bytes) -> None:
        """Returns if every process passed an equal value; else ValuesDiffer on all, naming who
        passed what."""

    def gather(self, name: str, payload: bytes, to: int = 0) -> Optional[List[bytes]]:
        """The payloads of all processes, by rank, on process `to`; None on the others."""

    def broadcast(self, name: str, payload: bytes, root: int = 0) -> bytes:
        """The payload of process `root`, on all. What other processes pass is ignored."""

    def check_devices(self, ordered: Iterable[int]) -> None:
        """Returns if every process passed equal lists of device ids, in their order, as a program
        over devices of all processes needs; else ValuesDiffer on all, which names who differs and
        where. BadArgument for a device that is in a list twice."""
        check_devices(self, ordered)


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
    payload = _fitting(group, name, payload)
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


def compare(
    group: Group,
    name: str,
    value: Payload,
    describe: Callable[[], bytes],
    refuse: Callable[[List[List[int]], Dict[int, bytes]], None],
) -> None:
    """Returns if every process passed an equal value, or all raise the same error. Where values are
    too large to send: only their digests travel. If they differ, one process of each of the first
    groups that agree passes what describe() returns, at most 4 MiB, and process 0 calls
    refuse(groups of ranks, description by rank), which raises."""
    verdict = exchange(
        group, name, value if isinstance(value, BaseException) else digest(value), _decide_groups
    )
    if not verdict:
        return
    groups = json.loads(verdict)
    speakers = [ranks[0] for ranks in groups[:_MOST_GROUPS]]
    description = describe() if group.rank in speakers else b""

    def decide(descriptions: List[bytes]) -> bytes:
        refuse(groups, {rank: descriptions[rank] for rank in speakers})
        raise AssertionError("refuse() must raise")

    exchange(group, f"{name}: differs", description, decide)


def check_devices(group: Group, ordered: Iterable[int]) -> None:
    """Group.check_devices()."""
    ids = [int(each) for each in ordered]
    twice = (
        sorted({each for each in ids if ids.count(each) > 1}) if len(set(ids)) < len(ids) else []
    )
    value: Payload = json.dumps(ids).encode()
    if twice:
        value = errors.BadArgument(f"ordered: device {twice[0]} must not be there twice")

    def refuse(groups: List[List[int]], lists: Dict[int, bytes]) -> None:
        (first, ours), (second, theirs) = [
            (rank, json.loads(each)) for rank, each in lists.items()
        ][:2]
        at = next((at for at, (a, b) in enumerate(zip(ours, theirs)) if a != b), None)
        where = f"process {first} has {len(ours)}, process {second} has {len(theirs)}"
        if at is not None:
            where = f"at {at} process {first} has {ours[at]}, process {second} has {theirs[at]}"
        raise errors.ValuesDiffer(
            f"devices: processes {show_groups(groups)} have different lists: {where}"
        )

    compare(group, "check_devices", value, lambda: json.dumps(ids).encode(), refuse)


def show_ranks(ranks: List[int]) -> str:
    """Ascending ranks: "process 3", "processes 0-2, 4"."""
    return f"process{'' if len(ranks) == 1 else 'es'} {_spans(ranks)}"


def show_groups(groups: List[List[int]]) -> str:
    """Groups of ranks: "0-14 | 15"."""
    shown = " | ".join(_spans(ranks) for ranks in groups[:_MOST_GROUPS])
    more = len(groups) - _MOST_GROUPS
    return shown if more <= 0 else f"{shown} | and {more} more groups"


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


def _fitting(group: Group, name: str, payload: Payload) -> Payload:
    """The payload, or TooLarge if the group does not gather as much."""
    most = getattr(group, "payload_bytes", None)
    if most is None or isinstance(payload, BaseException) or len(payload) < most:
        return payload
    return errors.TooLarge(f"{name}: a payload of {len(payload)} bytes must be below {most}")


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


def digest(data: Union[bytes, memoryview]) -> bytes:
    """32 bytes that stand for the data."""
    return hashlib.sha256(data).digest()


def _decide_groups(values: List[bytes]) -> bytes:
    """Ranks that passed the same, in the order of the first of each; nothing if all did."""
    ranks: Dict[bytes, List[int]] = {}
    for rank, value in enumerate(values):
        ranks.setdefault(value, []).append(rank)
    return json.dumps(list(ranks.values())).encode() if len(ranks) > 1 else b""


def _spans(ranks: List[int]) -> str:
    """Ascending ranks: "0-3, 7"; at most 8 spans."""
    spans: List[List[int]] = []
    for rank in ranks:
        if spans and spans[-1][1] == rank - 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    shown = [f"{lo}" if lo == hi else f"{lo}-{hi}" for lo, hi in spans[:8]]
    return ", ".join(shown) + (" ..." if len(spans) > 8 else "")


def _ranks(ranks: List[int]) -> str:
    shown = ", ".join(map(str, ranks[:8]))
    return shown if len(ranks) <= 8 else f"{shown} and {len(ranks) - 8} more"


def _shown(value: bytes) -> str:
    """A short value as it is, a longer one by its begin."""
    text = repr(value)[1:]
    return text if len(text) <= 80 else text[:77] + "..."
