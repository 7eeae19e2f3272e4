# SPDX-License-Identifier: Apache-2.0
"""Calls of a member of a world, which outlast a restart of the server."""

import time
from typing import Any, Callable

import grpc

from remesh import calls, errors
from remesh.v1 import coordination_pb2_grpc
from remesh.world_session import Session, is_away

# By which a call outlives its deadline at the server, whose answer so comes
# first.
GRACE_SECONDS = 10.0
_NOT_BACK = "JOIN_AGAIN"  # of a call that comes before its member has joined again

# Sends a request by a stub, and waits so many seconds for the answer.
Send = Callable[[Any, Any, float], Any]


class MemberCalls:
    """Repeats calls while the server is away: it knows a round by its sequence, and the step by the
    member. Thread-safe."""

    def __init__(self, session: Session, channel: Callable[[], grpc.Channel], away: float):
        """away: seconds without a message of the server after which calls give it up."""
        self._session, self._channel, self.away = session, channel, away

    def stub(self) -> coordination_pb2_grpc.CoordinationServiceStub:
        """To the server as it is now."""
        return coordination_pb2_grpc.CoordinationServiceStub(self._channel())

    def pause(self) -> None:
        """Between a call and its repetition."""
        calls.pause(self._channel)

    def call(
        self,
        send: Send,
        request: Any,
        what: str,
        give_up: float,
        ended: Callable[[], bool] = lambda: False,
    ) -> Any:
        """The answer. request: its timeout is set here. what: names the call in errors. give_up: on
        time.monotonic(). ended: whether to repeat it no more."""
        while True:
            left = max(give_up - time.monotonic(), 0.001)
            request.timeout.FromNanoseconds(int(left * 1e9))
            try:
                return send(self.stub(), request, left + GRACE_SECONDS)
            except grpc.RpcError as error:
                if ended():
                    raise _typed(error, what) from None
                self._check_repeats(error, what, give_up)
            except (grpc.FutureCancelledError, ValueError) as error:  # of a closed channel
                raise errors.Closed(str(error)) from None
            self.pause()
            self._session.wait_joined(min(give_up, self._away_until()))
            over = self._session.over
            if over is not None and not _may_be_answered(over):
                raise over

    # Raises the error of a call unless it may come again.
    def _check_repeats(self, error: grpc.RpcError, what: str, give_up: float) -> None:
        typed = _typed(error, what)
        now = time.monotonic()
        if not is_away(error) or now >= give_up:
            raise typed from None
        if now >= self._away_until():
            text = f"{what}: the server has sent nothing for {self._session.silence():.0f} s"
            raise errors.ServerAway(f"{text}: {typed.message}") from None
        if typed.reason == _NOT_BACK and self._session.over is not None:
            raise self._session.over from None

    def _away_until(self) -> float:
        return time.monotonic() - self._session.silence() + self.away


def is_unanswered(error: grpc.RpcError) -> bool:
    """Whether the time was up by the caller's clock, without a word of the server."""
    code = error.code()
    return code == grpc.StatusCode.DEADLINE_EXCEEDED and errors.error_info(error) is None


def _typed(error: grpc.RpcError, what: str) -> errors.RemeshError:
    typed = errors.from_grpc(error)
    if is_unanswered(error):
        return errors.ServerAway(f"{what}: the server did not answer in time")
    return typed


# Whether the server may know the outcome of a round that this member came to,
# although the world is over.
def _may_be_answered(over: errors.RemeshError) -> bool:
    return isinstance(over, (errors.MemberLost, errors.WorldOver))
