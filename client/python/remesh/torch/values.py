# SPDX-License-Identifier: Apache-2.0
"""What a process holds of a state dict, as torch.distributed.checkpoint (DCP) plans it.

DTensor, ShardedTensor    the boxes of this process's shards, whatever the placements
any other tensor          whole
other values              items: bytes, as DCP pickles them
"""

import dataclasses
import io
import json
import math
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import torch
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.planner import SavePlanner, WriteItem, WriteItemType
from torch.distributed.checkpoint.stateful import Stateful

from remesh.job.pieces import Interval

ELEMENT_TYPES = {
    torch.bool: "pred",
    torch.uint8: "u8",
    torch.int8: "s8",
    torch.int16: "s16",
    torch.int32: "s32",
    torch.int64: "s64",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.complex64: "c64",
    torch.complex128: "c128",
    torch.float8_e4m3fn: "f8e4m3fn",
    torch.float8_e4m3fnuz: "f8e4m3fnuz",
    torch.float8_e5m2: "f8e5m2",
    torch.float8_e5m2fnuz: "f8e5m2fnuz",
}
DTYPES = {name: dtype for dtype, name in ELEMENT_TYPES.items()}


@dataclasses.dataclass
class Held:
    """A tensor of the whole job: the boxes that this process holds, each with its local tensor."""

    element_type: str
    shape: Tuple[int, ...]
    parts: Dict[Interval, torch.Tensor]

    def memory(self) -> Optional[Tuple]:
        """Equal for two tensors that are one in memory; None if this process holds nothing."""
        places = [
            (box, part.untyped_storage().data_ptr(), part.storage_offset(), part.stride())
            for box, part in self.parts.items()
        ]
        return (self.element_type, self.shape, *places) if places else None


@dataclasses.dataclass
class Local:
    """What this process holds. items: of values that are no tensors."""

    tensors: Dict[str, Held]
    items: Dict[str, bytes]

    def renamed(self, names: Mapping[str, str]) -> "Local":
        """Under other names: tensors that get one name are one, with the boxes of both."""
        merged: Dict[str, Held] = {}
        for name, held in self.tensors.items():
            into = merged.setdefault(names.get(name, name), Held(held.element_type, held.shape, {}))
            into.parts.update(held.parts)
        return Local(merged, self.items)

    def table(self, find_ties: bool) -> Dict[str, Any]:
        """For the other processes (tables.py): tensors with equal boxes share a class."""
        classes: Dict[str, int] = {}
        arrays, first, tied = [], {}, {}
        for name, held in sorted(self.tensors.items()):
            key = json.dumps([held.shape, sorted(held.parts)])
            arrays.append([name, held.element_type, classes.setdefault(key, len(classes))])
            memory = held.memory() if find_ties else None
            if memory is not None and first.setdefault(memory, name) != name:
                tied[name] = first[memory]
        items = sorted(self.items)
        return {"classes": list(classes), "arrays": arrays, "tied": tied, "items": items}


def plain(state_dict: Mapping[str, Any]) -> Dict[str, Any]:
    """Stateful objects replaced by their state."""
    return {
        key: value.state_dict() if isinstance(value, Stateful) else value
        for key, value in state_dict.items()
    }


def plan_of(state_dict: Mapping[str, Any]) -> Tuple[DefaultSavePlanner, List[WriteItem]]:
    """DCP's own plan of what this process holds, nested containers flattened."""
    planner = DefaultSavePlanner()
    planner.set_up_planner(dict(state_dict))
    return planner, planner.create_local_plan().items


def local_of(items: Iterable[WriteItem], planner: SavePlanner) -> Local:
    """TypeError names a tensor that cannot be saved. An empty tensor is an item without
    bytes."""
    local = Local({}, {})
    for item in items:
        name = item.index.fqn
        if item.type == WriteItemType.BYTE_IO:
            local.items[name] = planner.resolve_data(item).getvalue()
            continue
        data = item.tensor_data
        if not math.prod(data.size):
            local.items[name] = b""
            continue
        held = local.tensors.setdefault(
            name, Held(element_type(name, data.properties.dtype), tuple(data.size), {})
        )
        box = box_of(data.chunk.offsets, data.chunk.sizes)
        if math.prod(data.chunk.sizes):
            held.parts[box] = _checked(name, planner.resolve_data(item))
    return local


def element_type(name: str, dtype: torch.dtype) -> str:
    """XLA's name. TypeError names the tensor."""
    if dtype not in ELEMENT_TYPES:
        raise TypeError(f"{name}: tensors of {dtype} cannot be saved")
    return ELEMENT_TYPES[dtype]


def box_of(offsets: Sequence[int], sizes: Sequence[int]) -> Interval:
    """From DCP's form."""
    return tuple(offsets), tuple(a + b for a, b in zip(offsets, sizes))


def content(tensor: torch.Tensor) -> np.ndarray:
    """The elements' bytes, row-major: without a copy on the CPU, if they lie so. Of other devices
    through memory of the host (which no test of ours has run)."""
    host = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    return host.reshape(-1).view(torch.uint8).numpy()


def copy_into(tensor: torch.Tensor, data: np.ndarray, dtype: torch.dtype) -> None:
    """Writes elements of `dtype` (their bytes, row-major) into the tensor, in place."""
    target = tensor.detach()
    if target.device.type == "cpu" and target.is_contiguous() and target.dtype == dtype:
        target.reshape(-1).view(torch.uint8).numpy()[:] = data
        return
    staged = torch.empty(tuple(target.shape), dtype=dtype)
    staged.reshape(-1).view(torch.uint8).numpy()[:] = data
    target.copy_(staged)


def loaded(item: bytes) -> Any:
    """The value that DCP pickled."""
    return torch.load(io.BytesIO(item), weights_only=False)


def put(container: Any, path: Sequence[Any], value: Any) -> None:
    """Replaces the value at a path of keys and indices."""
    for key in path[:-1]:
        container = container[key]
    container[path[-1]] = value


def _checked(name: str, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise TypeError(f"{name}: {tensor.layout} and quantized tensors cannot be saved")
    if tensor.device.type == "meta":
        raise TypeError(f"{name}: a tensor on the device meta has no values; use to_empty() first")
    return tensor
