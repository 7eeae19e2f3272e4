# SPDX-License-Identifier: Apache-2.0
"""The memory of the next save, reserved before it begins: most of a save's time is that of the
pages, not of the copy.

caller's thread    a save names the state of the next one; its own first exchange takes that
                   state if it is there on every host, else process 0 deletes it
background         once that save is committed and the older one is gone on every host, process 0
                   creates the state, and the workers reserve its pages

A reserved state is BUILDING and has no step. Nothing that goes wrong here fails a save: it reserves
its memory itself then.
"""

import contextlib
import logging
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence

from remesh import errors
from remesh.client import Client
from remesh.job.worlds import RESERVED, Worlds
from remesh.state import State
from remesh.v1 import state_pb2

_LOG = logging.getLogger("remesh")
_DELETE_SECONDS = 10.0
_RESERVE_SECONDS = 120.0
_LOOK_SECONDS = 1.0
_CREATE_SECONDS = 1.0  # that a save waits for the creation, which takes milliseconds
_JOIN_SECONDS = 5.0
_FAILED, _PENDING = b"", b"?"


class Reservation:
    """Of one save to come, on this process. Thread-safe."""

    def __init__(self, client: Client, name: str, create: Optional[Callable[[], State]], key: Any):
        """create: of process 0. key: of the layout, equal for saves that can take the memory."""
        self.name, self.key = name, key
        self._client, self._create = client, create
        self._lock = threading.Lock()
        self._state: Optional[State] = None
        self._uid = ""
        self._failed = self._abandoned = self._taken = False
        self._created, self._ended = threading.Event(), threading.Event()

    def report(self) -> bytes:
        """For a save's first exchange: the state's uid if this process knows it. The memory may be
        under way still; the save waits for it then, as it would for its own."""
        if self._failed:
            return _FAILED
        return self._uid.encode() or _PENDING

    def uid(self) -> str:
        """Of the state that process 0 created; waits for that a moment. "" if there is none."""
        self._created.wait(_CREATE_SECONDS)
        return "" if self._failed else self._uid

    def run(self, gone: Callable[[], bool]) -> None:
        """Reserves the memory, in the background. gone: waits until the older save is; whether it
        is."""
        try:
            if self._create is None or (gone() and self._begin()):
                self._allocate()
            else:
                self._failed = True
        except Exception as error:  # pylint: disable=broad-except
            self._failed = True
            _LOG.info("%s is not reserved: %s", self.name, error)
        finally:
            self._created.set()
            self._ended.set()

    def skip(self) -> None:
        """In place of run()."""
        self._failed = True
        self._created.set()
        self._ended.set()

    def abandon(self, wait: bool = False) -> None:
        """Frees the memory; within seconds. wait: until every host has. An error is logged: the
        next world deletes what stays."""
        with self._lock:
            self._abandoned, state = True, self._state
        if state is not None:
            self._delete(state, wait)

    def end(self) -> None:
        """The save has taken the memory. Should the worker lose it now, nothing may reserve it
        again: it would be sealed without what the save wrote."""
        self._taken = True

    def join(self) -> None:
        """Waits for the end of run(), but not for long: it may wait for a server that is away."""
        self._ended.wait(_JOIN_SECONDS)

    # Creates the state. False if it was abandoned.
    def _begin(self) -> bool:
        assert self._create is not None
        if self._abandoned:
            return False
        state = self._create()
        with self._lock:
            self._state, abandoned = state, self._abandoned
        if abandoned:
            self._delete(state, False)
            return False
        self._uid = state.uid
        self._created.set()
        return True

    def _delete(self, state: State, wait: bool) -> None:
        try:
            delete(self._client, state, _DELETE_SECONDS, wait=wait)
        except errors.RemeshError as error:
            _LOG.info("%s, which was reserved, stays for now: %s", self.name, error)

    # Until the worker has the pages. It is asked again now and then, so that
    # this ends soon after abandon().
    def _allocate(self) -> None:
        local = self._client.local(self.name, self._uid)
        give_up = time.monotonic() + _RESERVE_SECONDS
        while not self._abandoned and not self._taken:
            try:
                local.allocate(wait=_LOOK_SECONDS)
                self._uid = local.uid
                return
            except (errors.TimedOut, errors.ServerAway):
                if time.monotonic() > give_up:
                    raise


