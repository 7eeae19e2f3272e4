# SPDX-License-Identifier: Apache-2.0
"""Calls that outlast a restart of the other side: repeated while it cannot be reached, refused with
one typed error."""

import time
from typing import Any, Callable, Generator, Mapping, Optional, Union

import grpc

from remesh import errors, forks

# Answers may be long; a proxy must not stand between loopback and us. The last: what an attempt to
# connect may take.
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.min_reconnect_backoff_ms", 5000),
)
CALL_SECONDS = 30.0
PAUSE_SECONDS = 0.2

Awaited = Union[str, Callable[[], str]]
# What the calls go over, as it is now.
Channel = Callable[[], grpc.Channel]


def may_come_back(error: grpc.RpcError, give_up: float) -> bool:
    """Whether to repeat the call: the other side is away, and there is time left."""
    return error.code() == grpc.StatusCode.UNAVAILABLE and time.monotonic() < give_up - 1


def pause(channel: Channel) -> None:
    """Waits PAUSE_SECONDS, and connects if the other side is there again.

    gRPC 1.51 connects only while a call waits for the channel. Calls that fail at once do not: a
    connection was made, but nothing was sent on it for seconds."""
    end = time.monotonic() + PAUSE_SECONDS
    try:
        check = channel().unary_unary("/grpc.health.v1.Health/Check")
        check(b"", timeout=PAUSE_SECONDS, wait_for_ready=True)
    except (grpc.RpcError, ValueError):  # the latter: closed
        pass
    time.sleep(max(end - time.monotonic(), 0))


def retry(method: Callable[[], Callable], request: Any, timeout: float, channel: Channel) -> Any:
    """Calls what method() returns, which may be another stub after each failure, until the other
    side answers. Raises gRPC's error."""
    give_up = time.monotonic() + timeout
    while True:
        try:
            return method()(request, timeout=max(give_up - time.monotonic(), 1e-3))
        except grpc.RpcError as error:
            if not may_come_back(error, give_up):
                raise
        pause(channel)


def watch(
    method: Callable[[], Callable], request: Any, timeout: float, channel: Channel
) -> Generator[Any, None, None]:
    """Yields the messages of a Watch call without end; repeats the call when the server goes away
    and comes back. Raises gRPC's error, DEADLINE_EXCEEDED among them."""
    give_up = time.monotonic() + timeout
    while True:
        stream = None
        try:
            stream = method()(request, timeout=max(give_up - time.monotonic(), 0))
            yield from stream
        except grpc.RpcError as error:
            if not may_come_back(error, give_up):
                raise
        finally:
            if stream is not None and hasattr(stream, "cancel"):
                stream.cancel()  # what is not read to its end would stay open on the server
        pause(channel)


class Caller:
    """Makes calls on behalf of one object: the same rules for the server and for a worker.
    Thread-safe."""

    def __init__(self, what: str, channel: Channel, metadata: Optional[Mapping[str, str]] = None):
        """what: the object's name in errors. metadata: added to those of errors."""
        self._what, self._channel, self._metadata = what, channel, dict(metadata or {})
        self._guard = forks.ForkGuard(what)
        self._closed = False

    def close(self) -> bool:
        """Later calls raise Closed. Returns whether the connection is this process's to end: not in
        a forked child."""
        self._closed = True
        return self._guard.intact()

    def check(self) -> None:
        """Raises ForkedError after a fork() and Closed after close()."""
        self._guard.check()
        if self._closed:
            raise errors.Closed(f"{self._what} is closed")

    def call(
        self,
        method: Callable[[], Callable],
        request: Any,
        timeout: float = CALL_SECONDS,
        awaited: Awaited = "",
    ) -> Any:
        """retry(), with a typed error."""
        self.check()
        try:
            return retry(method, request, timeout, self._channel)
        except (grpc.RpcError, ValueError) as error:
            raise self.typed(error, timeout, awaited) from None

    def watch(
        self, method: Callable[[], Callable], request: Any, timeout: float, awaited: Awaited = ""
    ) -> Generator[Any, None, None]:
        """watch(), with a typed error."""
        self.check()
        try:
            yield from watch(method, request, timeout, self._channel)
        except (grpc.RpcError, ValueError) as error:
            raise self.typed(error, timeout, awaited) from None

    def typed(self, error: Exception, timeout: float, awaited: Awaited = "") -> Exception:
        """The error to raise for what a call raised."""
        if self._closed:  # by another thread: gRPC raises ValueError, or ends the call as CANCELLED
            return errors.Closed(f"{self._what} is closed")
        if not isinstance(error, grpc.RpcError):
            return error
        what = awaited() if callable(awaited) else awaited
        return errors.from_grpc(error, f"{what}, for {timeout:g} s" if what else "", self._metadata)
