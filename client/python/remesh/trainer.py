# SPDX-License-Identifier: Apache-2.0
"""The whole interface of a training process to remesh: one Trainer on each host.

    trainer = Trainer(server="10.0.0.1:7070", worker_socket="/run/remesh/worker.sock")
    trainer.create_state(state)                          # one of the trainers: which arrays there are, and where
    for shard in trainer.allocate(state.name):           # every trainer: its own host's shards, to write
        shard.bytes[:] = ...
    trainer.seal(state.name)                             # written: from now on, no one may store into them
    execution = trainer.start_reshard(state.name, generation=1, targets=targets)      # one of the trainers
    trainer.wait_execution(execution.name)
    for shard in trainer.read(state.name, generation=2): ...                          # every trainer

No data is copied through a call: worker and trainer map the same files or, if the worker has GPUs, the same GPU memory
(device_memory.py). NumPy arrays keep it mapped while they live, and the memory of a retired generation is freed only when its last
mapping is gone: drop the arrays of a generation that was replaced.
"""
import contextlib
import dataclasses
import datetime
import mmap
import os
import re
import time
import uuid
import warnings
from typing import Callable, List, Optional, Sequence, Union

import grpc
import numpy as np

from remesh import connection, contexts, device_memory, errors, lending
from remesh.elements import bit_width, numpy_dtype
from remesh.v1 import (local_pb2, local_pb2_grpc, plan_pb2, reshard_pb2, reshard_pb2_grpc, state_pb2, state_pb2_grpc)

# Answers may be long; a proxy must not stand between loopback and us.
_CHANNEL_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1),
                    ("grpc.enable_http_proxy", 0), ("grpc.max_reconnect_backoff_ms", 1000),
                    ("grpc.min_reconnect_backoff_ms", 5000))  # what an attempt to connect may take
_CALL_SECONDS = 30.0
_PAUSE_SECONDS = 0.2
_LET_GO_SECONDS = 10.0
_LOOK_SECONDS = 0.02
_NOT_HERE = ("GENERATION_NOT_FOUND", "GENERATION_RETIRED", "STATE_NOT_FOUND")
_SUCCEEDED = reshard_pb2.Execution.SUCCEEDED
_ENDED = (_SUCCEEDED, reshard_pb2.Execution.FAILED, reshard_pb2.Execution.CANCELLED)


class ExecutionFailed(Exception):
    """An execution ended FAILED or CANCELLED; the state is unchanged, at its source generation."""

    def __init__(self, execution: reshard_pb2.Execution):
        phase = reshard_pb2.Execution.Phase.Name(execution.phase)
        super().__init__(f"{execution.name} ended in {phase}: {errors.describe_status(execution.error)}")
        self.execution = execution


@dataclasses.dataclass(frozen=True)
class Shard:
    """A box of an array on one device of this host."""
    info: local_pb2.Shard  # array name, device id, box, element type ...
    bytes: Union[np.ndarray, device_memory.CudaBytes]  # info.bytes of them: dense row-major over the box, packed below a byte

    def values(self) -> np.ndarray:
        """The same memory in the box's shape; bf16 and fp8 as unsigned integers. Types smaller than a byte, and memory of a GPU, have no
        such view: see CudaBytes."""
        if isinstance(self.bytes, device_memory.CudaBytes):
            raise TypeError(f"{self.info.array}: on a GPU; torch.as_tensor(shard.bytes, device=\"cuda\") shares its memory")
        if bit_width(self.info.element_type) < 8:
            raise TypeError(f"{self.info.array}: {self.info.element_type} is packed below a byte; use .bytes")
        extents = [hi - lo for lo, hi in zip(self.info.box.lo, self.info.box.hi)]
        return self.bytes.view(numpy_dtype(self.info.element_type)).reshape(extents)


