# SPDX-License-Identifier: Apache-2.0
"""What all processes of a world agree on: the utilities of jax.experimental.multihost_utils, exact
and with errors that say who.

    remesh.coordination.barrier("the data is there")
    config = remesh.coordination.broadcast_one_to_all(config)

The first parameters are those of JAX. They are no collective operations of devices: values arrive
bit by bit, and a process that does not come, or comes with something else, is named to all. All
processes make the same calls in the same order, from one thread. docs/training.md has a table of
what differs from JAX.

group: who the processes are; None: those of use() or join(), else of jax.distributed or
torch.distributed, whichever is initialized, else this process alone.
"""

import atexit
import json
import math
import struct
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from remesh import client as clients
from remesh import errors, names, trees
from remesh import group as groups
from remesh.group import Group, exchange
from remesh.job.leaving import Decision, GroupNotice, Notice
from remesh.job.server_notice import ServerNotice
from remesh.local_group import LocalGroup
from remesh.server_group import ServerGroup

MOST_BYTES = 64 << 20  # that a call moves, those of all processes together
_ROUND_BYTES = 1 << 20  # of one exchange, those of all processes together
_SENT_BYTES = 1 << 30  # of one exchange, to all processes together
_COUNT = struct.Struct("<q")
_POLL_STEPS = 10

_used: Optional[Group] = None
_found: Dict[str, Group] = {}  # by framework
_preemptions: Dict[Group, Tuple[Notice, Decision]] = {}


def use(group: Optional[Group]) -> None:
    """The group of later calls. None: as it was before the first use(). What has noticed SIGTERM
    for earlier groups ends."""
    global _used  # pylint: disable=global-statement
    _used = group
    for notice, _ in _preemptions.values():
        notice.close()
    _preemptions.clear()


def join(job: str, *, deadline: float = 300.0, forming: float = 300.0) -> ServerGroup:
    """Makes the processes that `remesh launch`, torchrun or another launcher started the group of
    later calls, as the server knows them: world jobs/JOB/worlds/coordination. It needs no
    framework, and may come before jax.distributed.initialize(). Returns the group, which leaves its
    world at exit. deadline: of each call. forming: seconds until all have come. Errors are those of
    remesh.connect() and ServerGroup."""
    client = clients.connect()
    group = ServerGroup(
        f"{names.job_name(names.check_job(job))}/worlds/coordination",
        client.channel,
        deadline=deadline,
        forming=forming,
        host=client.host.name,
    )
    atexit.register(client.close)
    atexit.register(group.close)  # before the client
    use(group)
    return group


def barrier(name: str, deadline: Optional[float] = None, *, group: Optional[Group] = None) -> None:
    """Returns when every process has called it with this name. deadline: seconds; None: that of the
    group. BarrierTimeout names who is absent, NameMismatch who is at another call, MemberLost who
    has left."""
    seconds = () if deadline is None else (deadline,)
    _group(group).barrier(name, *seconds)


def sync_global_devices(
    name: str, *, deadline: Optional[float] = None, group: Optional[Group] = None
) -> None:
    """barrier(), by JAX's name. It does not wait for devices."""
    barrier(name, deadline, group=group)


def broadcast_one_to_all(
    in_tree: Any, is_source: Optional[bool] = None, *, group: Optional[Group] = None
) -> Any:
    """The tree of one process, on all: that for which is_source is true; by default process 0. Its
    leaves are NumPy arrays, or torch's tensors on the CPU where they were such.

    SourceCount, StructureMismatch, TooLarge; TypeError (as ProcessFailed on the others) for a leaf
    that is no array of numbers."""
    members = _group(group)
    tree = _common(members, "broadcast_one_to_all", in_tree, _refuse_global)
    mine = members.rank == 0 if is_source is None else bool(is_source)
    answer = exchange(members, "broadcast_one_to_all: source", bytes([mine]), _only_source)
    source = _COUNT.unpack(answer)[0]
    _check_size("broadcast_one_to_all", tree, sum(leaf.bytes for leaf in tree.leaves))
    data = b"".join(leaf.data.tobytes() for leaf in tree.leaves)
    received = bytearray()
    for begin in range(0, len(data), _round_bytes(members)):
        piece = data[begin : begin + _round_bytes(members)]
        received += members.broadcast("broadcast_one_to_all: data", piece, source)
    return tree.rebuild(_made(tree.leaves, bytes(received)))


