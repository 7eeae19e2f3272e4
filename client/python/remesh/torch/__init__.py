# SPDX-License-Identifier: Apache-2.0
"""PyTorch jobs that outlive their processes.

    dist.init_process_group()
    job = remesh.torch.Job("llama", every=200)     # $REMESH_SOCKET: the worker knows the rest
    found = job.load({"app": app})                 # in place; None: from the beginning
    for step in range(found.step if found else 0, steps):
        train(step)
        if job.should_save(step): job.save({"app": app}, step + 1)
    job.close()

values.py    what a process holds of a state dict
tables.py    who holds what: agreed by all
items.py     values that are no tensors
dcp.py       Writer and Reader, for who calls torch.distributed.checkpoint himself
"""

import dataclasses
import json
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple, Union

import torch.distributed as dist
from torch.distributed.checkpoint.stateful import Stateful

from remesh import group as groups
from remesh.buffers import Shard
from remesh.job import Core, Found, Piece, Save, StructureMismatch, pieces
from remesh.torch import dcp, items, values
from remesh.torch.tables import Table, Tables
from remesh.torch.values import DTYPES, Held, Local
from remesh.world_place import Place, present_place

__all__ = ["Job", "Restored"]
TIES = "torch-ties"  # label of a state: names of tensors that it has under another name


class _Restored(NamedTuple):
    step: int
    extras: List[Any]


class Restored(_Restored):
    """What load() found: (step, extras). extras: of every process of the world that saved, by its
    rank. save: its name. seconds: by phase."""

    save: str
    seconds: Dict[str, float]


class Job(Core):
    """A job whose state is a state dict, as torch.distributed.checkpoint (DCP) takes it: DTensors
    of any placements (FSDP2, tensor parallelism), also where they cut unevenly, ShardedTensors,
    tensors that every process has whole, values that DCP pickles, nested containers and Stateful
    objects. Tensors that are one in memory, such as tied weights, are saved once.

    A tensor that is no DTensor must be equal on all processes that have it, under one name. Values
    that are no tensors are saved by the first process that has them, within its `extra`: compressed
    they may take 1 MiB with it.

    See Core for its rules: all processes make the same calls, in the same order, in one thread."""

    def __init__(self, name: str, *, group: Optional[groups.Group] = None, **settings: Any):
        """group: None: all processes of torch.distributed if it is initialized, else those that the
        launcher started, as the server knows them; TorchGroup(): the same by gloo. settings: those
        of Core."""
        super().__init__(name, job_group=group, **settings)
        self.settings = settings
        self._saved = Tables(self._group, find_ties=True)
        self._wanted = Tables(self._group, find_ties=False)

    @property
    def group(self) -> groups.Group:
        """The processes of this world."""
        return self._group

    def save(
        self, state_dict: Mapping[str, Any], step: int, *, extra: Any = None, block: bool = False
    ) -> Save:
        """Saves the state dict as the state after `step` steps: see Core.save_pieces(). Returns
        when its tensors may be written again. Tensors of GPUs are copied through host memory.

        ProcessFailed names what cannot be saved, on all processes."""
        self._check_open()
        try:
            planner, planned = values.plan_of(values.plain(state_dict))
            local: Union[Local, Exception] = values.local_of(planned, planner)
            items.pack(extra, {})
        except Exception as error:  # pylint: disable=broad-exception-caught
            local = error
        return self.save_local(local, step, extra, block, {})

    def load(
        self, state_dict: Dict[str, Any], *, step: Optional[int] = None, strict: bool = True
    ) -> Optional[Restored]:
        """Writes the newest whole save, or that of `step`, into the tensors of the state dict, in
        place, as this world holds them; its other values are replaced, and Stateful objects get
        their state. None, and nothing changed, if the job has no save. See Core.restore_arrays().

        strict: StructureMismatch unless the save has exactly these names, shapes and types; False:
        what it does not have so stays as it is."""
        newest = self.newest(step)
        if newest is None:
            return None
        try:
            plain = values.plain(state_dict)
            planner, planned = values.plan_of(plain)
            held: Union[Local, Exception] = values.local_of(planned, planner)
        except Exception as error:  # pylint: disable=broad-exception-caught
            held = error
        ties = ties_of(newest.labels)
        found = self.restore_local(held, ties, newest.step, strict)
        with groups.together(self._group, "load: written"):
            restored, saved_items = opened(found)
            _check_items(held.items, saved_items, strict)
            _write_tensors(held, ties, found)
            for name in set(held.items).intersection(saved_items):
                if saved_items[name]:
                    values.put(plain, planner.mappings[name], values.loaded(saved_items[name]))
            _put_back(state_dict, plain)
        return restored

    def writer(self, step: int) -> "dcp.Writer":
        """For dcp.save(state_dict, storage_writer=...) and dcp.async_save() by a thread; a new one
        for each save, made by all processes. Later saves of the job use a group of their own, so
        that other calls of the job may be made while one runs."""
        if len(self._own_groups) == 1:
            self._use_group(self._server_group("writer"))
        return dcp.Writer(self, step)

    def reader(self, step: Optional[int] = None) -> "dcp.Reader":
        """For dcp.load(state_dict, storage_reader=...). step: None: the newest save."""
        return dcp.Reader(self, step)

    def save_local(
        self,
        local: Union[Local, Exception],
        step: int,
        extra: Any,
        block: bool,
        labels: Dict[str, str],
    ) -> Save:
        """save() of what this process holds, or of the error that it met."""
        table = self._saved.agree("save", local)
        owned = {
            name: item for name, item in local.items.items() if table.owners[name] == self.rank
        }
        if table.ties:
            labels = {**labels, TIES: json.dumps(table.ties)}
        return self.save_pieces(
            _pieces(local, table),
            step,
            extra=items.pack(extra, owned),
            block=block,
            labels=labels,
        )

    def restore_local(
        self, held: Union[Local, Exception], ties: Mapping[str, str], step: int, strict: bool
    ) -> Found:
        """The save of `step`, as far as this process holds its tensors. Raises the error that a
        process met."""
        renamed = held if isinstance(held, Exception) else held.renamed(ties)
        table = self._wanted.agree("load", renamed)
        return self.restore_arrays(list(table.arrays.values()), step=step, strict=strict)

    # Saves by another group from now on.
    def _use_group(self, group: groups.Group) -> None:
        self._saver.use_group(group)
        self._saved = Tables(group, find_ties=True)

    # torch.distributed may have been set up otherwise than by variables.
    def _place(self) -> Place:
        place = present_place()
        if not dist.is_initialized():
            return place
        return dataclasses.replace(place, rank=dist.get_rank(), size=dist.get_world_size())


