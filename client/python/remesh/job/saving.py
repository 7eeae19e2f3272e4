# SPDX-License-Identifier: Apache-2.0
"""One save: created, written once by all processes, committed when every host has sealed.

caller's thread    exchange (structure, sizes of extras); process 0 creates the state
                   every process writes its boxes; exchange (outcome)            -> staged
background         process 0 sets step and labels; each host's first process seals
                   the server commits; process 0 deletes the older save          -> committed
                   the memory of the next save is reserved (reserving.py)
"""

import concurrent.futures
import dataclasses
import threading
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from remesh import buffers, errors, group, names, storage
from remesh.job import extras, pieces
from remesh.job.errors import SaveFailed, Superseded
from remesh.job.finishing import Finisher
from remesh.job.members import Members
from remesh.job.pieces import Piece
from remesh.job.placement import LayoutKey, Placement
from remesh.job.requests import Order, Request, check_equal, check_labels, structure_digest
from remesh.job.reserving import Reservations
from remesh.job.save import Save, Stopwatch
from remesh.job.worlds import WORLD_SIZE, Worlds
from remesh.state import State
from remesh.v1 import state_pb2
from remesh.worker import LocalState

_ALLOCATE_SECONDS = 60.0
_LOOK_SECONDS = 0.2  # from one look whether the world is over to the next
_OVER_SECONDS = 0.5  # that a commit still gets when it is


@dataclasses.dataclass(frozen=True)
class Settings:
    """Of a job. See job.core.Core."""

    replicas: Optional[int]
    keep: int
    commit_seconds: float
    reserve: bool = True