def process_allgather(in_tree: Any, tiled: bool = False, *, group: Optional[Group] = None) -> Any:
    """The trees of all processes: each leaf has those of all by rank, along a new axis 0; tiled:
    one after the other along the axis 0 that they have. Numbers without axes always get one. An
    array that is spread over several processes becomes the whole array (tiled only). Leaves are
    returned as broadcast_one_to_all() does; its errors, too."""
    members = _group(group)

    def check(tree: trees.Tree) -> None:
        for leaf in tree.leaves:
            if leaf.is_global and not tiled:
                raise ValueError(f"{leaf.name}: an array over several processes needs tiled=True")

    tree = _common(members, f"process_allgather(tiled={bool(tiled)})", in_tree, check)
    total = sum(leaf.bytes * (1 if leaf.is_global else members.size) for leaf in tree.leaves)
    _check_size("process_allgather", tree, total)
    boxes = json.dumps([[box for box, _ in leaf.parts] for leaf in tree.leaves if leaf.is_global])
    held = [json.loads(each) for each in _gather(members, boxes.encode())]
    data = _gather(members, b"".join(part for leaf in tree.leaves for _, part in leaf.parts))
    readers = [_Reader(each) for each in data]
    where = [iter(each) for each in held]
    leaves = []
    for leaf in tree.leaves:
        if leaf.is_global:
            leaves.append(_assembled(leaf, [next(each) for each in where], readers))
        else:
            joined = np.concatenate([reader.take(leaf.bytes) for reader in readers])
            leaves.append(leaf.make(joined, _gathered_shape(leaf.shape, members.size, tiled)))
    return tree.rebuild(leaves)


def assert_equal(
    in_tree: Any, fail_message: str = "", *, compare: str = "bits", group: Optional[Group] = None
) -> None:
    """Returns if the trees of all processes are equal, or all raise ValuesDiffer, an AssertionError
    that names the first leaf that differs and who has the same. compare: "bits", or "numpy": as
    np.equal, by which -0 is 0 and NaN equals nothing. StructureMismatch; of arrays over several
    processes each compares what it holds of the whole: they must be replicated."""
    if compare not in ("bits", "numpy"):
        raise ValueError(f"compare: value {compare!r} must be 'bits' or 'numpy'")
    members = _group(group)
    what = fail_message or "assert_equal"

    def check(tree: trees.Tree) -> None:
        _refuse_global(tree)
        if compare == "numpy":
            _refuse_nan(what, tree)

    tree = _common(members, f"assert_equal(compare={compare!r})", in_tree, check)
    digests = [groups.digest(_plain(leaf, compare)) for leaf in tree.leaves]

    def refuse(ranks: List[List[int]], described: Dict[int, bytes]) -> None:
        differ = [
            at
            for at in range(len(digests))
            if len({each[32 * at : 32 * at + 32] for each in described.values()}) > 1
        ]
        named = f"{tree.leaves[differ[0]].name} ({tree.leaves[differ[0]]})"
        raise errors.ValuesDiffer(
            f"{what}: {len(differ)} of {len(digests)} leaves differ, the first is {named}: "
            f"processes {groups.show_groups(ranks)}"
        )

    joined = b"".join(digests)
    groups.compare(members, "assert_equal: values", joined, lambda: joined, refuse)


def reached_preemption_sync_point(step_id: int, *, group: Optional[Group] = None) -> bool:
    """Whether all processes are at the step at which they save, because one of them got SIGTERM:
    True on all at the same step, one above that at which they learned of it, and at later ones. All
    ask at every step. False without a world. PreemptionNotSetUp, a RuntimeError, if a process
    cannot notice SIGTERM: its first call must be in the main thread. NameMismatch names those who
    ask about other steps; BarrierTimeout those who do not ask."""
    members = _world(group)
    if members is None:
        return False
    if members not in _preemptions:
        notice = _notice(members)
        _preemptions[members] = (notice, Decision(notice))
        _preemptions[members][1].start()
    return _preemptions[members][1].at(int(step_id)) is not None