def ties_of(labels: Mapping[str, str]) -> Dict[str, str]:
    """Names of tensors that a save has under another name."""
    return json.loads(labels.get(TIES, "{}"))


def opened(found: Found) -> Tuple[Restored, Dict[str, bytes]]:
    """What load() returns, and the items of all processes of the world that saved."""
    pairs = [items.unpack(extra) for extra in found.extras]
    restored = Restored(found.step, [extra for extra, _ in pairs])
    restored.save, restored.seconds = found.save, found.seconds
    return restored, {name: item for _, each in pairs for name, item in each.items()}


# Every array of the job, with the boxes that this process holds.
def _pieces(local: Local, table: Table) -> List[Piece]:
    result = []
    for name, array in table.arrays.items():
        parts = local.tensors[name].parts if name in local.tensors else {}
        result.append(
            Piece(array, list(parts), lambda box, parts=parts: values.content(parts[box]))
        )
    return result


def _write_tensors(held: Local, ties: Mapping[str, str], found: Found) -> None:
    for name, tensor in held.tensors.items():
        source = ties.get(name, name)
        if not _is_alike(found.shards.of(source), tensor):
            continue
        for box, part in tensor.parts.items():
            data = pieces.read(found.shards.with_box(source, box)[0], box)
            values.copy_into(part, data, DTYPES[tensor.element_type])


# Whether the save has it with the same type and shape: of what it has
# otherwise, the move left the shards where they were.
def _is_alike(shards: List[Shard], tensor: Held) -> bool:
    if not shards:
        return False
    info = shards[0].info
    return (info.element_type, tuple(info.shape)) == (tensor.element_type, tensor.shape)


def _check_items(have: Mapping[str, Any], saved: Mapping[str, Any], strict: bool) -> None:
    differences = sorted(set(have).symmetric_difference(saved)) if strict else []
    if differences:
        raise StructureMismatch.of(
            "the save and the state dict differ in values that are no tensors",
            [
                (name, "a value" if name in saved else "", "a value" if name in have else "")
                for name in differences
            ],
        )


# As DCP does.
def _put_back(state_dict: Dict[str, Any], loaded: Mapping[str, Any]) -> None:
    for key, value in loaded.items():
        if isinstance(state_dict[key], Stateful):
            state_dict[key].load_state_dict(value)
        else:
            state_dict[key] = value