class Saver:
    """Makes the saves of this process, one after the other. For the caller's thread."""

    def __init__(
        self, client, job_group: group.Group, members: Members, worlds: Worlds, settings: Settings
    ):
        self._client, self._group, self._members, self._worlds = client, job_group, members, worlds
        self._reserves = settings.reserve
        self._number = 0
        self._pending: Optional[Save] = None
        self._stopped: Optional[errors.RemeshError] = None
        rank = job_group.rank
        self._placement = Placement(worlds.job, rank, members, settings.replicas)
        self._reservations = Reservations(client, worlds, settings.reserve)
        self._finisher = Finisher(
            client,
            worlds,
            self._reservations,
            rank=rank,
            seals=members.leads(rank),
            keep=settings.keep,
            commit_seconds=settings.commit_seconds,
        )
        self._labels: Dict[str, str] = {}  # of process 0: of the save that is being made
        # Of process 0: the next reservation's layout, and what creates its state.
        self._plan: Tuple[Optional[LayoutKey], Optional[Callable[[], State]]] = (None, None)

    def save(
        self,
        saved: Union[Sequence[Piece], Exception],
        step: int,
        extra: Any,
        next_step: int,
        block: bool,
        labels: Mapping[str, str],
    ) -> Tuple[Save, int]:
        """See Core.save(). Returns the step of the next save as process 0 sees it, too."""
        save = Save(step)
        watch = Stopwatch(save.seconds)
        order = self._begin(saved, step, extra, next_step, labels)
        save.name = order.name
        key, create = self._plan
        reserved = self._reservations.next(order.name, order.next_name, create, key)
        watch.lap("begin")
        local = self._client.local(order.name, order.uid)
        try:
            self._write_together(local, saved, extra, order, watch)
        except errors.RemeshError as error:
            if reserved is not None:
                reserved.skip()
            self._finisher.give_up(order.name, order.uid, error)
            raise
        watch.lap("exchange")
        save.staged.set_result(None)
        self._pending = save
        thread = threading.Thread(
            target=self._finisher.run,
            args=(save, local, self._labels, watch, reserved),
            name="remesh-commit",
            daemon=True,
        )
        thread.start()
        if block:
            self._finish_together(save)
        return save, order.next_step

    def use_group(self, job_group: group.Group) -> None:
        """Another group of the same processes for the saves to come."""
        self._group = job_group

    def finish(self) -> None:
        """Waits for the last save's commit and raises its error, once."""
        pending, self._pending = self._pending, None
        if pending:
            self._committed(pending)

    def wait(self) -> None:
        """Waits for the last save's commit, or its failure, which the next finish() raises."""
        if self._pending:
            self._wait_committed(self._pending)

    def finish_within(self, seconds: float) -> None:
        """finish(), but not longer. TimeoutError."""
        if self._pending:
            self._pending.wait(seconds)

    def free(self) -> None:
        """Frees the memory that is reserved: the next save is a cold one."""
        self._reservations.close()

    # Waits on every process, so that all return or all raise.
    def _finish_together(self, save: Save) -> None:
        with group.together(self._group, "save: committed"):
            self._pending = None
            self._committed(save)

    # Waits for the commit and raises its error, or why the world is over: a
    # process that died may not have sealed.
    def _committed(self, save: Save) -> None:
        lost = self._wait_committed(save)
        if lost is not None:
            raise lost
        save.committed.result()

    # Until the save is committed or failed; in a world that is over not much
    # longer, and then returns why it is over.
    def _wait_committed(self, save: Save) -> Optional[errors.RemeshError]:
        failure = getattr(self._group, "failure", lambda: None)
        while not save.committed.done():
            lost = failure()
            patience = _LOOK_SECONDS if lost is None else _OVER_SECONDS
            concurrent.futures.wait([save.committed], timeout=patience)
            if lost is not None and not save.committed.done():
                return lost
        return None

    # The first exchange: returns what process 0 decided.
    def _begin(
        self,
        saved: Union[Sequence[Piece], Exception],
        step: int,
        extra: Any,
        next_step: int,
        labels: Mapping[str, str],
    ) -> Order:
        try:
            stopped = self._stopped or self._finisher.superseded
            if stopped:
                raise stopped
            self.finish()
            if isinstance(saved, Exception):
                raise saved
            encoded = extras.encode(extra)
            content = encoded if self._placement.shares_extras(saved) else b""
            digest = structure_digest([piece.array for piece in saved])
            reserved = self._reservations.report()
            payload: Any = Request(step, len(encoded), digest, reserved, content).to_bytes()
        except Exception as error:  # pylint: disable=broad-except
            payload = error
        try:
            answer = group.exchange(
                self._group,
                "save: begin",
                payload,
                lambda asked: self._decide(saved, asked, next_step, labels),
            )
        except (Superseded, errors.StaleEpoch) as error:
            self._stopped = error
            raise
        return Order.of(answer)

    # On process 0: creates the state.
    def _decide(
        self,
        saved: Sequence[Piece],
        asked: List[bytes],
        next_step: int,
        labels: Mapping[str, str],
    ) -> bytes:
        requests = [Request.of(each) for each in asked]
        check_equal(requests)
        check_labels(labels)
        states = self._worlds.check_current()
        rows = tuple(each.row for each in requests)
        shared = self._placement.shares_extras(saved)
        capacity = extras.capacity([each.extra_bytes for each in requests])
        key = (requests[0].structure, capacity, shared)
        spec = storage.spec(self._placement.layout(saved, key))
        reports = [each.reserved for each in requests]
        self._labels = {**labels, WORLD_SIZE: str(self._group.size)}
        state = self._reservations.take(key, reports, states)
        if state is None:
            state = self._worlds.create(self._next_id(), spec, self._labels)
        next_name = self._plan_next(key, spec) if self._reserves else ""
        kept = rows if shared else ()
        return Order(state.name, state.uid, capacity, kept, next_step, next_name).to_bytes()

    def _next_id(self) -> names.SaveId:
        self._number += 1
        return names.SaveId(self._worlds.world, self._number)

    # The name of the state that is to be reserved after this save.
    def _plan_next(self, key: LayoutKey, spec: state_pb2.StateSpec) -> str:
        save_id = self._next_id()
        self._plan = key, lambda: self._reservations.create(
            lambda labels: self._worlds.create(save_id, spec, labels)
        )
        return self._worlds.name(save_id)

    # The last exchange. Where processes of a host wrote into different memory,
    # the worker has lost what the first of them wrote.
    def _write_together(
        self,
        local: LocalState,
        saved: Sequence[Piece],
        extra: Any,
        order: Order,
        watch: Stopwatch,
    ) -> None:
        try:
            written: Any = self._write(local, saved, extra, order, watch)
        except Exception as error:  # pylint: disable=broad-except
            written = error
        group.exchange(self._group, "save: written", written, self._check_memory)

    # Returns the identity of the memory.
    def _write(
        self,
        local: LocalState,
        saved: Sequence[Piece],
        extra: Any,
        order: Order,
        watch: Stopwatch,
    ) -> bytes:
        allocated = local.allocate(wait=_ALLOCATE_SECONDS)
        memory = buffers.identity(allocated)
        watch.lap("allocate")
        own = self._placement.extra_piece(extra, order)
        pieces.write(pieces.Shards(allocated), [*saved, own], self._placement.writes_here)
        watch.lap("write")
        return memory

    def _check_memory(self, memories: List[bytes]) -> bytes:
        for process, memory in enumerate(memories):
            host = self._members.host_of[process]
            if memory != memories[self._members.leader(host)]:
                name = self._members.hosts[host].name
                raise SaveFailed(
                    f"{name}: its worker lost the memory of the save while it was written",
                    metadata={"hosts": name},
                )
        return b""
