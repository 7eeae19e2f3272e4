# SPDX-License-Identifier: Apache-2.0
"""The processes of a world, as the server's CoordinationService knows them.

It needs no framework, no device and no worker. Every call ends: with its result, at its deadline
with the names of who did not come, or at once with the name of a process that died.
"""

import hashlib
import logging
import socket
import threading
import time
from typing import Any, Callable, Iterable, List, Mapping, Optional, Sequence

import grpc

from remesh import errors, forks
from remesh.group import check_devices
from remesh.member_calls import MemberCalls
from remesh.step_agreement import StepAgreement
from remesh.v1 import coordination_pb2, coordination_pb2_grpc
from remesh.world_place import Place, present_place
from remesh.world_session import Session

_LOG = logging.getLogger("remesh")
_LEAVE_SECONDS = 5.0
_OVER_SECONDS = 1.0  # from an answer to the same word on the stream
_PAYLOAD_BYTES = 4 << 20  # of one member in one round
_ROUND_BYTES = 1 << 30  # of one round: a payload for each of its receivers
_LENGTH_BYTES = 8  # in front of a broadcast
_DIGEST_BYTES = 16
_GROUPS = 64  # of leaves, in one agreement
_FAILURES = 1000  # in a row, that a member remembers
_OK = "OK"
# Failures of a round after which the next one may follow.
_OF_ONE_ROUND = (
    "NAME_MISMATCH",
    "STRUCTURE_MISMATCH",
    "VALUES_DIFFER",
    "BARRIER_TIMEOUT",
    "MEMBER_LEFT",
    "TOO_LARGE",
)
_MODE = coordination_pb2.Contribution


