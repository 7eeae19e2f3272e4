# SPDX-License-Identifier: Apache-2.0
"""Restoring the newest save that is whole, in the layout of this world."""

import dataclasses
import json
import logging
import time
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple, Union

import numpy as np

from remesh import errors, group, names, storage
from remesh.job import extras
from remesh.job.errors import NotCovered, StructureMismatch
from remesh.job.members import Members
from remesh.job.pieces import Shards
from remesh.job.requests import structure_digest
from remesh.job.worlds import RESERVED, WHOLE, WRITTEN, Worlds
from remesh.move import Moved
from remesh.state import State
from remesh.v1 import reshard_pb2, sharding_pb2, state_pb2

_LOG = logging.getLogger("remesh")
_PAUSE_SECONDS = 0.2
_MOVE_SECONDS = 600.0
_TRIES = 3
_PART_BYTES = 2 << 20  # of extras, that a process sends at once


@dataclasses.dataclass(frozen=True)
class Found:
    """A save that was restored: this host's shards, and the extras of the world that saved."""

    save: str
    step: int
    extras: List[Any]
    shards: Shards
    seconds: Dict[str, float]


@dataclasses.dataclass(frozen=True)
class Described:
    """A save as it was written, whether or not its hosts are there. arrays: [name, element type,
    shape] of each."""

    save: str
    step: int
    labels: Dict[str, str]
    arrays: List[List[Any]]


