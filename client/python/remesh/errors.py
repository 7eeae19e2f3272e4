# SPDX-License-Identifier: Apache-2.0
"""What calls raise: one class for each thing that a caller can act on, chosen by the reason that
the server or worker gave.

    try:
        state.reshard(targets)
    except errors.NotReady as error:
        print(error.lost_hosts)

Every error is a RemeshError: `code` is gRPC's name of the code, `reason` is stable and in upper
case, `metadata` holds every value that the message names, `further` what else is wrong with the
arguments. Its text is one line. describe() and its like, from refusals.py, are for users of the
stubs and of Trainer.
"""

import json
from typing import Any, ClassVar, Dict, Iterable, List, Mapping, Optional, Tuple, Type

import grpc
from google.rpc import status_pb2

from remesh.refusals import (  # some for users of this module alone
    MOST_FURTHER,
    add_tls_hint,
    code_name,
    describe,
    describe_status,
    details_of,
    error_info,
    further_of,
    info_of,
    line_of,
    tls_hint,
)

_MESSAGE_BYTES = 4096  # of an error that is sent to other processes
_MOST_NAMES = 20  # of arrays, in an error


class RemeshError(Exception):
    """Any error of this package, and one whose reason has no class of its own."""

    # Reasons of the server and worker that the class stands for, and codes: of errors whose reason
    # no class stands for.
    reasons: ClassVar[Tuple[str, ...]] = ()
    codes: ClassVar[Tuple[str, ...]] = ()
    default_code: ClassVar[str] = "FAILED_PRECONDITION"

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        reason: str = "",
        metadata: Optional[Mapping[str, str]] = None,
        process: Optional[int] = None,
        further: Iterable[str] = (),
    ):
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.reason = reason or (self.reasons[0] if self.reasons else self.code)
        self.metadata: Dict[str, str] = dict(metadata or {})
        # Of the group, if the error was exchanged: where it happened.
        self.process = process
        # "FIELD: what is wrong with it", of mistakes that do not depend on the first.
        self.further: List[str] = list(further)[:MOST_FURTHER]

    def __str__(self) -> str:
        where = "" if self.process is None else f"process {self.process}: "
        return where + line_of(self.code, self.message, self.reason, self.metadata, self.further)

    def __reduce__(self):
        return _from_fields, (self.to_fields(),)

    def to_fields(self) -> Dict[str, Any]:
        """What from_fields() needs to make an equal error, in another process too."""
        return {
            "kind": type(self).__name__,
            "message": self.message,
            "code": self.code,
            "reason": self.reason,
            "metadata": self.metadata,
            "process": self.process,
            "further": self.further,
        }

    def _names(self, key: str) -> List[str]:
        """The names in a value of the metadata that joins them by commas."""
        return [name.strip() for name in self.metadata.get(key, "").split(",") if name.strip()]

    def _number(self, key: str) -> Optional[int]:
        value = self.metadata.get(key, "")
        return int(value) if value.lstrip("-").isdigit() else None


class StateMoving(RemeshError):
    """Another execution moves the state, or is about to."""

    reasons = ("STATE_MOVING",)

    @property
    def execution(self) -> str:
        """Its name; "" if it has none yet."""
        return self.metadata.get("execution", "")


class GenerationMismatch(RemeshError):
    """The state is at another generation than the caller believes."""

    reasons = ("GENERATION_MISMATCH",)

    @property
    def generation(self) -> Optional[int]:
        """The state's generation."""
        return self._number("generation")


class NotReady(RemeshError):
    """The state cannot be moved: hosts are away, or have not sealed all of their shards."""

    reasons = ("STATE_NOT_READY",)

    @property
    def phase(self) -> str:
        """The state's phase, such as "BUILDING"."""
        return self.metadata.get("phase", "")

    @property
    def lost_hosts(self) -> List[str]:
        """Hosts that are away, or back without their shards."""
        return self._names("lost_hosts")

    @property
    def unsealed_hosts(self) -> List[str]:
        """Hosts that have not sealed all of their shards."""
        return self._names("unsealed_hosts")


class StateReplaced(RemeshError):
    """The name belongs to another state by now: the one that the caller knows was deleted, and
    another one created."""

    reasons = ("STATE_REPLACED",)


class StateCommitted(RemeshError):
    """The state is written: its content, step and labels no longer change."""

    reasons = ("STATE_COMMITTED", "SHARD_SEALED", "WRITE_ONCE")


class GenerationRetired(RemeshError):
    """The state is at a later generation by now."""

    reasons = ("GENERATION_RETIRED",)
    default_code = "NOT_FOUND"


class NotFound(RemeshError):
    """There is no state, generation, execution or worker of that name."""

    codes = ("NOT_FOUND",)
    default_code = "NOT_FOUND"


class AlreadyExists(RemeshError):
    """The name is taken."""

    codes = ("ALREADY_EXISTS",)
    default_code = "ALREADY_EXISTS"


class DataLoss(RemeshError):
    """Hosts that are there do not hold everything that the move needs."""

    codes = ("DATA_LOSS",)
    default_code = "DATA_LOSS"