class Trainer:
    """One host's training process: a connection to the planner, and one to the host's own worker."""

    def __init__(self, server: Optional[str], worker_socket: str, tls: Optional[connection.Tls] = None):
        """server: HOST:PORT; None: REMESH_SERVER, else the server of the current context (contexts.py).

        tls: for the server; None: from REMESH_TLS_CA, _CERT, _KEY and _SERVER_NAME, else from the context that named the server,
        else plain text."""
        context = {} if server else contexts.load()
        server = server or os.environ.get("REMESH_SERVER", "") or context.get("server", "")
        _check_address(server)
        self._server = connection.ServerConnection(server, _CHANNEL_OPTIONS, tls or connection.Tls.of(context))
        self._worker_socket = worker_socket
        self._worker = grpc.insecure_channel(f"unix:{worker_socket}", options=_CHANNEL_OPTIONS)
        self.local = local_pb2_grpc.LocalServiceStub(self._worker)
        self._loans = {}  # by state
        self._writes = {}  # by state: the write that this trainer began

    # Of the connection as it is now: certificates may have changed since the last call.
    @property
    def states(self) -> state_pb2_grpc.StateServiceStub:
        return state_pb2_grpc.StateServiceStub(self._server.channel())

    @property
    def reshards(self) -> reshard_pb2_grpc.ReshardServiceStub:
        return reshard_pb2_grpc.ReshardServiceStub(self._server.channel())

    def close(self) -> None:
        """What is lent by a lease is lost now (lending.py). Waits for at most 10 s until the worker has let go of it; if the worker has not,
        warns, and keeps the tensors until a later lend() or close() of any trainer finds that it has."""
        loans, self._loans = list(self._loans.values()), {}
        try:
            _end(loans)
        finally:
            self._server.close()
            self._worker.close()

    def create_state(self, state: state_pb2.State) -> state_pb2.State:
        """Declares the state; the trainers on its hosts may then allocate."""
        try:
            return self.states.CreateState(state_pb2.CreateStateRequest(state=state), timeout=_CALL_SECONDS)
        except grpc.RpcError as error:
            errors.add_tls_hint(error)
            raise

    def allocate(self, state: str, timeout_seconds: float = _CALL_SECONDS) -> List[Shard]:
        """Returns this host's shards for writing. Waits until some trainer has created a state with shards on this host."""
        request = local_pb2.AllocateRequest(state=state, wait=True)
        with _waiting_until(f"{state} lies on this host", timeout_seconds):
            return self._map(self.local.Allocate(request, timeout=timeout_seconds).shards, writable=True)

    def seal(self, state: str, write: str = "") -> local_pb2.SealResponse:
        """Declares every shard of this host written. The state is READY once all hosts have done so,
        of one write: see unseal(). Without a write, the one that this trainer's unseal() named:
        refused (WRITE_DIFFERS) if another process has begun another write since."""
        request = local_pb2.SealRequest(state=state, write=write or self._writes.get(state, ""))
        response = self.local.Seal(request, timeout=_CALL_SECONDS)
        self._writes.pop(state, None)
        return response

    def lend(self, state: str, memories: Sequence, places: Sequence[lending.Place],
             timeout_seconds: float = _CALL_SECONDS, write: str = "") -> local_pb2.SealResponse:
        """Replaces allocate(), writing and seal(): lends the trainer's own `memories`, in which `places` locate every shard of this host
        (lending.py). Waits for all work that this process has given those GPUs, and until some trainer has created a state with shards
        on this host. GPU memory is held until wait_returned() or unseal(). If the call fails, its error is raised only when the worker has
        let go of what was lent by a lease, or after 10 s with a warning (see close()).

        If the state has a former loan, that loan is ended then; the new loan stands even if an interrupt breaks this off.

        write: as of unseal(); needed after it if other hosts have shards of the state."""
        for memory in memories:
            getattr(memory, "synchronize", lambda: None)()
        _sweep()
        loan = _Loan(self._worker_socket, memories)
        try:
            _kept.add(loan)  # before the worker can have the memory
            request = loan.request(state)
            request.write = write
            for place in places:
                request.shards.add(array=place.array, device=place.device, memory=place.memory, offset=place.offset, box=place.box)
            with _waiting_until(f"{state} lies on this host", timeout_seconds):
                response = self.local.Lend(request, timeout=timeout_seconds)
            loan.generation = response.generation
        except BaseException:
            _end([loan])
            raise
        former = self._loans.get(state)
        self._loans[state] = loan
        if former:
            _end([former])
        return response

    def lend_tensors(self, state: str, tensors: Sequence[lending.TensorPlace],
                     timeout_seconds: float = _CALL_SECONDS, write: str = "") -> local_pb2.SealResponse:
        """lend() of tensors on GPUs: every shard of this host. ValueError names one that the driver cannot share, and why."""
        return self.lend(state, *lending.memories_of(tensors), timeout_seconds, write)

    def wait_returned(self, state: str, timeout_seconds: float = _CALL_SECONDS) -> None:
        """Waits until the worker has let go of what this trainer lent it of the state: when the generation is retired, unsealed or deleted.
        Then the memory may be written and freed. TimeoutError."""
        give_up = time.monotonic() + timeout_seconds
        loan = self._loans.get(state)
        while loan and loan.held(lambda: self._is_lent(state, loan.generation), give_up):
            if time.monotonic() > give_up:
                raise TimeoutError(f"after {timeout_seconds:g} s the worker still has what was lent it of {state}, or does not say that it has not")
            time.sleep(_PAUSE_SECONDS)
        if loan:
            self._loans.pop(state, None)
            loan.close()
            _kept.discard(loan)

    def unseal(self, state: str, write: str = "") -> local_pb2.SealResponse:
        """Takes back this host's shards, or the lent memory, for writing, at any generation: allocate() then returns the shards writable,
        with what they hold, and seal() seals them for the next move. Refused while the state is MOVING.

        write: a name of at most 64 bytes that the job chooses for what it is about to write, the same
        on all hosts; the training step will do. Needed if other hosts have shards of the state, which
        is READY again once all hosts have sealed the same write. A trainer that dies half-way leaves
        the state BUILDING ("write 7 on host-0, 6 on host-1") until all hosts have sealed a later write
        or the state is deleted. The content of write 6 is gone."""
        request = local_pb2.UnsealRequest(state=state, write=write)
        response = self.local.Unseal(request, timeout=_CALL_SECONDS)
        self._writes[state] = write
        self.wait_returned(state)
        return response

    def _is_lent(self, state: str, generation: int) -> bool:
        try:
            self.local.GetShards(local_pb2.GetShardsRequest(state=state, generation=generation), timeout=_CALL_SECONDS)
        except grpc.RpcError as error:
            info = errors.error_info(error)
            reason = info.reason if info else ""
            if reason in _NOT_HERE:
                return False
            # A worker that does not answer may still have the memory.
            if reason in ("SHARDS_LENT", "NOT_READABLE") or error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                return True
            raise
        return False

    def wait_ready(self, state: str, timeout_seconds: float) -> state_pb2.State:
        """Waits until every shard of every host is sealed, of one write, even across a restart of the server.

        A state that is LOST or DEGRADED (hosts are away, but others hold all of it) is waited for, too: it is READY when its
        hosts are back. A job that does not wait for them moves a DEGRADED state with PlanOptions.lost_device_ids.
        """
        request = state_pb2.WatchStateRequest(name=state)
        seen = None

        def awaited():
            if seen is None:
                return f"{state} is READY"
            writes = [f"{one.write or 'no write'} on {one.host}" for one in seen.host_writes]
            hosts = [f"{what} {', '.join(names)}" for what, names in (("lost:", seen.lost_hosts), ("not sealed on", seen.unsealed_hosts),
                                                                      ("of different writes:", writes)) if names]
            return f"{state} is READY; it is {'; '.join([state_pb2.State.Phase.Name(seen.phase), *hosts])}"

        with _waiting_until(awaited, timeout_seconds):
            for seen in _watch(lambda: self.states.WatchState, request, timeout_seconds):
                if seen.phase == state_pb2.State.READY:
                    return seen

    def start_reshard(self, state: str, generation: int, targets: Optional[reshard_pb2.Targets] = None,
                      options: Optional[plan_pb2.PlanOptions] = None, *, plan: str = "", request_id: Optional[str] = None,
                      deadline_seconds: float = 0) -> reshard_pb2.Execution:
        """Starts the move from `generation` to `generation + 1`, to the layout of either `targets` or the plan named `plan`
        (plans/...). Returns as soon as the execution is on the server's disk.

        Retries for up to 30 s while the server cannot be reached; the request_id (random unless given) prevents that this
        starts two executions. deadline_seconds: of the execution; 0: the server's default.
        """
        if (targets is None) == (not plan):
            raise ValueError("start_reshard takes either targets or plan")
        request = reshard_pb2.StartExecutionRequest(state=state, expected_generation=generation, targets=targets,
                                                    options=options, request_id=request_id or str(uuid.uuid4()))
        if plan:
            request.plan = plan
        if deadline_seconds:
            request.deadline.FromTimedelta(datetime.timedelta(seconds=deadline_seconds))
        give_up = time.monotonic() + _CALL_SECONDS
        while True:
            try:
                return self.reshards.StartExecution(request, timeout=max(give_up - time.monotonic(), 1))
            except grpc.RpcError as error:
                if not _may_come_back(error, give_up):
                    errors.add_tls_hint(error)
                    raise
            time.sleep(_PAUSE_SECONDS)

    def wait_execution(self, name: str, timeout_seconds: float = 300.0,
                       on_change: Callable[[reshard_pb2.Execution], None] = lambda execution: None) -> reshard_pb2.Execution:
        """Waits for the end of an execution, even across a restart of the server. Raises ExecutionFailed unless it SUCCEEDED."""
        request = reshard_pb2.WatchExecutionRequest(name=name)
        for execution in _watch(lambda: self.reshards.WatchExecution, request, timeout_seconds):
            on_change(execution)
            if execution.phase == _SUCCEEDED:
                return execution
            if execution.phase in _ENDED:
                raise ExecutionFailed(execution)

    def read(self, state: str, generation: int, timeout_seconds: float = _CALL_SECONDS) -> List[Shard]:
        """Returns this host's shards of a committed generation for reading. Waits until it is committed here. A retired generation is
        refused at once (NOT_FOUND, GENERATION_RETIRED: latest_generation in the error_info() is the one that is here)."""
        request = local_pb2.GetShardsRequest(state=state, generation=generation, wait=True)
        with _waiting_until(f"generation {generation} of {state} is committed on this host", timeout_seconds):
            for _ in range(2):
                try:
                    return self._map(self.local.GetShards(request, timeout=timeout_seconds).shards, writable=False)
                except (FileNotFoundError, ConnectionError):
                    pass  # it was retired between the answer and the mapping: the next answer says so
            return self._map(self.local.GetShards(request, timeout=timeout_seconds).shards, writable=False)

    def _map(self, shards, writable: bool) -> List[Shard]:
        """Maps each file or segment of device memory once; the arrays keep it mapped."""
        maps, result = {}, []
        for info in shards:
            key = info.path or info.device_memory.token
            if key not in maps:
                maps[key] = (_FileMap(info.path, writable) if info.path else
                             device_memory.map_memory(self._worker_socket, info.device_memory, writable))
            result.append(Shard(info, maps[key].part(info.offset, info.bytes)))
        return result


