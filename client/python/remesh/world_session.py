# SPDX-License-Identifier: Apache-2.0
"""A process's membership of a world: its Join stream, kept up by a thread until the world is over.

The end of the stream is the end of the member, unless it joins again within a second. So the thread
joins again whenever the stream breaks, with the same nonce and the world's epoch: also after a
restart of the server, which then knows nothing but what the members say.
"""

import dataclasses
import logging
import os
import secrets
import threading
import time
from typing import Callable, List, Optional, Tuple

import grpc

from remesh import calls, errors
from remesh.v1 import coordination_pb2, coordination_pb2_grpc
from remesh.world_place import Place

_LOG = logging.getLogger("remesh")
# Without an event for so long the server, or the way to it, is gone: it sends
# one every 3 s.
_SILENCE_SECONDS = 10.0
# Members of an earlier start whose machine vanished are given up after 10 s.
_TAKEN_SECONDS = 15.0
_MAY_FREE = ("RANK_TAKEN", "ATTEMPT_DIFFERS", "WORLD_FULL")
# What gRPC itself says when the way to the server breaks.
_BROKEN = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
)


@dataclasses.dataclass(frozen=True)
class Membership:
    """What the server said when the world formed. members: by rank; of a world that is too large
    for all to be sent to all, that of rank 0 alone."""

    epoch: int
    rank: int
    size: int
    members: Tuple[coordination_pb2.WorldMember, ...]