class Restorer:
    """Restores on this process, with the others. For the caller's thread."""

    def __init__(
        self, client, job_group: group.Group, members: Members, worlds: Worlds, patience: float
    ):
        self._client, self._group, self._members, self._worlds, self._patience = (
            client,
            job_group,
            members,
            worlds,
            patience,
        )
        # Saves that newest() has waited for in vain: the restore that follows
        # does not wait for them once more.
        self._waited_for: Set[str] = set()

    def restore(
        self,
        wanted: Union[Sequence[storage.Array], Exception],
        step: Optional[int],
        strict: bool,
    ) -> Optional[Found]:
        """See Core.restore()."""
        seconds: Dict[str, float] = {}
        start = time.perf_counter()
        request: Any = wanted
        if not isinstance(wanted, Exception):
            request = json.dumps([step, strict, structure_digest(wanted).hex()]).encode()
        answer = group.exchange(
            self._group,
            "restore: begin",
            request,
            lambda asked: self._decide(wanted, step, strict, asked),
        )
        chosen = json.loads(answer)
        seconds["move"] = time.perf_counter() - start
        if not chosen:
            return None
        start = time.perf_counter()
        with group.together(self._group, "restore: mapped"):
            local = self._client.local(chosen["name"], chosen["uid"])
            shards = Shards(local.read(chosen["generation"]))
            rows = self._local_rows(shards)
        if chosen["gather_extras"]:
            rows = self._gathered(rows, chosen["processes"])
        restored_extras = extras.decode_all(rows, chosen["processes"])
        seconds["map"] = time.perf_counter() - start
        if self._group.rank == 0:
            text = ", ".join(f"{phase} {each:.3f} s" for phase, each in seconds.items())
            _LOG.info(
                "restored %s: step %d, %s (%s)",
                chosen["name"],
                chosen["step"],
                chosen["what"],
                text,
            )
        return Found(chosen["name"], chosen["step"], restored_extras, shards, seconds)

    def newest(self, step: Optional[int]) -> Optional[Described]:
        """See Core.newest()."""
        answer = group.exchange(
            self._group, "restore: newest", json.dumps(step).encode(), lambda _: self._newest(step)
        )
        return Described(**json.loads(answer)) if answer != b"null" else None

    # On process 0: the newest that is whole. If none is, the newest, of which a
    # restore says what is missing.
    def _newest(self, step: Optional[int]) -> bytes:
        self._waited_for.clear()
        newest: Optional[State] = None
        for _, listed in self._worlds.saves():
            if WRITTEN not in listed.labels or step not in (None, listed.step):
                continue
            state = self._settled(listed, self._patience)
            if state.phase == "BUILDING":
                continue
            if state.phase not in WHOLE:
                self._waited_for.add(state.name)
            if newest is None or state.phase in WHOLE:
                newest = state
            if state.phase in WHOLE:
                break
        return json.dumps(_fields_of(newest)).encode()

    # The extras in this host's shards, by process of the world that saved.
    def _local_rows(self, shards: Shards) -> Dict[int, np.ndarray]:
        rows: Dict[int, np.ndarray] = {}
        for shard in shards.of(extras.ARRAY):
            first, last = shard.info.box.lo[0], shard.info.box.hi[0]
            for row, content in zip(range(first, last), shard.bytes.reshape(last - first, -1)):
                rows[row] = content
        return rows

    # All rows, where each host has only some: the first process of each host
    # sends those of its host.
    def _gathered(self, rows: Dict[int, np.ndarray], processes: int) -> Dict[int, np.ndarray]:
        used = (
            {row: extras.first_bytes(content) for row, content in rows.items()}
            if self._members.leads(self._group.rank)
            else {}
        )
        everything: Dict[int, bytes] = {}
        parts, more = _parts(used), True
        while more:
            mine = parts.pop(0) if parts else {}
            payload = bytes([bool(parts)]) + _pack(mine)
            answer = group.exchange(
                self._group,
                "restore: extras",
                payload,
                lambda sent: bytes([max(each[0] for each in sent)])
                + _pack(_merged([each[1:] for each in sent])),
            )
            everything.update(_unpack(answer[1:]))
            more = answer[0] != 0
        return {
            row: np.frombuffer(content, np.uint8)
            for row, content in everything.items()
            if row < processes
        }

    # On process 0: chooses a save, moves it, and says which.
    def _decide(
        self, wanted: Sequence[storage.Array], step: Optional[int], strict: bool, asked: List[bytes]
    ) -> bytes:
        for process, each in enumerate(asked):
            if each != asked[0]:
                raise StructureMismatch(
                    f"restore: process {process} asks for other arrays, or with other arguments, "
                    "than process 0",
                    process=process,
                )
        self._worlds.check_current()
        passed: List[str] = []
        for save_id, state in self._worlds.saves():
            if RESERVED in state.labels:
                continue
            if step is not None and (state.step != step or WRITTEN not in state.labels):
                continue
            restored = self._try(save_id, state, wanted, strict, passed)
            if restored:
                return json.dumps(restored).encode()
        if passed:
            raise NotCovered("; ".join(passed))
        if step is not None:
            raise errors.NotFound(
                f"step: there is no save of step {step}", metadata={"step": str(step)}
            )
        return b"null"

    # What the other processes need to know of the save, once it is moved. None,
    # with a reason in `passed`, if it is not whole.
    def _try(
        self, save_id: names.SaveId, state: State, wanted, strict: bool, passed: List[str]
    ) -> Optional[Dict[str, Any]]:
        patience = 0.0 if state.name in self._waited_for else self._patience
        self._waited_for.discard(state.name)
        for attempt in range(_TRIES):
            state = self._settled(state, patience)
            patience = self._patience
            if state.phase == "BUILDING" or WRITTEN not in state.labels:
                passed_over = f"{save_id}: was never committed"
                _LOG.info(passed_over)
                return None
            if state.phase not in WHOLE:
                passed.append(
                    f"{save_id} (step {state.step}): {state.phase}, {self._missing(state)}"
                )
                _LOG.warning("passes over %s", passed[-1])
                return None
            try:
                return self._moved(state, wanted, strict, passed)
            except (
                errors.NotReady,
                errors.GenerationMismatch,
                errors.StateMoving,
                errors.MoveFailed,
            ) as error:
                if attempt == _TRIES - 1:
                    raise
                _LOG.warning("%s is tried again: %s", save_id, error)
            except errors.DataLoss as error:
                passed.append(f"{save_id} (step {state.step}): {error}")
                _LOG.warning("passes over %s", passed[-1])
                return None
        return None

    # Waits until the save can be restored, or its hosts are back, or `patience`
    # is over.
    def _settled(self, state: State, patience: float) -> State:
        give_up = time.monotonic() + patience
        while True:
            state = state.refresh()
            waits = state.phase == "MOVING" or (
                state.phase == "LOST" and not self._worlds.attached().issuperset(state.lost_hosts)
            )
            if not waits or time.monotonic() > give_up:
                return state
            time.sleep(_PAUSE_SECONDS)

    # In words, what no host holds.
    def _missing(self, state: State) -> str:
        hosts = f"hosts {', '.join(state.lost_hosts)} are away or have lost their shards"
        lost = uncovered(state.proto.spec, state.lost_hosts, self._devices_of(state.lost_hosts))
        return f"{hosts}; nothing else holds {lost}" if lost else hosts

    def _devices_of(self, hosts: Sequence[str]) -> Dict[str, List[int]]:
        return {
            worker.registration.host: [device.id for device in worker.registration.devices]
            for worker in self._client.workers()
            if worker.registration.host in hosts
        }

    def _moved(
        self, state: State, wanted: Sequence[storage.Array], strict: bool, passed: List[str]
    ) -> Dict[str, Any]:
        spec = state.proto.spec
        arrays = matching(spec, wanted, strict)
        lost_here = {host.name for host in self._members.hosts}.intersection(state.lost_hosts)
        if lost_here:
            state = self._repaired(state, arrays)
        targets = storage.targets(
            storage.wanted(arrays, self._members.hosts, self._members.host_of)
        )
        gather = self._place_extras(state, targets, self._members.hosts)
        moved = self._move(state, targets)
        rows = next(array.shape[0] for array in spec.arrays if array.name == extras.ARRAY)
        return {
            "name": state.name,
            "uid": state.uid,
            "generation": moved.generation,
            "step": state.step,
            "processes": rows,
            "gather_extras": gather,
            "what": self._described(moved, state, passed),
        }

    # Moves all of the save to hosts that are not lost: a device that is lost cannot be a target of
    # the same move, although its host may be back, empty.
    def _repaired(self, state: State, arrays: Sequence[storage.Array]) -> State:
        survivors = self._survivors(state)
        at = {host.name: index for index, host in enumerate(survivors)}
        host_of = [
            at.get(self._members.hosts[host].name, process % len(survivors))
            for process, host in enumerate(self._members.host_of)
        ]
        targets = storage.targets(storage.wanted(arrays, survivors, host_of))
        self._place_extras(state, targets, survivors)
        self._move(state, targets, survivors[0])
        return state.refresh()

    # Hosts of this world that hold their shards of the save; without any, other hosts that do.
    def _survivors(self, state: State) -> List[storage.Host]:
        ours = [host for host in self._members.hosts if host.name not in state.lost_hosts]
        if ours:
            return ours
        others = [
            worker.registration
            for worker in self._client.workers()
            if worker.alive and worker.registration.host not in state.lost_hosts
        ]
        if not others:
            raise NotCovered(f"{state.name}: no host but {', '.join(state.lost_hosts)} is attached")
        return [
            storage.Host(each.host, tuple(device.id for device in each.devices)) for each in others
        ]

    # Of a DEGRADED save, arrays that the targets do not name go to `host`: they may lie on devices
    # that are lost.
    def _move(self, state: State, targets: reshard_pb2.Targets, host=None) -> Moved:
        degraded = state.phase == "DEGRADED"
        if degraded:
            named = {array.name for array in targets.arrays}
            home = (host or self._survivors(state)[0]).devices[0]
            for array in state.proto.spec.arrays:
                if array.name not in named:
                    everything = sharding_pb2.Sharding(hlo_text="{replicated}")
                    everything.devices.ids.append(home)
                    targets.arrays.add(name=array.name, sharding=everything)
        move = state.reshard(targets, lose_absent_hosts=degraded, timeout=_MOVE_SECONDS)
        return move.wait(_MOVE_SECONDS)

    # Leaves the extras where they are if this world's hosts hold them all
    # (True: they must be gathered). Else names them as wanted on every host.
    def _place_extras(
        self, state: State, targets: reshard_pb2.Targets, hosts: Sequence[storage.Host]
    ) -> bool:
        sharding, devices = _sharding_of(state.proto.spec, extras.ARRAY)
        holding = [host for host in hosts if set(host.devices).intersection(devices)]
        ours = {device for host in hosts for device in host.devices}
        if state.phase == "READY" and ours.issuperset(devices):
            everywhere = sharding.hlo_text == "{replicated}" and len(holding) == len(hosts)
            return not everywhere
        kind = "unpinned_host" if any(host.has_gpus for host in hosts) else ""
        ids = [host.devices[0] for host in hosts]
        targets.arrays.add(
            name=extras.ARRAY,
            sharding=sharding_pb2.Sharding(
                hlo_text="{replicated}", devices=sharding_pb2.DeviceList(ids=ids), memory_kind=kind
            ),
        )
        return False

    def _described(self, moved, state: State, passed: List[str]) -> str:
        nothing = moved.generation == state.generation
        text = "nothing moved" if nothing else f"{moved.crossing_bytes} bytes crossed hosts"
        lost = f"; without {', '.join(state.lost_hosts)}" if state.lost_hosts else ""
        return text + lost + "".join(f"; not {each}" for each in passed)


