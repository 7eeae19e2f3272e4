# SPDX-License-Identifier: Apache-2.0
"""Who holds what: every process tells of its tensors, and all learn of everyone's.

A structure that is equal to the one before costs an exchange of digests alone."""

import collections
import dataclasses
import hashlib
import json
import zlib
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple, Union

from remesh import group, storage
from remesh.job.errors import StructureMismatch
from remesh.torch.values import Local

_KNOWN, _UNKNOWN = b"=", b"?"
TIES_BYTES = 1000  # what fits into a label of a state


@dataclasses.dataclass(frozen=True)
class Table:
    """arrays: of the whole job, by name. ties: names of tensors that are saved under another one.
    owners: the process that saves an item, by name."""

    arrays: Dict[str, storage.Array]
    ties: Dict[str, str]
    owners: Dict[str, int]

    @staticmethod
    def of(merged: Dict[str, Any]) -> "Table":
        """From merge(). Arrays of a class share their Holders."""
        holders = [storage.Holders.of(shape, entries) for shape, entries in merged["classes"]]
        arrays = {
            name: storage.Array(name, element_type, holders[class_])
            for name, element_type, class_ in merged["arrays"]
        }
        return Table(arrays, merged["ties"], merged["owners"])


class Tables:
    """Agrees on tables. For the thread that owns the group."""

    def __init__(self, job_group: group.Group, find_ties: bool):
        """find_ties: whether tensors that are one in memory become one array."""
        self._group, self._find_ties = job_group, find_ties
        self._digests: Optional[List[bytes]] = None  # on process 0: those of the table
        self._asked: Optional[List[bytes]] = None
        self._table: Optional[Table] = None

    def agree(self, name: str, local: Union[Local, Exception]) -> Table:
        """All processes pass what they hold, or the error that they met, which all raise."""
        message = local if isinstance(local, Exception) else _packed(local.table(self._find_ties))
        digest = message if isinstance(message, Exception) else hashlib.sha256(message).digest()
        known = group.exchange(self._group, f"{name}: digests", digest, self._compare)
        if known == _UNKNOWN:
            self._digests = self._table = None
            merged = group.exchange(self._group, f"{name}: tables", message, _merged)
            self._table = Table.of(_unpacked(merged))
            self._digests = self._asked
        return self._table

    # On process 0.
    def _compare(self, digests: List[bytes]) -> bytes:
        self._asked = digests
        return _KNOWN if digests == self._digests else _UNKNOWN


def merge(tables: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
    """The job's table from those of the processes, by rank. StructureMismatch."""
    columns, types = _columns(tables)
    classes: Dict[Tuple, int] = {}
    merged: Dict[str, Any] = {"classes": [], "arrays": [], "ties": {}, "owners": {}}
    ties = _ties(tables)
    for name, column in sorted(columns.items()):
        if name in ties:
            merged["ties"][name] = ties[name]
            continue
        key = tuple(column)
        if key not in classes:
            classes[key] = len(classes)
            merged["classes"].append(_entries(name, column, tables))
        merged["arrays"].append([name, types[name], classes[key]])
    for process, table in enumerate(tables):
        for item in table["items"]:
            merged["owners"].setdefault(item, process)
    return merged


# Of each array (process, its class there), and its type.
def _columns(tables) -> Tuple[Dict[str, List[Tuple[int, int]]], Dict[str, str]]:
    columns: Dict[str, List[Tuple[int, int]]] = collections.defaultdict(list)
    types: Dict[str, str] = {}
    for process, table in enumerate(tables):
        for name, element_type, class_ in table["arrays"]:
            if types.setdefault(name, element_type) != element_type:
                raise StructureMismatch(
                    f"{name}: process {process} has type {element_type}, others {types[name]}",
                    process=process,
                )
            columns[name].append((process, class_))
    return columns, types


# [shape, (process, lo, hi) of each entry] of an array.
def _entries(name: str, column: List[Tuple[int, int]], tables) -> List[Any]:
    shape, entries = None, []
    for process, class_ in column:
        own_shape, boxes = json.loads(tables[process]["classes"][class_])
        if shape not in (None, own_shape):
            raise StructureMismatch(
                f"{name}: process {process} has shape {own_shape}, others {shape}", process=process
            )
        shape = own_shape
        entries += [(process, lo, hi) for lo, hi in boxes]
    if not entries:
        raise StructureMismatch(f"{name}: no process holds any of it")
    return [shape, entries]


# Tensors that are one in memory with another on every process that holds either.
def _ties(tables) -> Dict[str, str]:
    said: Dict[str, Set[str]] = collections.defaultdict(set)
    holding: Dict[str, Set[int]] = collections.defaultdict(set)
    tied_on: Dict[str, Set[int]] = collections.defaultdict(set)
    for process, table in enumerate(tables):
        full = [bool(json.loads(each)[1]) for each in table["classes"]]
        for name, _, class_ in table["arrays"]:
            if full[class_]:
                holding[name].add(process)
        for name, first in table["tied"].items():
            said[name].add(first)
            tied_on[name].add(process)
    ties = {}
    for name, firsts in said.items():
        first = min(firsts)
        if len(firsts) == 1 and tied_on[name] == holding[name] == holding[first]:
            ties[name] = first
    return ties if len(json.dumps(ties)) <= TIES_BYTES else {}


def _packed(table: Dict[str, Any]) -> bytes:
    return zlib.compress(json.dumps(table).encode(), 1)


def _unpacked(data: bytes) -> Dict[str, Any]:
    return json.loads(zlib.decompress(data))


def _merged(sent: List[bytes]) -> bytes:
    return _packed(merge([_unpacked(each) for each in sent]))