def global_axis_size(n: int, *, group: Optional[Group] = None) -> int:
    """The size of an axis of which each process has n elements, as jax.pmap over all processes sees
    it. Processes may have different numbers."""
    add = lambda payloads: _COUNT.pack(sum(_COUNT.unpack(each)[0] for each in payloads))
    return _COUNT.unpack(exchange(_group(group), "global_axis_size", _COUNT.pack(n), add))[0]


def _group(given: Optional[Group]) -> Group:
    """See the module's comment."""
    return _world(given) or LocalGroup.make(1)[0]


def _world(given: Optional[Group]) -> Optional[Group]:
    """None: there is none."""
    if given is not None or _used is not None:
        return given if given is not None else _used
    jax, torch = sys.modules.get("jax"), sys.modules.get("torch")
    if jax is not None and jax.distributed.is_initialized():
        from remesh.jax_group import JaxGroup  # pylint: disable=import-outside-toplevel

        return _found.setdefault("jax", _found.get("jax") or JaxGroup())
    if (
        torch is not None
        and torch.distributed.is_available()
        and torch.distributed.is_initialized()
    ):
        from remesh.torch_group import TorchGroup  # pylint: disable=import-outside-toplevel

        return _found.setdefault("torch", _found.get("torch") or TorchGroup())
    return None


def _common(
    members: Group, call: str, in_tree: Any, check: Callable[[trees.Tree], None]
) -> trees.Tree:
    """The tree, if those of all processes have equal containers, names, types and shapes, and
    check() raises on none."""
    tree: Any = None
    try:
        tree = trees.of(in_tree)
        check(tree)
        payload: groups.Payload = tree.description()
    except Exception as error:  # pylint: disable=broad-exception-caught
        payload = error
    refuse = lambda ranks, described: _refuse_structures(call, ranks, described)
    groups.compare(members, call, payload, lambda: tree.description(), refuse)
    return tree


def _refuse_structures(call: str, ranks: List[List[int]], described: Dict[int, bytes]) -> None:
    (first, ours), (second, theirs) = [
        (rank, json.loads(each)) for rank, each in described.items()
    ][:2]
    mine, other = ({name: shown for name, shown, _ in each[1]} for each in (ours, theirs))
    differ = [name for name in {**mine, **other} if mine.get(name) != other.get(name)]
    have = [
        f"process {first} has the containers {ours[0][:200]}, process {second} {theirs[0][:200]}"
    ]
    if differ:
        name = differ[0]
        shown = [each.get(name, "no such leaf") for each in (mine, other)]
        have = [f"{name}: process {first} has {shown[0]}, process {second} has {shown[1]}"]
    raise errors.StructureMismatch(
        f"{call}: the trees of processes {groups.show_groups(ranks)} differ: {have[0]}"
    )


def _refuse_global(tree: trees.Tree) -> None:
    for leaf in tree.leaves:
        if leaf.is_global:
            raise ValueError(
                f"{leaf.name}: an array over several processes must be replicated, or be gathered "
                "by process_allgather(tiled=True)"
            )


def _refuse_nan(what: str, tree: trees.Tree) -> None:
    for leaf in tree.leaves:
        if np.isnan(_numbers(leaf)).any():
            raise errors.ValuesDiffer(
                f"{what}: {leaf.name} ({leaf}) has a NaN, which equals nothing"
            )


def _plain(leaf: trees.Leaf, compare: str) -> memoryview:
    """Equal for leaves that are equal."""
    if compare == "bits" or leaf.wide is None:
        return leaf.data.data
    return (_numbers(leaf) + 0.0).data  # -0 + 0 is 0