class _Loan:
    """What is lent of one state, by a lease where it ends with this process."""

    def __init__(self, worker_socket: str, memories: Sequence):
        self._worker_socket, self._memories, self.generation = worker_socket, memories, 0
        self._lease = lending.Lease(worker_socket) if any(_ipc_of(memory) for memory in memories) else None

    def request(self, state: str) -> local_pb2.LendRequest:
        request = local_pb2.LendRequest(state=state, wait=True, lease=self._lease.token if self._lease else "")
        for memory in self._memories:
            ipc = _ipc_of(memory)
            by = ({"ipc": local_pb2.IpcAllocation(handle=ipc.handle, bytes=ipc.bytes, offset=ipc.offset)} if ipc else
                  {"token": device_memory.send_handle(self._worker_socket, memory.descriptor)})
            request.memories.add(bytes=memory.bytes, kind=memory.kind, device_uuid=memory.device_uuid, **by)
        # Memory of the host stays with the worker whatever becomes of it here.
        self._memories = [memory for memory in self._memories if memory.kind != "host"]
        return request

    def held(self, is_lent: Callable[[], bool], give_up: float) -> bool:
        return self.outlives_lease(give_up) if self._lease else is_lent()

    def close(self) -> None:
        if self._lease:
            self._lease.close()

    def lend_is_over(self) -> bool:
        """Whether the Lend call has ended: memory that the worker does not have then, it will not have again."""
        return self.generation > 0 or self._lease is None or self._lease.closed()

    def outlives_lease(self, give_up: float) -> bool:
        """Whether the worker still has memory that was lent by the lease, or does not say so by `give_up`."""
        patience = min(max(give_up - time.monotonic(), _LOOK_SECONDS), device_memory.PATIENCE_SECONDS)
        try:
            return self._lease is not None and self._lease.held(patience)
        except OSError:  # a worker that does not answer may still have the memory
            return True


