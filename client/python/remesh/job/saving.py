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
import hashlib
import json
import logging
import struct
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from remesh import buffers, errors, group, names, storage
from remesh.job import committing, extras, pieces
from remesh.job.errors import SaveFailed, StructureMismatch, Superseded
from remesh.job.members import Members
from remesh.job.pieces import Interval, Piece
from remesh.job.reserving import Reservation, Reservations
from remesh.job.worlds import OWN_LABELS, WHOLE, WORLD_SIZE, WRITTEN, Worlds
from remesh.state import State
from remesh.v1 import state_pb2
from remesh.worker import LocalState

_LOG = logging.getLogger("remesh")
_REQUEST = struct.Struct("<qI32sB")  # of Request, the last: bytes of `reserved`
_ALLOCATE_SECONDS = 60.0
_LOOK_SECONDS = 0.2  # from one look whether the world is over to the next
_OVER_SECONDS = 0.5  # that a commit still gets when it is
LayoutKey = Tuple[bytes, int, bool]  # digest of the structure, capacity of the extras, shared


class Save:
    """A save. staged: its sources may be written again. committed: it is whole and will be
    restored. Both are futures of None or the error. seconds: by phase."""

    def __init__(self, step: int):
        self.step = step
        self.name = ""
        self.staged: "concurrent.futures.Future[None]" = concurrent.futures.Future()
        self.committed: "concurrent.futures.Future[None]" = concurrent.futures.Future()
        self.seconds: Dict[str, float] = {}

    def wait(self, timeout: Optional[float] = None) -> "Save":
        """Until it is committed. Raises its error; TimeoutError."""
        self.committed.result(timeout)
        return self

    def __repr__(self) -> str:
        state = (
            "committed" if self.committed.done() else "staged" if self.staged.done() else "begun"
        )
        return f"<Save {self.name} step {self.step} {state}>"


@dataclasses.dataclass(frozen=True)
class Order:
    """What process 0 decided on a save."""

    name: str
    uid: str
    capacity: int
    rows: Tuple[bytes, ...]  # extras of all processes, if others than their own store them
    next_step: int  # when should_save() says yes again
    next_name: str = ""  # of the save whose memory is to be reserved after this one

    def to_bytes(self) -> bytes:
        """For of(). The rows follow the rest."""
        head = json.dumps(
            [
                self.name,
                self.uid,
                self.capacity,
                [len(row) for row in self.rows],
                self.next_step,
                self.next_name,
            ]
        ).encode()
        return len(head).to_bytes(4, "little") + head + b"".join(self.rows)

    @staticmethod
    def of(data: bytes) -> "Order":
        """See to_bytes()."""
        end = 4 + int.from_bytes(data[:4], "little")
        name, uid, capacity, sizes, next_step, next_name = json.loads(data[4:end])
        rows = []
        for size in sizes:
            rows.append(data[end : end + size])
            end += size
        return Order(name, uid, capacity, tuple(rows), next_step, next_name)