class MoveFailed(RemeshError):
    """An execution ended FAILED or CANCELLED. The state is unchanged, at its source generation."""

    reasons = ("MOVE_FAILED",)

    def __init__(self, message: str, *, execution: Any = None, **fields: Any):
        super().__init__(message, **fields)
        # remesh.v1.Execution; None in processes that only learned of the error.
        self.execution = execution


class NoRoom(RemeshError):
    """A host's memory, or a device's, is too small for what was asked of it."""

    reasons = ("MEMORY_EXHAUSTED", "DEVICE_MEMORY_EXHAUSTED", "CGROUP_MEMORY", "HOST_MEMORY")
    default_code = "RESOURCE_EXHAUSTED"

    @property
    def host(self) -> str:
        """The host; "" if the error does not say."""
        return self.metadata.get("host", "")

    @property
    def needed_bytes(self) -> Optional[int]:
        """What was asked for."""
        return self._number("needed_bytes")

    @property
    def free_bytes(self) -> Optional[int]:
        """What the host had left. Unset if it has less in all than was asked for."""
        free = self._number("free_bytes")
        limit, used = self._number("limit_bytes"), self._number("used_bytes")
        return free if free is not None or limit is None or used is None else max(limit - used, 0)


class HostDrained(RemeshError):
    """An operator drains the host: nothing new may be placed on it."""

    reasons = ("HOST_DRAINED",)


class HostAway(RemeshError):
    """A host of the request has no worker that is attached to the server."""

    reasons = ("HOST_NOT_ATTACHED",)


class WorkerTooOld(RemeshError):
    """A host's worker does not know what was asked of it: it must be replaced by a newer
    version."""

    reasons = ("WORKER_TOO_OLD",)
    codes = ("UNIMPLEMENTED",)


class ServerTooOld(RemeshError):
    """The server does not know what was asked of it: it must be replaced by a newer version.
    Nothing was written."""

    reasons = ("SERVER_TOO_OLD",)


class Refused(RemeshError):
    """The certificate or the user may not do this."""

    codes = ("PERMISSION_DENIED", "UNAUTHENTICATED")
    default_code = "PERMISSION_DENIED"


class ServerAway(RemeshError):
    """The server, or the host's worker, could not be reached for as long as the call may wait."""

    codes = ("UNAVAILABLE",)
    default_code = "UNAVAILABLE"


class TimedOut(RemeshError, TimeoutError):
    """What the call waited for did not happen in time."""

    codes: ClassVar[Tuple[str, ...]] = ("DEADLINE_EXCEEDED",)
    default_code = "DEADLINE_EXCEEDED"


class BadArgument(RemeshError, ValueError):
    """A value is not one that the server, the worker or this package takes; the message names the
    field and the value."""

    codes = ("INVALID_ARGUMENT", "OUT_OF_RANGE")
    default_code = "INVALID_ARGUMENT"


class ForkedError(RemeshError):
    """The object was made before a fork(), and this is the child: gRPC's connections do not survive
    that. Call connect() again."""

    reasons = ("FORKED",)


class Closed(RemeshError):
    """The object was used after its close()."""

    reasons = ("CLOSED",)


class ProcessFailed(RemeshError):
    """A process of the group raised an error that is none of this package's. It names the process
    and the error."""

    reasons = ("PROCESS_FAILED",)
    default_code = "UNKNOWN"


class ValuesDiffer(RemeshError, AssertionError):
    """Processes of a group passed different values where all must be equal."""

    reasons = ("VALUES_DIFFER",)


class NameMismatch(RemeshError):
    """Processes of a group made different calls at the same point of their programs."""

    reasons = ("NAME_MISMATCH",)


class SourceCount(RemeshError, ValueError):
    """None or several processes of a group said that theirs is the value for all."""

    reasons = ("SOURCE_COUNT",)
    default_code = "INVALID_ARGUMENT"


class TooLarge(RemeshError, ValueError):
    """More than processes may exchange in one call."""

    reasons = ("TOO_LARGE",)
    default_code = "RESOURCE_EXHAUSTED"


class PreemptionNotSetUp(RemeshError, RuntimeError):
    """A process cannot notice SIGTERM: it has no handler for it, and can install none."""

    reasons = ("PREEMPTION_NOT_SET_UP",)


class StructureMismatch(RemeshError, ValueError):
    """The arrays that are wanted are not those that there are, or processes disagree about them."""

    reasons = ("STRUCTURE_MISMATCH",)
    default_code = "INVALID_ARGUMENT"

    @staticmethod
    def of(what: str, differences: Iterable[Tuple[str, str, str]]) -> "StructureMismatch":
        """From (name, have, want) of each array that differs."""
        lines: List[str] = [
            f"{name}: have {have or 'none'}, want {want or 'none'}"
            for name, have, want in differences
        ]
        more = f" and {len(lines) - _MOST_NAMES} more" if len(lines) > _MOST_NAMES else ""
        return StructureMismatch(f"{what}: " + "; ".join(lines[:_MOST_NAMES]) + more)