class Session:
    """Joins a world in the constructor's thread, and then stays in it by threads of its own. The
    other methods are for any thread."""

    def __init__(
        self,
        scope: str,
        place: Place,
        channel: Callable[[], grpc.Channel],
        finished: Callable[[], List[coordination_pb2.FinishedRound]],
        *,
        host: str,
        device_ids: Tuple[int, ...],
        data: bytes,
        deadline: float,
    ):
        """channel: to the server as it is now. finished: the rounds to send when joining again.
        deadline: seconds to wait until the world has formed.

        RankTaken, BarrierTimeout, ServerTooOld, ServerAway, BadArgument."""
        self.scope = scope
        self._channel, self._finished = channel, finished
        self.nonce = secrets.token_bytes(16)
        self._request = coordination_pb2.JoinRequest(
            scope=scope,
            attempt=place.attempt,
            min_size=place.size,
            max_size=place.size,
            rank=place.rank,
            host=host,
            pid=os.getpid(),
            local_index=place.local_index,
            device_ids=device_ids,
            data=data,
            nonce=self.nonce,
        )
        self._changed = threading.Condition()
        self._stream: Optional[grpc.Future] = None
        self._last_active = time.monotonic()
        self._is_in = False
        self._closed = False
        self._refused_at: Optional[float] = None
        self._said_away = False
        self._lost: Optional[coordination_pb2.WorldEvent.MemberLost] = None
        self._membership: Optional[Membership] = None
        self._over: Optional[errors.RemeshError] = None
        self._last_event = time.monotonic()
        self._preempted: Optional[coordination_pb2.WorldEvent.Preempt] = None
        self._agreed: Optional[coordination_pb2.AgreeStepResponse] = None
        self._on_preempted: Callable[[], None] = self._log_preempted
        self._threads = [
            threading.Thread(target=work, name=f"remesh-world-{name}", daemon=True)
            for name, work in (("session", self._stay), ("silence", self._notice_silence))
        ]
        self._form_by = time.monotonic() + deadline
        for thread in self._threads:
            thread.start()
        self.membership = self._formed(deadline)

    @property
    def over(self) -> Optional[errors.RemeshError]:
        """Why the world is over; None while it lives."""
        with self._changed:
            return self._over

    def end(self, why: errors.RemeshError) -> errors.RemeshError:
        """The world is over for this member. Returns why, which is what was said first."""
        with self._changed:
            self._over = self._over or why
            self._changed.notify_all()
            return self._over

    def wait_over(self, seconds: float) -> None:
        """Until the stream says why the world is over, or the time is."""
        with self._changed:
            self._changed.wait_for(lambda: self._over is not None, seconds)

    def wait_joined(self, until: float) -> None:
        """Until the member is in the world (again), the world is over, or the time comes."""
        with self._changed:
            while not (self._is_in or self._over or self._closed):
                left = until - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(left)

    def silence(self) -> float:
        """Seconds since the server last said something."""
        with self._changed:
            return time.monotonic() - self._last_event

    @property
    def preempted(self) -> Optional[coordination_pb2.WorldEvent.Preempt]:
        """What the server last said of the world's end by request."""
        with self._changed:
            return self._preempted

    def on_preempted(self, call: Callable[[], None]) -> None:
        """Calls it whenever the server says so, in the session's thread; now if it has said so."""
        with self._changed:
            self._on_preempted = call
            if self._preempted is not None:
                call()

    # Of a process that does not ask whether it leaves, or does not yet.
    def _log_preempted(self) -> None:
        by = self._preempted.by if self._preempted else ""
        text = "%s: %s asks the processes to leave; this one answers from its first leaving() on"
        _LOG.warning(text, self.scope, by)

    def wait_preempted(self, seconds: float) -> bool:
        """Whether the server says so in that time, or nothing more."""
        known = lambda: self._preempted is not None or self._over is not None or self._closed
        with self._changed:
            return self._changed.wait_for(known, seconds)

    def set_agreed(self, agreed: coordination_pb2.AgreeStepResponse) -> None:
        """What to send of it when joining again."""
        with self._changed:
            self._agreed = agreed

    def close(self) -> None:
        """Ends the stream, once; the member must have said Leave if it is not to be lost."""
        with self._changed:
            self._closed = True
            stream = self._stream
            self._changed.notify_all()
        if stream is not None:
            stream.cancel()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(5.0)

    # Waits for the first Formed.
    def _formed(self, deadline: float) -> Membership:
        with self._changed:
            while self._membership is None and self._over is None:
                left = self._form_by + _SILENCE_SECONDS - time.monotonic()
                if left <= 0:
                    self._over = errors.ServerAway(
                        f"{self._request.scope}: the server did not answer in {deadline:g} s"
                    )
                    break
                self._changed.wait(left)
            membership, over = self._membership, self._over
        if membership is None:
            assert over is not None
            self.close()
            raise over
        return membership

    # One stream after the other, until the world is over.
    def _stay(self) -> None:
        while not self._is_done():
            try:
                self._follow()
            except grpc.RpcError as error:
                self._on_broken(error)
            except ValueError as error:  # gRPC's, for a channel that is closed
                self.end(errors.Closed(str(error)))
            with self._changed:
                self._is_in = False
                self._stream = None
            if not self._is_done():
                calls.pause(self._channel)

    def _is_done(self) -> bool:
        with self._changed:
            return self._closed or self._over is not None

    # Joins, and takes in what the stream says until it ends.
    def _follow(self) -> None:
        stub = coordination_pb2_grpc.CoordinationServiceStub(self._channel())
        stream = stub.Join(self._join_request())
        with self._changed:
            self._stream, self._last_active = stream, time.monotonic()
            closed = self._closed
        if closed:
            stream.cancel()
        for event in stream:
            self._take(event)

    def _join_request(self) -> coordination_pb2.JoinRequest:
        request = coordination_pb2.JoinRequest()
        request.CopyFrom(self._request)
        if self._membership is None:
            request.timeout.FromMilliseconds(max(int(1000 * (self._form_by - time.monotonic())), 1))
            return request
        request.epoch = self._membership.epoch
        request.rank = self._membership.rank
        request.size = self._membership.size
        request.finished.extend(self._finished())
        with self._changed:
            agreed, preempted = self._agreed, self._preempted
        if agreed is not None:
            request.agreed_step = agreed.step
            request.preempt.CopyFrom(agreed.preempt)
        elif preempted is not None:
            request.preempt.CopyFrom(preempted)
        return request

    def _take(self, event: coordination_pb2.WorldEvent) -> None:
        kind = event.WhichOneof("event")
        with self._changed:
            self._last_active = self._last_event = time.monotonic()
            if kind == "formed":
                self._is_in = True
                if self._membership is None:
                    formed = event.formed
                    self._membership = Membership(
                        formed.epoch,
                        formed.rank,
                        formed.size or len(formed.members),
                        tuple(formed.members),
                    )
            elif kind == "member_lost":
                self._lost = event.member_lost
            elif kind == "preempt":
                self._preempted = event.preempt
                self._on_preempted()
            elif kind == "over":
                self._over = self._over or self._why_over(event.over)
            self._changed.notify_all()

    def _why_over(self, over: coordination_pb2.WorldEvent.Over) -> errors.RemeshError:
        metadata = {"scope": self._request.scope, "next_size": str(over.next_size)}
        if self._lost is None:
            return errors.WorldOver(f"the world is over: {over.why}", metadata=metadata)
        return lost_member(self._lost.rank, self._lost.host, self._lost.why or over.why, metadata)

    # Joins again unless the server says that this can help no more.
    def _on_broken(self, error: grpc.RpcError) -> None:
        typed = errors.from_grpc(error)
        with self._changed:
            if self._closed:
                return
            formed, now = self._membership is not None, time.monotonic()
        if is_away(error) and (formed or now < self._form_by):
            if not formed:
                self._log_away(typed)
            return
        if not formed and typed.reason in _MAY_FREE and now < self._first_try() + _TAKEN_SECONDS:
            return
        if error.code() == grpc.StatusCode.UNIMPLEMENTED:
            typed = errors.ServerTooOld(
                "the server does not know worlds (CoordinationService): replace it by a newer "
                "version, or pass another group"
            )
        self.end(typed)

    # Once: the process may wait for minutes, and does nothing else.
    def _log_away(self, error: errors.RemeshError) -> None:
        if not self._said_away:
            self._said_away = True
            _LOG.warning("%s: waits for the server: %s", self.scope, error.message)

    # When it was first refused.
    def _first_try(self) -> float:
        if self._refused_at is None:
            self._refused_at = time.monotonic()
            _LOG.info("%s: waits for an earlier process to end", self._request.scope)
        return self._refused_at

    # Cancels a stream that says nothing more: its connection may be half open.
    def _notice_silence(self) -> None:
        with self._changed:
            while not (self._closed or self._over):
                silent = time.monotonic() - self._last_active
                if self._stream is not None and silent >= _SILENCE_SECONDS:
                    _LOG.info("%s: the server is silent: joins again", self._request.scope)
                    self._last_active = time.monotonic()
                    self._stream.cancel()
                self._changed.wait(max(_SILENCE_SECONDS - silent, 0.1))


def is_away(error: grpc.RpcError) -> bool:
    """Whether the server cannot be reached now, so that the call may come again."""
    if error.code() == grpc.StatusCode.UNAVAILABLE:
        return True
    return error.code() in _BROKEN and errors.error_info(error) is None


def lost_member(rank: int, host: str, why: str, metadata=None) -> errors.MemberLost:
    """Names the process, as "3@host-b"; so does `why` if the server says it."""
    return errors.MemberLost(
        why or f"{rank}@{host} is lost",
        code="FAILED_PRECONDITION",
        metadata={**(metadata or {}), "rank": str(rank), "host": host},
    )