# The fields of Described; None of no state.
def _fields_of(state: Optional[State]) -> Optional[Dict[str, Any]]:
    if state is None:
        return None
    arrays = [
        [array.name, array.element_type, list(array.shape)]
        for array in state.proto.spec.arrays
        if array.name != extras.ARRAY
    ]
    return dataclasses.asdict(Described(state.name, state.step, state.labels, arrays))


def matching(
    spec: state_pb2.StateSpec, wanted: Sequence[storage.Array], strict: bool
) -> List[storage.Array]:
    """The wanted arrays that the save has. StructureMismatch if strict and anything differs."""
    have = {
        array.name: _text(array.element_type, array.shape)
        for array in spec.arrays
        if array.name != extras.ARRAY
    }
    want = {array.name: _text(array.element_type, array.shape) for array in wanted}
    differences = [
        (name, have.get(name, ""), want.get(name, ""))
        for name in sorted({*have, *want})
        if have.get(name) != want.get(name)
    ]
    if strict and differences:
        raise StructureMismatch.of("the save and the tree differ", differences)
    return [array for array in wanted if have.get(array.name) == want[array.name]]


def uncovered(
    spec: state_pb2.StateSpec, lost_hosts: Sequence[str], devices_of: Dict[str, List[int]]
) -> str:
    """Names the first arrays of which every copy of some box is on lost hosts; "" if there is
    none."""
    lost = {device for host in lost_hosts for device in devices_of.get(host, [])}
    found = []
    for array in spec.arrays:
        sharding, devices = _sharding_of(spec, array.name)
        boxes = _boxes(sharding, devices, array.shape)
        held = {box for device, box in boxes if device not in lost}
        gone = sorted({box for device, box in boxes if device in lost} - held)
        if gone:
            lo, hi = gone[0]
            text = ",".join(f"{a}:{b}" for a, b in zip(lo, hi))
            found.append(
                f"{array.name}[{text}]"
                + (f" and {len(gone) - 1} more boxes" if len(gone) > 1 else "")
            )
    more = f" and of {len(found) - 5} more arrays" if len(found) > 5 else ""
    return ", ".join(found[:5]) + more