# The owner of all loans by a lease, whatever becomes of their trainers: the worker may read their memory, which must not be freed or used
# again until the worker has said that it does not have it.
_kept = set()


def _not_let_go(loans: Sequence[_Loan], give_up: float) -> List[_Loan]:
    """Drops those of the loans that the worker has let go of, and returns the others."""
    others = [loan for loan in loans if loan.outlives_lease(give_up)]
    _kept.difference_update(set(loans).difference(others))
    return others


def _sweep(but: Sequence[_Loan] = ()) -> None:
    """Drops every loan, but these, that the worker has let go of by now. Does not wait for it."""
    _not_let_go([loan for loan in _kept.difference(but) if loan.lend_is_over()], give_up=time.monotonic())


def _end(loans: Sequence[_Loan]) -> None:
    """Ends the leases of the loans, and waits until the worker has let go of their memory."""
    for loan in loans:
        loan.close()
    _sweep(but=loans)
    give_up = time.monotonic() + _LET_GO_SECONDS
    while (loans := _not_let_go(loans, give_up)) and time.monotonic() <= give_up:
        time.sleep(_LOOK_SECONDS)
    if loans:
        warnings.warn(f"after {_LET_GO_SECONDS:g} s the worker still has memory that this process lent: the memory is kept; a later lend() or "
                      "close() frees it once the worker has let go of it", RuntimeWarning, stacklevel=3)


