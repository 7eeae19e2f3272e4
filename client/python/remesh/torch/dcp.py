# SPDX-License-Identifier: Apache-2.0
"""remesh as a storage of torch.distributed.checkpoint (DCP).

    dcp.save(state_dict, storage_writer=job.writer(step))
    dcp.load(state_dict, storage_reader=job.reader())      # of any other world size or placements

DCP's plans say which boxes each process writes and reads. To DCP's load planner an array is one
chunk, so that it plans one read for each local shard: remesh plans the rest.
"""

import io
import math
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

import torch
from torch.distributed.checkpoint import StorageReader, StorageWriter
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
)
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from remesh import errors
from remesh import group as groups
from remesh.job import StructureMismatch, pieces
from remesh.torch import values
from remesh.torch.values import DTYPES, Held, Local

if TYPE_CHECKING:
    from remesh.torch import Job

CHECKPOINT_ID = "checkpoint-id"  # label of a state: what the caller of DCP named it
_LABEL_BYTES = 1024
_jobs: Dict[Tuple, "Job"] = {}  # of writers that came from another process


class Writer(StorageWriter):
    """Writes one save of a job. dcp.save() returns when it is committed. Every process raises what
    one of them met, within DCP's CheckpointException.

    Picklable, for dcp.async_save() by a process: there it opens the job once more, as a later
    world, and the job of the process that trains saves no more."""

    def __init__(self, job: "Job", step: int):
        self._job: Optional["Job"] = job
        self._step, self._checkpoint_id = step, ""
        self._origin = (job.name, tuple(job.settings.items()), job.socket)
        self._items: List[WriteItem] = []

    def __getstate__(self) -> Dict[str, Any]:
        return {"_step": self._step, "_checkpoint_id": self._checkpoint_id, "_origin": self._origin}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state, _job=None, _items=[])

    def reset(self, checkpoint_id: Any = None) -> None:
        """checkpoint_id: kept as a label of the state; None: none."""
        self._checkpoint_id = "" if checkpoint_id is None else str(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """ValueError for a save without collectives."""
        if kwargs.get("use_collectives") is False:
            raise ValueError(
                "use_collectives: value False must be True: a save's processes agree on one state"
            )
        if len(self._checkpoint_id.encode()) > _LABEL_BYTES:
            raise ValueError(f"checkpoint_id: must be at most {_LABEL_BYTES} bytes")
        if self._job is None:
            self._job = _opened(self._origin)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Keeps what this process holds, before DCP leaves each box to one of them."""
        if not plan.usable:
            raise ValueError("enable_plan_caching: value True must be False: remesh keeps its own")
        self._items = plan.items
        return plan

    def prepare_global_plan(self, plans: List[SavePlan]) -> List[SavePlan]:
        return plans

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> "Future[List[WriteResult]]":
        """The save, on all processes."""
        try:
            local: Any = values.local_of(self._items, planner)
        except Exception as error:  # pylint: disable=broad-exception-caught
            local = error
        labels = {CHECKPOINT_ID: self._checkpoint_id} if self._checkpoint_id else {}
        self._job.save_local(local, self._step, None, True, labels)
        return _done([_result(item) for item in plan.items])

    def finish(self, metadata: Metadata, results: List[List[WriteResult]]) -> None:
        """Nothing: the save has committed."""

    def storage_meta(self) -> StorageMeta:
        return StorageMeta(checkpoint_id=self._checkpoint_id or None)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Any id, for it is only a label."""
        return True


class Reader(StorageReader):
    """Reads one save of a job. DCP decides on names that the save lacks, or has beside those that
    are wanted: it reads what is wanted."""

    def __init__(self, job: "Job", step: Optional[int]):
        self._job, self._wanted_step = job, step
        self._types: Dict[str, str] = {}
        self._shapes: Dict[str, Tuple[int, ...]] = {}
        self._ties: Dict[str, str] = {}
        self.step: Optional[int] = step

    def reset(self, checkpoint_id: Any = None) -> None:
        """checkpoint_id: not looked at."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Of the save, on all processes. NotFound."""
        from remesh.torch import ties_of  # pylint: disable=import-outside-toplevel,cyclic-import

        newest = self._job.newest(self._wanted_step)
        if newest is None:
            raise errors.NotFound(f"job {self._job.name} has no such save")
        self.step, self._ties = newest.step, ties_of(newest.labels)
        self._types = {name: element_type for name, element_type, _ in newest.arrays}
        self._shapes = {name: tuple(shape) for name, _, shape in newest.arrays}
        known = _Known({name: self._metadata(name) for name in self._types})
        known.update({alias: self._metadata(name) for alias, name in self._ties.items()})
        return Metadata(state_dict_metadata=known)

    def _metadata(self, name: str) -> TensorStorageMetadata:
        size = torch.Size(self._shapes[name])
        whole = ChunkStorageMetadata(offsets=torch.Size([0] * len(size)), sizes=size)
        properties = TensorProperties(dtype=DTYPES[self._types[name]])
        return TensorStorageMetadata(properties=properties, size=size, chunks=[whole])

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *_: Any, **__: Any):
        """Nothing."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: List[LoadPlan]) -> List[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> "Future[None]":
        """The restore, on all processes."""
        from remesh.torch import opened  # pylint: disable=import-outside-toplevel,cyclic-import

        found = self._job.restore_local(self._held(plan), {}, self.step, False)
        with groups.together(self._job.group, "load: written"):
            _, saved = opened(found)
            self._check(plan, planner, saved, found)
            for item in plan.items:
                self._read_one(item, planner, saved, found)
        return _done(None)

    # What this process wants, by the names that the save has.
    def _held(self, plan: LoadPlan) -> Local:
        local = Local({}, {})
        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO or not math.prod(item.lengths):
                continue
            name = self._source(item)
            held = local.tensors.setdefault(name, Held(self._types[name], self._shapes[name], {}))
            held.parts[values.box_of(item.storage_offsets, item.lengths)] = torch.empty(0)
        return local

    # StructureMismatch before anything is written.
    def _check(self, plan: LoadPlan, planner: LoadPlanner, saved: Dict[str, bytes], found) -> None:
        absent = []
        for item in plan.items:
            name = self._source(item)
            is_value = item.type == LoadItemType.BYTE_IO
            if is_value and name not in saved and not _is_partial(planner):
                absent.append((name, "", "a value"))
            if not is_value and math.prod(item.lengths) and not found.shards.of(name):
                absent.append((name, "", "a tensor"))
        if absent:
            raise StructureMismatch.of(f"{found.save} and the state dict differ", absent)

    def _read_one(
        self, item: ReadItem, planner: LoadPlanner, saved: Dict[str, bytes], found
    ) -> None:
        name = self._source(item)
        if item.type == LoadItemType.BYTE_IO:
            if saved.get(name):
                planner.load_bytes(item, io.BytesIO(saved[name]))
            return
        target = planner.resolve_tensor(item).detach()
        if math.prod(item.lengths):
            box = values.box_of(item.storage_offsets, item.lengths)
            data = pieces.read(found.shards.with_box(name, box)[0], box)
            values.copy_into(target, data, DTYPES[self._types[name]])
        planner.commit_tensor(item, target)

    def _source(self, item: ReadItem) -> str:
        name = item.storage_index.fqn
        return self._ties.get(name, name)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Any id: it is not looked at."""
        return True


class _Known(dict):
    """Metadata by name. What the save has no tensor of is a value that DCP pickled, or missing,
    which is known only when the save's items have been read."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> BytesStorageMetadata:
        return BytesStorageMetadata()


def _is_partial(planner: LoadPlanner) -> bool:
    return bool(getattr(planner, "allow_partial_load", False))


def _opened(origin: Tuple) -> "Job":
    """The job of a writer that came from another process: opened once here."""
    from remesh import client  # pylint: disable=import-outside-toplevel
    from remesh.torch import Job  # pylint: disable=import-outside-toplevel,cyclic-import

    name, settings, socket = origin
    if origin not in _jobs:
        _jobs[origin] = Job(name, client=client.connect(socket), **dict(settings))
    return _jobs[origin]


def _result(item: WriteItem) -> WriteResult:
    return WriteResult(item.index, item.tensor_storage_size() or 0, None)


def _done(value: Any) -> Future:
    future: Future = Future()
    future.set_result(value)
    return future