def _numbers(leaf: trees.Leaf) -> np.ndarray:
    """Floats as f64, complex numbers as pairs of them; of other types none."""
    if leaf.wide is None:
        return np.zeros(0)
    values = leaf.wide(leaf.data)
    return values.view(np.float64) if values.dtype.kind == "c" else values


def _only_source(payloads: List[bytes]) -> bytes:
    sources = [rank for rank, each in enumerate(payloads) if each == b"\x01"]
    if len(sources) == 1:
        return _COUNT.pack(sources[0])
    who = f"processes {groups.show_groups([sources])} are" if sources else "no process is"
    raise errors.SourceCount(f"is_source: must be true on one process: {who} the source")


def _check_size(call: str, tree: trees.Tree, total: int) -> None:
    """Of equal trees: raises on all or none."""
    if total > MOST_BYTES:
        largest = max(tree.leaves, key=lambda leaf: leaf.bytes)
        raise errors.TooLarge(
            f"{call}: {total} bytes are more than the {MOST_BYTES} that processes may exchange "
            f"(the largest leaf is {largest.name}, {largest}): move arrays of devices by "
            "jax.reshard"
        )


def _round_bytes(members: Group) -> int:
    return max(min(_ROUND_BYTES, _SENT_BYTES // members.size), 1)


def _gather(members: Group, mine: bytes) -> List[bytes]:
    """The bytes of all processes, by rank."""
    sizes = exchange(members, "process_allgather: sizes", _COUNT.pack(len(mine)), b"".join)
    counts = [count for (count,) in _COUNT.iter_unpack(sizes)]
    step = max(_round_bytes(members) // members.size, 1)
    found = [bytearray() for _ in counts]
    for begin in range(0, max(counts), step):
        joined = exchange(members, "process_allgather: data", mine[begin : begin + step], b"".join)
        reader = _Reader(joined)
        for rank, count in enumerate(counts):
            found[rank] += reader.take(min(max(count - begin, 0), step)).tobytes()
    return [bytes(each) for each in found]


class _Reader:
    """Takes bytes one after the other."""

    def __init__(self, data: bytes):
        self._data, self._at = np.frombuffer(data, np.uint8), 0

    def take(self, count: int) -> np.ndarray:
        """The next bytes."""
        self._at += count
        return self._data[self._at - count : self._at]


def _made(leaves: Sequence[trees.Leaf], data: bytes) -> List[Any]:
    reader = _Reader(data)
    return [leaf.make(reader.take(leaf.bytes), leaf.shape) for leaf in leaves]


def _gathered_shape(shape: Sequence[int], size: int, tiled: bool) -> Tuple[int, ...]:
    return (size * shape[0], *shape[1:]) if tiled and shape else (size, *shape)


def _assembled(leaf: trees.Leaf, held: Sequence[Any], readers: Sequence[_Reader]) -> Any:
    """A whole array from the boxes that each process held."""
    whole = np.zeros((*leaf.shape, leaf.item_bytes), np.uint8)
    for boxes, reader in zip(held, readers):
        for lo, hi in boxes:
            extent = [end - begin for begin, end in zip(lo, hi)]
            part = reader.take(math.prod(extent) * leaf.item_bytes)
            where = tuple(slice(begin, end) for begin, end in zip(lo, hi))
            whole[where] = part.reshape(*extent, leaf.item_bytes)
    return leaf.make(whole.reshape(-1), leaf.shape)


def _notice(members: Group) -> Notice:
    """Of SIGTERM, set up by all processes together."""
    if members is _found.get("jax"):
        from remesh.jax.notice import JaxNotice  # pylint: disable=import-outside-toplevel

        if JaxNotice.is_available():
            return JaxNotice(members)
    of_server = isinstance(members, ServerGroup)
    notice = ServerNotice(members) if of_server else GroupNotice(members, _POLL_STEPS)
    with groups.together(members, "reached_preemption_sync_point: set up"):
        if not notice.listen():
            raise errors.PreemptionNotSetUp(
                "SIGTERM is not noticed: call reached_preemption_sync_point() in the main thread "
                "first"
            )
    return notice