@dataclasses.dataclass(frozen=True)
class Request:
    """What each process says in the first exchange."""

    step: int
    extra_bytes: int
    structure: bytes  # its digest
    reserved: bytes  # Reservations.report()
    row: bytes  # its extra, if others store it, too

    def to_bytes(self) -> bytes:
        """For of()."""
        head = _REQUEST.pack(self.step, self.extra_bytes, self.structure, len(self.reserved))
        return head + self.reserved + self.row

    @staticmethod
    def of(data: bytes) -> "Request":
        """See to_bytes()."""
        *fields, count = _REQUEST.unpack_from(data)
        end = _REQUEST.size + count
        return Request(*fields, data[_REQUEST.size : end], data[end:])


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
        self._client, self._group, self._members, self._worlds, self._settings = (
            client,
            job_group,
            members,
            worlds,
            settings,
        )
        self._number = 0
        self._pending: Optional[Save] = None
        self._writers: Dict[Tuple[storage.Holders, Interval], bool] = {}
        self._layouts: Dict[LayoutKey, storage.Layout] = {}
        self._doubled: Dict[storage.Holders, bool] = {}  # whether two hosts hold each box
        self._warned = False
        self._stopped: Optional[errors.RemeshError] = None
        self._reservations = Reservations(client, worlds, settings.reserve)
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
        watch = _Stopwatch(save.seconds)
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
            self._give_up(order, error)
            raise
        watch.lap("exchange")
        save.staged.set_result(None)
        self._pending = save
        thread = threading.Thread(
            target=self._run, args=(save, local, watch, reserved), name="remesh-commit", daemon=True
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
            if self._stopped:
                raise self._stopped
            self.finish()
            if isinstance(saved, Exception):
                raise saved
            encoded = extras.encode(extra)
            content = encoded if self._shares_extras(saved) else b""
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

    # Whether a second host keeps a copy of each extra.
    def _shares_extras(self, saved: Sequence[Piece]) -> bool:
        if len(self._members.hosts) == 1 or self._settings.replicas == 1:
            return False
        if self._settings.replicas:
            return True
        return all(map(self._on_two_hosts, {piece.array.holders for piece in saved}))

    def _on_two_hosts(self, holders: storage.Holders) -> bool:
        if holders not in self._doubled:
            found = storage.boxes.distinct(holders, np.asarray(self._members.host_of))
            self._doubled[holders] = bool(np.bincount(found.pairs[:, 0]).min() > 1)
        return self._doubled[holders]

    # On process 0: creates the state.
    def _decide(
        self,
        saved: Sequence[Piece],
        asked: List[bytes],
        next_step: int,
        labels: Mapping[str, str],
    ) -> bytes:
        requests = [Request.of(each) for each in asked]
        _check_equal(requests)
        _check_labels(labels)
        states = self._worlds.check_current()
        rows = tuple(each.row for each in requests)
        shared = self._shares_extras(saved)
        capacity = extras.capacity([each.extra_bytes for each in requests])
        key = (requests[0].structure, capacity, shared)
        spec = storage.spec(self._layout(saved, *key))
        reports = [each.reserved for each in requests]
        self._labels = {**labels, WORLD_SIZE: str(self._group.size)}
        state = self._reservations.take(key, reports, states)
        if state is None:
            state = self._worlds.create(self._next_id(), spec, self._labels)
        next_name = self._plan_next(key, spec) if self._settings.reserve else ""
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

    def _layout(
        self, saved: Sequence[Piece], digest: bytes, capacity: int, shared: bool
    ) -> storage.Layout:
        key: LayoutKey = (digest, capacity, shared)
        if key not in self._layouts:
            arrays = [piece.array for piece in saved] + [self._extra_array(capacity, shared)]
            layout = storage.stored(
                arrays, self._members.hosts, self._members.host_of, self._settings.replicas
            )
            self._layouts = {key: layout}
            self._say_once(layout)
        return self._layouts[key]

    def _say_once(self, layout: storage.Layout) -> None:
        if self._warned:
            return
        self._warned = True
        if layout.shortage():
            _LOG.warning(
                "job %s: only %s hosts hold some of the arrays: the loss of one host costs the save",
                self._worlds.job,
                layout.shortage(),
            )
        elif layout.least == 1:
            _LOG.warning(
                "job %s: each part of a save lies on one host: the loss of any host costs the save",
                self._worlds.job,
            )

    def _extra_array(self, capacity: int, shared: bool) -> storage.Array:
        size = self._group.size
        entries = [
            (process, (row, 0), (row + 1, capacity))
            for row in range(size)
            for process in (self._members.neighbours(row) if shared else [row])
        ]
        return storage.Array(extras.ARRAY, "u8", storage.Holders.of((size, capacity), entries))

    # The last exchange. Where processes of a host wrote into different memory,
    # the worker has lost what the first of them wrote.
    def _write_together(
        self,
        local: LocalState,
        saved: Sequence[Piece],
        extra: Any,
        order: Order,
        watch: "_Stopwatch",
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
        watch: "_Stopwatch",
    ) -> bytes:
        allocated = local.allocate(wait=_ALLOCATE_SECONDS)
        memory = buffers.identity(allocated)
        watch.lap("allocate")
        own = self._extra_piece(extra, order)
        pieces.write(pieces.Shards(allocated), [*saved, own], self._writes_here)
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

    # The rows that this process writes.
    def _extra_piece(self, extra: Any, order: Order) -> Piece:
        rank, size = self._group.rank, self._group.size
        array = self._extra_array(order.capacity, bool(order.rows))
        boxes = [
            ((row, 0), (row + 1, order.capacity))
            for row in range(size)
            if row == rank or (order.rows and rank in self._members.neighbours(row))
        ]
        encoded = {rank: extras.encode(extra)} if not order.rows else dict(enumerate(order.rows))
        return Piece(array, boxes, lambda box: extras.row(encoded[box[0][0]], order.capacity))

    # Whether this process is the first of its host that holds the box.
    def _writes_here(self, array: storage.Array, box: Interval) -> bool:
        key = (array.holders, box)
        if key not in self._writers:
            if len(self._writers) > 1 << 20:
                self._writers.clear()
            self._writers[key] = first_on_host(array.holders, box, self._members, self._group.rank)
        return self._writers[key]

    # Of process 0: a name is used once, so a failed save is only deleted.
    def _give_up(self, order: Order, error: errors.RemeshError) -> None:
        _LOG.warning("%s failed and is deleted: %s", order.name, error)
        if self._group.rank == 0:
            self._delete(order.name, order.uid)

    def _delete(self, name: str, uid: str) -> None:
        try:
            state = self._client.state(name)
            if state.uid == uid and self._worlds.unfinished(
                state
            ):  # it may have committed after all
                state.delete()
        except errors.NotFound:
            pass
        except errors.RemeshError as error:
            _LOG.warning("%s stays: %s", name, error)

    # In the background thread of this save; makes no call to the group.
    def _run(
        self,
        save: Save,
        local: LocalState,
        watch: "_Stopwatch",
        reserved: Optional[Reservation],
    ) -> None:
        older = self._commit(save, local, watch)
        if reserved is None:
            return
        if save.committed.exception():
            reserved.skip()
        else:
            reserved.run(lambda: self._reservations.gone(older))

    # Returns the older saves that it deleted; None if some stay, or another
    # process deletes them.
    def _commit(self, save: Save, local: LocalState, watch: "_Stopwatch") -> Optional[List[State]]:
        older: Optional[List[State]] = None
        decides, seconds = self._group.rank == 0, self._settings.commit_seconds
        commit = committing.Commit(self._worlds, local, decides, seconds)
        try:
            self._seal(save, commit, self._labels, watch)
            commit.wait()
            watch.lap("commit")
            if self._group.rank == 0:
                older = self._delete_older(save.name)
                watch.lap("delete")
        except BaseException as error:  # pylint: disable=broad-except
            save.committed.set_exception(self._explained(save, local, commit, error))
            return None
        save.committed.set_result(None)
        _LOG.info("%s: step %d is saved (%s)", save.name, save.step, watch.text())
        return older

    # Step and labels first: a save that is whole has its own step.
    def _seal(
        self,
        save: Save,
        commit: committing.Commit,
        labels: Mapping[str, str],
        watch: "_Stopwatch",
    ) -> None:
        if self._group.rank == 0:
            state = self._client.state(save.name)
            state.update(step=save.step, labels={**labels, WRITTEN: "1"})
            watch.lap("update")
        if self._members.leads(self._group.rank):
            commit.seal()
            watch.lap("seal")

    # The error of a save that did not commit: on all processes that of process
    # 0, which deletes the save.
    def _explained(
        self, save: Save, local: LocalState, commit: committing.Commit, error: BaseException
    ) -> errors.RemeshError:
        if self._group.rank == 0:
            return self._decided(save, local, error)
        if not isinstance(error, (errors.NotFound, errors.StateReplaced)):
            _LOG.warning("%s: process %d: %s", save.name, self._group.rank, error)
            if not commit.is_given_up():
                return committing.failure(save.name, save.step, error)
        return self._learned(save)

    def _decided(self, save: Save, local: LocalState, error: BaseException) -> errors.RemeshError:
        if isinstance(error, errors.StaleEpoch):
            self._stopped = Superseded(f"{save.name}: {error.message}", metadata=error.metadata)
            return self._stopped
        result = committing.failure(save.name, save.step, error)
        try:
            self._worlds.check_current()
            self._worlds.tell(committing.to_labels(result))
        except Superseded as superseded:
            self._stopped = superseded
            return superseded
        except errors.RemeshError as unknown:
            _LOG.warning("the other processes do not learn why %s failed: %s", save.name, unknown)
        self._delete(save.name, local.uid)
        return result

    # Why the save is gone.
    def _learned(self, save: Save) -> errors.RemeshError:
        try:
            told = committing.of_labels(self._worlds.told())
            if told.metadata.get("state") == save.name:
                return told
        except errors.NotFound:
            pass  # the later world has deleted the claim, too
        except errors.RemeshError as error:
            _LOG.warning("nothing tells why %s is gone: %s", save.name, error)
        return Superseded(f"{save.name} is gone: a later world of the job has begun")

    # Keeps the newest saves, whole ones before others, and no unfinished one of
    # this world. Of a committed save: a world that begins after later_world()
    # sees it whole, but one that has begun may have seen it unfinished, and
    # deletes it. Returns what it deleted; None if something stays.
    def _delete_older(self, name: str) -> Optional[List[State]]:
        own = names.parse(name)
        try:
            if self._worlds.later_world():
                return None
            older = [(save_id, state) for save_id, state in self._worlds.saves() if save_id < own]
        except errors.RemeshError as error:
            _LOG.warning("the saves before %s stay: %s", name, error)
            return None
        written = [state for save_id, state in older if not self._left_over(save_id, state)]
        written.sort(key=lambda state: state.phase not in WHOLE)
        left = [state for save_id, state in older if self._left_over(save_id, state)]
        deleted: List[State] = []
        stay = False
        for state in written[self._settings.keep - 1 :] + left:
            try:
                state.delete()
                deleted.append(state)
            except errors.RemeshError as error:
                _LOG.warning("%s stays: %s", state.name, error)
                stay = True
        return None if stay else deleted

    # Whether the save was reserved or begun by this world, and is not written.
    def _left_over(self, save_id: names.SaveId, state: State) -> bool:
        return save_id.world == self._worlds.world and WRITTEN not in state.labels


class _Stopwatch:
    """Seconds by phase, as they go by."""

    def __init__(self, seconds: Dict[str, float]):
        self._seconds, self._last = seconds, time.perf_counter()

    def lap(self, phase: str) -> None:
        """Ends a phase."""
        now = time.perf_counter()
        self._seconds[phase] = now - self._last
        self._last = now

    def text(self) -> str:
        """ "begin 0.01 s, allocate 0.2 s"."""
        return ", ".join(f"{phase} {seconds:.3f} s" for phase, seconds in self._seconds.items())


def first_on_host(holders: storage.Holders, box: Interval, members: Members, process: int) -> bool:
    """Whether the process is the first of its host that holds the box."""
    same = np.all(holders.lo == np.array(box[0], np.int64), axis=1) & np.all(
        holders.hi == np.array(box[1], np.int64), axis=1
    )
    host_of = np.asarray(members.host_of)
    owners = holders.processes[same]
    here = owners[host_of[owners] == host_of[process]]
    return bool(len(here)) and int(here.min()) == process


def structure_digest(arrays: Sequence[storage.Array]) -> bytes:
    """Of names, types, shapes and who holds what: equal on all processes."""
    found: Dict[storage.Holders, bytes] = {}
    whole = hashlib.sha256()
    for array in arrays:
        holders = array.holders
        if holders not in found:
            parts = (
                np.asarray(part, np.int64).tobytes()
                for part in (holders.shape, holders.processes, holders.lo, holders.hi)
            )
            found[holders] = hashlib.sha256(b"".join(parts)).digest()
        whole.update(f"{array.name}\0{array.element_type}\0".encode() + found[holders])
    return whole.digest()


def _check_equal(requests: Sequence[Request]) -> None:
    for process, request in enumerate(requests):
        if request.step != requests[0].step:
            raise StructureMismatch(
                f"step: process {process} saves step {request.step}, process 0 step {requests[0].step}",
                process=process,
            )
        if request.structure != requests[0].structure:
            raise StructureMismatch(
                f"tree: process {process} has other names, shapes, types or shardings than process 0",
                process=process,
            )


def _check_labels(labels: Mapping[str, str]) -> None:
    for name in labels:
        if name.startswith(OWN_LABELS) or name == WORLD_SIZE:
            raise errors.BadArgument(
                f"labels: value {name!r} must not begin with {OWN_LABELS!r}, nor be {WORLD_SIZE!r}"
            )
