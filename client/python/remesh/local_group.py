# SPDX-License-Identifier: Apache-2.0
"""A group of threads in one process, for tests and for programs that drive several hosts."""

import threading
import time
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple

from remesh import errors
from remesh.group import check_devices, check_equal, show_ranks


class _Room:
    """Where the members of a group meet: round after round, each of which ends when all have
    come."""

    def __init__(self, size: int):
        self.size = size
        self.changed = threading.Condition()
        self.rounds: Dict[int, Dict[int, Tuple[str, bytes]]] = (
            {}
        )  # round -> rank -> what it brought
        self.left: Set[int] = set()


class LocalGroup:
    """A member of a group of threads: see make(). Each member belongs to one thread. A death is the
    end of a thread that never called close(): only the deadline notices that (BarrierTimeout)."""

    def __init__(self, room: _Room, rank: int, deadline: float):
        self.rank, self.size = rank, room.size
        self._room, self._deadline, self._round = room, deadline, 0

    @staticmethod
    def make(size: int, deadline: float = 300.0) -> List["LocalGroup"]:
        """All members of a new group. deadline: seconds that a call waits for the others."""
        room = _Room(size)
        return [LocalGroup(room, rank, deadline) for rank in range(size)]

    def close(self) -> None:
        """Leaves the group: members that wait for this one raise MemberLost."""
        with self._room.changed:
            self._room.left.add(self.rank)
            self._room.changed.notify_all()

    def barrier(self, name: str, deadline: Optional[float] = None) -> None:
        """Group.barrier()."""
        self._meet(f"barrier {name}", b"", deadline)

    def agree(self, name: str, value: bytes) -> None:
        """Group.agree()."""
        check_equal(self._meet(f"agree {name}", value), name)

    def gather(self, name: str, payload: bytes, to: int = 0) -> Optional[List[bytes]]:
        """Group.gather()."""
        payloads = self._meet(f"gather {name}", payload)
        return payloads if self.rank == to else None

    def broadcast(self, name: str, payload: bytes, root: int = 0) -> bytes:
        """Group.broadcast()."""
        return self._meet(f"broadcast {name}", payload if self.rank == root else b"")[root]

    def check_devices(self, ordered: Iterable[int]) -> None:
        """Group.check_devices()."""
        check_devices(self, ordered)

    def _meet(self, name: str, payload: bytes, deadline: Optional[float] = None) -> List[bytes]:
        """Brings a payload to the member's next round, and returns those of all once they have
        come."""
        room, number = self._room, self._round
        self._round += 1
        seconds = self._deadline if deadline is None else deadline
        give_up = time.monotonic() + seconds
        with room.changed:
            brought = room.rounds.setdefault(number, {})
            brought[self.rank] = (name, payload)
            room.rounds.pop(
                number - 2, None
            )  # all have left it, as all have come to the one after it
            room.changed.notify_all()
            while len(brought) < room.size:
                self._check(set(range(room.size)).difference(brought), name, give_up, seconds)
                room.changed.wait(max(give_up - time.monotonic(), 0))
        _check_names({rank: named for rank, (named, _) in brought.items()})
        return [brought[rank][1] for rank in range(room.size)]

    def _check(self, absent: Set[int], name: str, give_up: float, seconds: float) -> None:
        """Raises if those who are absent will not come, or not in time."""
        lost = sorted(absent.intersection(self._room.left))
        if lost:
            raise errors.MemberLost(
                f"{name}: process {lost[0]} has left the group", metadata={"process": str(lost[0])}
            )
        if time.monotonic() >= give_up:
            ranks = ",".join(map(str, sorted(absent)))
            raise errors.BarrierTimeout(
                f"{name}: waited {seconds:g} s for processes {ranks}",
                metadata={"absent": ranks},
            )


def run_together(members: Sequence[LocalGroup], function: Callable[[LocalGroup], Any]) -> List[Any]:
    """Calls function(member) in a thread for each, and returns the results by rank. Raises the
    error of the lowest rank that has one, when all have ended; a member whose function raises has
    left the group."""
    results: List[Any] = [None] * len(members)
    failures: Dict[int, BaseException] = {}

    def run(member: LocalGroup) -> None:
        try:
            results[member.rank] = function(member)
        except BaseException as error:  # pylint: disable=broad-exception-caught
            failures[member.rank] = error
            member.close()

    threads = [
        threading.Thread(target=run, args=(member,), name=f"process {member.rank}")
        for member in members
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rank in sorted(failures):
        raise failures[rank]
    return results


def _check_names(names: Dict[int, str]) -> None:
    """NameMismatch unless all came for the same call."""
    by_call: Dict[str, List[int]] = {}
    for rank, name in sorted(names.items()):
        by_call.setdefault(name, []).append(rank)
    if len(by_call) > 1:
        calls = "; ".join(
            f"{show_ranks(ranks)}: {name}" for name, ranks in list(by_call.items())[:8]
        )
        raise errors.NameMismatch(f"processes of a group are at different calls: {calls}")