class MemberLost(RemeshError):
    """A process of the group has left it or died, and others wait for it."""

    reasons = ("MEMBER_LOST",)
    default_code = "ABORTED"

    @property
    def rank(self) -> Optional[int]:
        """The process, if the group knows it."""
        return self._number("rank")

    @property
    def host(self) -> str:
        """Its host; "" if the group does not know it."""
        return self.metadata.get("host", "")


class MemberLeft(MemberLost):
    """A process of the group has ended its part in it, and others wait for it."""

    reasons = ("MEMBER_LEFT",)


class WorldOver(RemeshError):
    """The world of the group is over: none of its calls succeeds any more."""

    reasons = ("WORLD_OVER", "RESULTS_DIFFER")
    default_code = "ABORTED"


class StaleEpoch(RemeshError):
    """A later world has formed: this process belongs to an earlier one, and may change nothing."""

    reasons = ("STALE_EPOCH",)

    @property
    def epoch(self) -> Optional[int]:
        """The present one; 0 if the server knows no world of the scope."""
        return self._number("epoch")


class RankTaken(RemeshError):
    """A living process of another start is this member of the world, or there is no room for this
    one. `host` and `pid` are its, if it has this rank."""

    reasons = ("RANK_TAKEN", "ATTEMPT_DIFFERS", "WORLD_FULL")
    default_code = "ALREADY_EXISTS"

    @property
    def host(self) -> str:
        """Where it runs."""
        return self.metadata.get("host", "")

    @property
    def pid(self) -> Optional[int]:
        """Its process id there."""
        return self._number("pid")


class BarrierTimeout(TimedOut):
    """Some processes of the group did not come in time; `absent` names them."""

    reasons = ("BARRIER_TIMEOUT", "WORLD_TIMEOUT")
    codes: ClassVar[Tuple[str, ...]] = ()

    @property
    def absent(self) -> List[int]:
        """Their ranks."""
        return [int(rank.partition("@")[0]) for rank in self._names("absent")]


def from_grpc(
    error: grpc.RpcError, awaited: str = "", metadata: Optional[Mapping[str, str]] = None
) -> RemeshError:
    """The typed error of a refused call. awaited: what a call waited for that ended by its
    deadline. metadata: adds values that the refusal does not name. Raise it `from None`, so that
    users do not see gRPC's traceback."""
    info = error_info(error)
    code = error.code().name
    hint = tls_hint(error)
    message = (error.details() or "") + (f" ({hint})" if hint else "")
    if awaited and code == "DEADLINE_EXCEEDED":
        message = f"waited until {awaited}"
    return make(
        code,
        message,
        info.reason if info else "",
        {**(metadata or {}), **(dict(info.metadata) if info else {})},
        further=further_of(details_of(error)),
    )


def from_status(
    status: status_pb2.Status, kind: Optional[Type[RemeshError]] = None, **fields: Any
) -> RemeshError:
    """The typed error of a status inside a message, such as Execution.error. kind: its class, if
    the caller decides."""
    info = info_of(status)
    reason, metadata = (info.reason, dict(info.metadata)) if info else ("", {})
    further = further_of(status)
    code = code_name(status.code)
    return make(code, status.message, reason, metadata, kind, further=further, **fields)


def make(
    code: str,
    message: str,
    reason: str = "",
    metadata: Optional[Mapping[str, str]] = None,
    kind: Optional[Type[RemeshError]] = None,
    **fields: Any,
) -> RemeshError:
    """An error of the class that stands for the reason, else of the one for the code, else a
    RemeshError."""
    chosen = kind or _class_for(code, reason)
    return chosen(message, code=code, reason=reason or code, metadata=metadata, **fields)


def to_bytes(error: BaseException) -> bytes:
    """An error, to send to other processes. One of another package becomes a ProcessFailed, which
    names it."""
    if not isinstance(error, RemeshError):
        error = ProcessFailed(f"{type(error).__name__}: {error}")
    fields = error.to_fields()
    fields["message"] = fields["message"][:_MESSAGE_BYTES]
    return json.dumps(fields).encode()


def from_bytes(data: bytes) -> RemeshError:
    """The error that to_bytes() wrote: of the same class if this process has that class."""
    return _from_fields(json.loads(data))


def _from_fields(fields: Mapping[str, Any]) -> RemeshError:
    kinds = {kind.__name__: kind for kind in _classes()}
    return make(
        fields["code"],
        fields["message"],
        fields["reason"],
        fields["metadata"],
        kinds.get(fields["kind"], RemeshError),
        process=fields["process"],
        further=fields.get("further", ()),
    )


def _class_for(code: str, reason: str) -> Type[RemeshError]:
    kinds = _classes()
    by_reason = (kind for kind in kinds if reason and reason in kind.reasons)
    by_code = (kind for kind in kinds if code in kind.codes)
    return next(by_reason, None) or next(by_code, RemeshError)


def _classes() -> List[Type[RemeshError]]:
    """RemeshError and all classes derived from it, those of other modules too."""
    found: List[Type[RemeshError]] = [RemeshError]
    for kind in found:  # grows
        found.extend(one for one in kind.__subclasses__() if one not in found)
    return found