class ServerGroup:
    """A member of a world, which forms in the constructor. For one thread, as any Group: the others
    wait for its calls.

    A process that dies: the others raise MemberLost, which names it as rank@host, in the call that
    waits for it and in every later one; so do they if it is stopped for 10 s. A process that is
    stuck: BarrierTimeout at the deadline, with the names of all who did not come. The server may
    restart: calls go on. After MemberLost, WorldOver or StaleEpoch the world is over; processes
    that are to go on make another ServerGroup, in a world of another epoch.
    """

    def __init__(
        self,
        scope: str,
        channel: Callable[[], grpc.Channel],
        place: Optional[Place] = None,
        *,
        deadline: float = 300.0,
        forming: float = 300.0,
        away: float = 120.0,
        host: str = "",
        device_ids: Sequence[int] = (),
        data: bytes = b"",
    ):
        """scope: jobs/{job}/worlds/{world}. channel: returns one to the server, as
        Client.channel(). place: None: what the launcher says (world_place.py). deadline: seconds
        that a call waits for the others. forming: seconds until the world has formed. away: seconds
        without a message of the server after which calls give it up. host: that errors name; "":
        the machine's. data: at most 4 KiB, which the others find in `members`, by rank; in a world
        of thousands only that of rank 0.

        RankTaken names a living process that has the rank, once it was waited for; BarrierTimeout;
        ServerTooOld; ServerAway; BadArgument."""
        self.scope, self._channel, self._deadline = scope, channel, _checked(deadline)
        away = _checked(away)
        self._fork = forks.ForkGuard(f"the group {scope}")
        self._closed = False
        self._sequence = 0
        self._lock = threading.Lock()
        self._finished: List[coordination_pb2.FinishedRound] = []
        # How often they were sent, now and when the member called.
        self._told = self._asked = 0
        self._session = Session(
            scope,
            place or present_place(),
            channel,
            self._told_finished,
            host=host or socket.gethostname(),
            device_ids=tuple(device_ids),
            data=data,
            deadline=_checked(forming),
        )
        self._calls = MemberCalls(self._session, channel, away)
        membership = self._session.membership
        self.rank, self.epoch = membership.rank, membership.epoch
        self.members = membership.members
        self.size = membership.size

    @property
    def fence(self) -> coordination_pb2.Fence:
        """For calls that a later world must not find done by this one: Client.fenced()."""
        return coordination_pb2.Fence(scope=self.scope, epoch=self.epoch)

    @property
    def payload_bytes(self) -> int:
        """That gather() takes of each process. broadcast() takes any number."""
        return _PAYLOAD_BYTES

    def failure(self) -> Optional[errors.RemeshError]:
        """Why the world is over, such as MemberLost; None while it lives. In any thread."""
        return self._session.over

    def barrier(self, name: str, deadline: Optional[float] = None) -> None:
        """Group.barrier()."""
        self._round(name, _MODE.BARRIER, deadline=_checked(deadline or self._deadline))

    def agree(self, name: str, value: bytes) -> None:
        """Group.agree(). The values are compared by their digests, so the error says which
        processes have equal ones, not what they are."""
        self.agree_on(name, b"", [value])

    def agree_on(self, name: str, structure: bytes, leaves: Sequence[bytes]) -> None:
        """Returns if all processes passed equal values: leaves of one structure. StructureMismatch;
        ValuesDiffer, which names the first leaf that differs, as all find by further rounds of at
        most 64 groups of leaves."""
        first, count, where = 0, len(leaves), name
        found: Optional[errors.ValuesDiffer] = None
        while found is None or count > 1:
            digests = [_digest([structure, len(leaves).to_bytes(8, "little")])]
            groups = leaf_groups(count)
            for each in groups:
                digests.append(_digest(leaves[first + each.start : first + each.stop]))
            try:
                self._round(where, _MODE.AGREE, payload=b"".join(digests))
                break
            except errors.ValuesDiffer as error:
                if "group" not in error.metadata:  # an older server
                    raise
                found = error
                differs = groups[int(error.metadata["group"])]
                first, count = first + differs.start, differs.stop - differs.start
            where = f"{name}: leaves {first} to {first + count - 1}"
        if found is not None and len(leaves) == 1:
            raise found
        if found is not None:
            text = f"{found.message} (leaf {first} of {len(leaves)})"
            raise errors.ValuesDiffer(text, code=found.code, metadata=found.metadata)

    def gather(self, name: str, payload: bytes, to: int = 0) -> Optional[List[bytes]]:
        """Group.gather(). TooLarge for a payload above payload_bytes."""
        return self._gather(name, payload, to)

    def gather_all(self, name: str, payload: bytes) -> List[bytes]:
        """The payloads of all processes, by rank, on all."""
        return self._gather(name, payload, -1)

    def broadcast(self, name: str, payload: bytes, root: int = 0) -> bytes:
        """Group.broadcast(). A payload that one round does not take needs several."""
        size = max(min(_PAYLOAD_BYTES, _ROUND_BYTES // self.size), _LENGTH_BYTES)
        framed = len(payload).to_bytes(_LENGTH_BYTES, "little") + payload
        mine = framed if self.rank == root else b""
        received = self._round(name, _MODE.BROADCAST, root, mine[:size])[0]
        length = _LENGTH_BYTES + int.from_bytes(received[:_LENGTH_BYTES], "little")
        parts = [received]
        for begin in range(size, length, size):
            parts += self._round(name, _MODE.BROADCAST, root, mine[begin : begin + size])
        return b"".join(parts)[_LENGTH_BYTES:]

    def check_devices(self, ordered: Iterable[int]) -> None:
        """Group.check_devices()."""
        check_devices(self, ordered)

    @property
    def name(self) -> str:
        """This process, as errors name it: "3@host-b"."""
        return f"{self.rank}@{self.members[self.rank].host}"

    def step_agreement(self) -> StepAgreement:
        """Through which its processes agree on a step and leave."""
        return StepAgreement(self._session, self._calls, self._deadline)

    def close(self) -> None:
        """Leaves the world: rounds that need this process fail with MemberLeft. May be called
        twice, after the world is over, and in a forked child."""
        if self._closed or not self._fork.intact():
            return
        self._closed = True
        if self._session.over is None:
            self._leave()
        self._session.close()

    def __enter__(self) -> "ServerGroup":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _gather(self, name: str, payload: bytes, to: int) -> Any:
        if len(payload) > _PAYLOAD_BYTES:
            raise errors.TooLarge(
                f"{name}: a payload of {len(payload)} bytes: at most {_PAYLOAD_BYTES} are gathered"
            )
        received = self._round(name, _MODE.GATHER, to, payload)
        return received if to in (-1, self.rank) else None

    # The member's next round.
    def _round(
        self, name: str, mode: int, root: int = 0, payload: bytes = b"", deadline: float = 0.0
    ) -> List[bytes]:
        self._fork.check()
        if self._closed:
            raise errors.Closed(f"the group {self.scope} is closed")
        over = self._session.over
        if over is not None:
            raise again(over)
        request = coordination_pb2.ExchangeRequest(
            scope=self.scope,
            epoch=self.epoch,
            rank=self.rank,
            nonce=self._session.nonce,
            sequence=self._sequence,
            contribution=_MODE(name=name, mode=mode, root=root, payload=payload),
        )
        give_up = time.monotonic() + (deadline or self._deadline)
        while True:
            try:
                response = self._call(request, name, give_up)
            except errors.RemeshError as error:
                failed = self._failed(request, error)
                if failed is None:
                    continue
                raise failed from None
            if self._finish(request, _OK, "", response.digest):
                return list(response.payloads)

    def _call(self, request: Any, name: str, give_up: float) -> Any:
        return self._calls.call(self._send, request, name, give_up)

    def _send(self, stub: Any, request: Any, seconds: float) -> Any:
        with self._lock:
            self._asked = self._told
        return stub.Exchange(request, timeout=seconds)

    # The error of a round: the next one may follow it, or the world is over.
    # None: the round is to be asked for again.
    def _failed(
        self, request: coordination_pb2.ExchangeRequest, error: errors.RemeshError
    ) -> Optional[errors.RemeshError]:
        if error.reason in _OF_ONE_ROUND:
            told = self._finish(request, error.reason, error.message, b"", error.metadata)
            return error if told else None
        if isinstance(error, errors.MemberLost):
            self._session.wait_over(_OVER_SECONDS)  # it says rank and host apart
        return again(self._session.end(error))

    # Keeps what a server that restarts needs to know of the round. False if the
    # member has joined again since it called, and so said that it does not have
    # the outcome: that must stay so, and the server answers the same again.
    def _finish(
        self,
        request: coordination_pb2.ExchangeRequest,
        outcome: str,
        message: str,
        digest: bytes,
        metadata: Optional[Mapping[str, str]] = None,
    ) -> bool:
        known = coordination_pb2.FinishedRound(
            sequence=request.sequence,
            outcome=outcome,
            message=message,
            digest=digest,
            metadata=metadata,
        )
        with self._lock:
            if self._asked != self._told:
                return False
            if outcome == _OK:
                known.contribution.CopyFrom(request.contribution)
                self._finished = []
            self._finished.append(known)
            self._sequence += 1
            too_many = len(self._finished) > _FAILURES
        if too_many:
            why = f"{_FAILURES} rounds in a row failed; the last: {message}"
            self._session.end(errors.WorldOver(why))
        return True

    def _told_finished(self) -> List[coordination_pb2.FinishedRound]:
        with self._lock:
            self._told += 1
            return list(self._finished)

    # Without it the others take the end of the stream for a loss.
    def _leave(self) -> None:
        request = coordination_pb2.LeaveRequest(
            scope=self.scope, epoch=self.epoch, rank=self.rank, nonce=self._session.nonce
        )
        try:
            stub = coordination_pb2_grpc.CoordinationServiceStub(self._channel())
            stub.Leave(request, timeout=_LEAVE_SECONDS)
        except (grpc.RpcError, ValueError, errors.RemeshError) as error:
            _LOG.info("%s: process %d leaves, but cannot say so: %s", self.scope, self.rank, error)


def _checked(deadline: float) -> float:
    if not 0 < deadline <= 24 * 3600:
        raise errors.BadArgument(f"deadline: value {deadline!r} must be above 0, at most a day")
    return deadline


def leaf_groups(count: int) -> List[slice]:
    """Which leaves are in each of the at most 64 groups of an agreement."""
    size = max(-(-count // _GROUPS), 1)
    return [slice(begin, min(begin + size, count)) for begin in range(0, count, size)]


def again(error: errors.RemeshError) -> errors.RemeshError:
    """An equal error, to be raised in another call than the first."""
    return errors.from_bytes(errors.to_bytes(error))


# Of parts that no other parts have: their lengths go in front.
def _digest(parts: Sequence[bytes]) -> bytes:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "little") + part)
    return whole.digest()[:_DIGEST_BYTES]