def _ipc_of(memory) -> Optional[lending.Allocation]:
    return getattr(memory, "ipc", None)


@contextlib.contextmanager
def _waiting_until(what: Union[str, Callable[[], str]], seconds: float):
    """Adds to DEADLINE_EXCEEDED a note of what the call waited for (from Python 3.11 on); gRPC itself does not say it. A callable says it
    when the time is over."""
    try:
        yield
    except grpc.RpcError as error:
        if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED and hasattr(error, "add_note"):
            error.add_note(f"after {seconds:g} s of waiting until {what() if callable(what) else what}")
        raise


def _check_address(server: str) -> None:
    """Refuses a URL and an address without a port: gRPC would look them up as names, and report that only when a call times out."""
    if not re.fullmatch(r"(unix|dns|ipv4|ipv6|xds):.+|[^/]+:\d+", server):
        raise ValueError(f"server: value {server!r} must be HOST:PORT, as in 10.0.0.1:7070")


def _may_come_back(error: grpc.RpcError, give_up: float) -> bool:
    return error.code() == grpc.StatusCode.UNAVAILABLE and time.monotonic() < give_up - 1


def _watch(method, request, timeout_seconds: float):
    """Yields the messages of a Watch call without end; repeats the call when the server goes away and comes back. Raises DEADLINE_EXCEEDED."""
    give_up = time.monotonic() + timeout_seconds
    while True:
        try:
            yield from method()(request, timeout=max(give_up - time.monotonic(), 0))
        except grpc.RpcError as error:
            if not _may_come_back(error, give_up):
                errors.add_tls_hint(error)
                raise
        time.sleep(_PAUSE_SECONDS)


class _FileMap:
    def __init__(self, path: str, writable: bool):
        with open(path, "r+b" if writable else "rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ)

    def part(self, offset: int, count: int) -> np.ndarray:
        return np.frombuffer(self._map, np.uint8, count, offset)