# The boxes of the forms that remesh.storage writes.
def _boxes(
    sharding: sharding_pb2.Sharding, devices: List[int], shape: Sequence[int]
) -> List[Tuple[int, tuple]]:
    if sharding.WhichOneof("form") == "boxes":
        return [
            (each.device, (tuple(box.lo), tuple(box.hi)))
            for each in sharding.boxes.devices
            for box in each.boxes
        ]
    grid = storage.form.grid_of_text(sharding.hlo_text, len(shape))
    copies = max(len(devices) // max(int(np.prod(grid)), 1), 1)
    tiles = [-(-extent // count) for extent, count in zip(shape, grid)]
    boxes = []
    for position, index in enumerate(np.ndindex(*grid)):
        lo = tuple(i * tile for i, tile in zip(index, tiles))
        hi = tuple(min(a + tile, extent) for a, tile, extent in zip(lo, tiles, shape))
        boxes += [
            (device, (lo, hi)) for device in devices[position * copies : (position + 1) * copies]
        ]
    return boxes


# An array's sharding, with references resolved, and its devices.
def _sharding_of(spec: state_pb2.StateSpec, name: str) -> Tuple[sharding_pb2.Sharding, List[int]]:
    sharding = next(array.sharding for array in spec.arrays if array.name == name)
    if sharding.WhichOneof("form") == "ref":
        sharding = spec.shardings[sharding.ref]
    if sharding.WhichOneof("form") == "boxes":
        return sharding, [each.device for each in sharding.boxes.devices]
    devices = sharding.devices
    if devices.WhichOneof("form") == "ref":
        devices = spec.device_lists[devices.ref]
    if devices.WhichOneof("form") == "range":
        return sharding, list(range(devices.range.start, devices.range.start + devices.range.count))
    return sharding, list(devices.ids)


def _text(element_type: str, shape: Sequence[int]) -> str:
    return f"{element_type}[{','.join(map(str, shape))}]"


# The rows in parts that one exchange takes; a row has at most 1 MiB.
def _parts(rows: Dict[int, bytes]) -> List[Dict[int, bytes]]:
    parts: List[Dict[int, bytes]] = []
    room = 0
    for row, content in rows.items():
        if not parts or len(content) > room:
            parts.append({})
            room = _PART_BYTES
        parts[-1][row] = content
        room -= len(content)
    return parts


def _pack(rows: Dict[int, bytes]) -> bytes:
    return b"".join(
        row.to_bytes(4, "little") + len(content).to_bytes(4, "little") + content
        for row, content in rows.items()
    )


def _unpack(data: bytes) -> Dict[int, bytes]:
    rows, at = {}, 0
    while at < len(data):
        row, length = (int.from_bytes(data[at + i : at + i + 4], "little") for i in (0, 4))
        rows[row] = data[at + 8 : at + 8 + length]
        at += 8 + length
    return rows


def _merged(sent: Sequence[bytes]) -> Dict[int, bytes]:
    rows: Dict[int, bytes] = {}
    for each in sent:
        rows.update(_unpack(each))
    return rows
