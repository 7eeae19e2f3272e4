# SPDX-License-Identifier: Apache-2.0
"""How the processes of a world agree, by the server, on the step at which all leave."""

import dataclasses
import threading
import time
from typing import Any, Callable, Optional

import grpc

from remesh import errors
from remesh.member_calls import GRACE_SECONDS, MemberCalls, is_unanswered
from remesh.v1 import coordination_pb2
from remesh.world_session import Session, is_away


@dataclasses.dataclass(frozen=True)
class AgreedStep:
    """The step at which all processes leave; those who do not ask about it leave at the next that
    they ask about. next_size: of the next world; 0: not said. resize: the processes are to start
    again with another size, not to end."""

    step: int
    next_size: int = 0
    resize: bool = False


class StepAgreement:
    """One process's part of it, until end(). For any thread."""

    def __init__(self, session: Session, calls: MemberCalls, deadline: float):
        """deadline: seconds that agree() waits for the others."""
        self._session, self._calls, self._deadline = session, calls, deadline
        self._lock = threading.Lock()
        self._waits: Optional[grpc.Future] = None
        self._ended = False

    def preempted(self) -> Optional[coordination_pb2.WorldEvent.Preempt]:
        """What the server said of the world's end by request; None: nothing."""
        return self._session.preempted

    def on_preempted(self, call: Callable[[], None]) -> None:
        """Calls it whenever the server says so, in another thread; now if it has said so. No more
        once another agreement of the group has asked for that."""
        self._session.on_preempted(call)

    def wait_preempted(self, seconds: float) -> bool:
        """Whether the server says so in that time, or the world is over."""
        return self._session.wait_preempted(seconds)

    def report(self, by: str, next_size: int = 0, *, resize: bool = False) -> None:
        """Asks all processes to agree on a step and leave, which on_preempted() reports. next_size:
        of the next world; 0: not said. resize: see Preempt of coordination.proto.

        WorldOver; RemeshError (WORLD_LEAVES) if they have agreed."""
        request = coordination_pb2.ReportPreemptionRequest(
            scope=self._session.scope,
            by=by,
            next_size=next_size,
            resize=resize,
            epoch=self._session.membership.epoch,
        )
        deadline = time.monotonic() + self._calls.away
        while True:
            try:
                self._calls.stub().ReportPreemption(request, timeout=GRACE_SECONDS)
                return
            except grpc.RpcError as error:
                no_answer = is_away(error) or is_unanswered(error)
                again_later = no_answer and time.monotonic() < deadline
                if not again_later or self._ended or self._session.over:
                    raise errors.from_grpc(error) from None
            except ValueError as error:  # gRPC's, for a channel that is closed
                raise errors.Closed(str(error)) from None
            self._calls.pause()

    def agree(self, asked: int) -> AgreedStep:
        """The step at which all processes leave, once all have called this. asked: the highest step
        that this one asked about; -1: none. One at a time.

        RemeshError (MEMBER_LEFT) if one has left; BarrierTimeout; MemberLost."""
        membership = self._session.membership
        request = coordination_pb2.AgreeStepRequest(
            scope=self._session.scope,
            epoch=membership.epoch,
            rank=membership.rank,
            nonce=self._session.nonce,
            step=asked,
        )
        give_up = time.monotonic() + self._deadline
        agreed = self._calls.call(self._send, request, "leaving", give_up, lambda: self._ended)
        self._session.set_agreed(agreed)
        return AgreedStep(agreed.step, agreed.preempt.next_size, agreed.preempt.resize)

    def end(self) -> None:
        """agree() and report() end, also later ones."""
        with self._lock:
            self._ended = True
            waits = self._waits
        if waits is not None:
            waits.cancel()

    def _send(self, stub: Any, request: Any, seconds: float) -> Any:
        waits = stub.AgreeStep.future(request, timeout=seconds)
        with self._lock:
            self._waits = waits
            ended = self._ended
        if ended:
            waits.cancel()
        return waits.result()