class Reservations:
    """Those of a job's saves on this process, one at a time. For the caller's thread."""

    def __init__(self, client: Client, worlds: Worlds, enabled: bool):
        self._client, self._worlds, self.enabled = client, worlds, enabled
        self._present: Optional[Reservation] = None
        self._before: Optional[Reservation] = None  # its thread may still run

    def report(self) -> bytes:
        """See Reservation.report()."""
        return self._present.report() if self._present else _FAILED

    def take(self, key: Any, reports: Sequence[bytes], states: Dict[str, State]) -> Optional[State]:
        """On process 0, in the first exchange of a save: the reserved state, if every process
        counts on it and it fits. Otherwise it is deleted, and the save reserves its own. reports:
        of all processes. states: those of the job now."""
        present = self._present
        if present is None:
            return None
        uid = present.uid()
        state = states.get(present.name) or self._created(present.name, uid)
        there = state is not None and state.uid == uid and state.phase == "BUILDING"
        agreed = all(report in (_PENDING, uid.encode()) for report in reports)
        if uid and there and agreed and present.key == key:
            return state
        _LOG.info("%s was reserved in vain: the save reserves its own memory", present.name)
        present.abandon(wait=True)
        return None

    def next(
        self, taken: str, name: str, create: Optional[Callable[[], State]], key: Any
    ) -> Optional[Reservation]:
        """After the first exchange: ends the reservation unless the save takes it. Returns the next
        one, which the save's thread runs; None without a name."""
        present, self._present = self._present, None
        if present is not None:
            if present.name == taken:
                present.end()
            else:
                present.abandon()
        self._before = present
        if name:
            self._present = Reservation(self._client, name, create, key)
        return self._present

    def close(self) -> None:
        """Frees what is reserved. Takes seconds at most."""
        present, self._present = self._present, None
        if present is not None:
            present.abandon()
            present.join()
        if self._before is not None:
            self._before.join()

    # Of a state that was created since the job's states were listed.
    def _created(self, name: str, uid: str) -> Optional[State]:
        if not uid:
            return None
        state = self._worlds.find(name)
        return state if state and state.uid == uid else None

    def create(self, make: Callable[[Dict[str, str]], State]) -> State:
        """Creates a reserved state, on process 0 in the background. Superseded if a later world
        has begun: it has looked for what this one left before the state was there, or sees it."""
        self._worlds.check_current()
        state = make({RESERVED: "1"})
        try:
            self._worlds.check_current()
        except errors.RemeshError:
            delete(self._client, state, _DELETE_SECONDS)
            raise
        return state

    def gone(self, older: Optional[List[State]]) -> bool:
        """Waits until every host has freed the older saves. None: they stay."""
        if older is None:
            return False
        for state in older:
            delete(self._client, state, _DELETE_SECONDS, wait=True)
        return True


def delete(client: Client, state: State, seconds: float, *, wait: bool = False) -> None:
    """Deletes the state unless it is gone, or another has its name; within `seconds`. wait: until
    every host has freed it, also if it was deleted before."""
    stub, request = client.state_stub, state_pb2.DeleteStateRequest(
        name=state.name, wait=wait, fence=client.fence
    )
    with contextlib.suppress(errors.NotFound):
        asked = state_pb2.GetStateRequest(name=state.name)
        try:
            if client.calls.call(lambda: stub().GetState, asked, seconds).uid != state.uid:
                return
        except errors.NotFound:
            if not wait:
                return  # deleting it again joins the deletion
        client.calls.call(lambda: stub().DeleteState, request, seconds)
