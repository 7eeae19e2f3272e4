# SPDX-License-Identifier: Apache-2.0
"""One class for the trainer of a host that writes its own messages, and the one that can lend its
own memory. New programs begin with remesh.connect() (client.py), which needs no messages and raises
typed errors.

    trainer = Trainer(server="10.0.0.1:7070", worker_socket="/run/remesh/worker.sock")
    # One of the trainers: which arrays there are, and where.
    trainer.create_state(state)
    # Every trainer writes its own host's shards. After seal() no process may write into them.
    for shard in trainer.allocate(state.name):
        shard.bytes[:] = ...
    trainer.seal(state.name)
    # One of the trainers moves the state, and every trainer reads its own host's new shards.
    execution = trainer.start_reshard(state.name, generation=1, targets=targets)
    moved = trainer.wait_execution(execution.name)
    for shard in trainer.read(state.name, moved.target_generation): ...

No data is copied through a call: worker and trainer map the same files or, if the worker has GPUs,
the same GPU memory (device_memory.py). NumPy arrays keep it mapped while they live, and the memory
of a retired generation is freed only when its last mapping is gone: drop the arrays of a generation
that was replaced.
"""

import contextlib
import datetime
import os
import time
import uuid
from typing import Callable, List, Optional, Sequence, Union

import grpc

from remesh import buffers, calls, connection, contexts, errors, lending, loans, move
from remesh.buffers import Shard
from remesh.v1 import (
    local_pb2,
    local_pb2_grpc,
    plan_pb2,
    reshard_pb2,
    reshard_pb2_grpc,
    state_pb2,
    state_pb2_grpc,
)

_CALL_SECONDS = calls.CALL_SECONDS
_PAUSE_SECONDS = calls.PAUSE_SECONDS
_NOT_HERE = ("GENERATION_NOT_FOUND", "GENERATION_RETIRED", "STATE_NOT_FOUND")


class ExecutionFailed(Exception):
    """An execution ended FAILED or CANCELLED; the state is unchanged, at its source generation."""

    def __init__(self, execution: reshard_pb2.Execution):
        phase = reshard_pb2.Execution.Phase.Name(execution.phase)
        super().__init__(
            f"{execution.name} ended in {phase}: {errors.describe_status(execution.error)}"
        )
        self.execution = execution


class Trainer:
    """One host's training process: a connection to the planner, and one to the host's own
    worker."""

    def __init__(
        self, server: Optional[str], worker_socket: str, tls: Optional[connection.Tls] = None
    ):
        """server: HOST:PORT; None: REMESH_SERVER, else the server of the current context
        (contexts.py).

        tls: for the server; None: from REMESH_TLS_CA, _CERT, _KEY and _SERVER_NAME, else from the
        context that named the server, else plain text."""
        context = {} if server else contexts.load()
        server = server or os.environ.get("REMESH_SERVER", "") or context.get("server", "")
        connection.check_address(server)
        self._server = connection.ServerConnection(
            server, calls.CHANNEL_OPTIONS, tls or connection.Tls.of(context)
        )
        self._worker_socket = worker_socket
        self._worker = grpc.insecure_channel(f"unix:{worker_socket}", options=calls.CHANNEL_OPTIONS)
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
        """What is lent by a lease is lost now (lending.py). Waits for at most 10 s until the worker
        has let go of it; if the worker has not, warns, and keeps the tensors until a later lend()
        or close() of any trainer finds that it has.
        """
        lent, self._loans = list(self._loans.values()), {}
        try:
            loans.end(lent)
        finally:
            self._server.close()
            self._worker.close()

    def create_state(self, state: state_pb2.State, request_id: str = "") -> state_pb2.State:
        """Declares the state; the trainers on its hosts may then allocate. Repeated with the same
        request_id, by whichever trainer, it returns the state that it created."""
        request = state_pb2.CreateStateRequest(state=state, request_id=request_id)
        with _with_tls_hint():
            return self.states.CreateState(request, timeout=_CALL_SECONDS)

    def allocate(self, state: str, timeout_seconds: float = _CALL_SECONDS) -> List[Shard]:
        """Returns this host's shards for writing. Waits until some trainer has created a state with
        shards on this host."""
        request = local_pb2.AllocateRequest(state=state, wait=True)
        with _waiting_until(f"{state} is on this host", timeout_seconds):
            return self._map(
                self.local.Allocate(request, timeout=timeout_seconds).shards, buffers.WRITE
            )

    def seal(self, state: str, write: str = "") -> local_pb2.SealResponse:
        """Declares every shard of this host written. The state is READY once all hosts have done
        so, of one write: see unseal(). Without a write, the one that this trainer's unseal() named:
        refused (WRITE_DIFFERS) if another process has begun another write since."""
        request = local_pb2.SealRequest(state=state, write=write or self._writes.get(state, ""))
        response = self.local.Seal(request, timeout=_CALL_SECONDS)
        self._writes.pop(state, None)
        return response

    def lend(
        self,
        state: str,
        memories: Sequence,
        places: Sequence[lending.Place],
        timeout_seconds: float = _CALL_SECONDS,
        write: str = "",
    ) -> local_pb2.SealResponse:
        """Replaces allocate(), writing and seal(): lends the trainer's own `memories`, in which
        `places` locate every shard of this host (lending.py). Waits for all work that this process
        has given those GPUs, and until some trainer has created a state with shards on this host.
        GPU memory is held until wait_returned() or unseal(). If the call fails, its error is raised
        only when the worker has let go of what was lent by a lease, or after 10 s with a warning
        (see close()).

        If the state has a former loan, that loan is ended then; the new loan stands even if an
        interrupt breaks this off.

        write: as of unseal(); needed after it if other hosts have shards of the state."""
        for memory in memories:
            getattr(memory, "synchronize", lambda: None)()
        loans.sweep()
        loan = loans.Loan(self._worker_socket, memories)
        try:
            loans.kept.add(loan)  # before the worker can have the memory
            request = loan.request(state)
            request.write = write
            for place in places:
                request.shards.add(
                    array=place.array,
                    device=place.device,
                    memory=place.memory,
                    offset=place.offset,
                    box=place.box,
                )
            with _waiting_until(f"{state} is on this host", timeout_seconds):
                response = self.local.Lend(request, timeout=timeout_seconds)
            loan.generation = response.generation
        except BaseException:
            loans.end([loan])
            raise
        former = self._loans.get(state)
        self._loans[state] = loan
        if former:
            loans.end([former])
        return response

    def lend_tensors(
        self,
        state: str,
        tensors: Sequence[lending.TensorPlace],
        timeout_seconds: float = _CALL_SECONDS,
        write: str = "",
    ) -> local_pb2.SealResponse:
        """lend() of tensors on GPUs: every shard of this host. ValueError names one that the driver
        cannot share, and why."""
        return self.lend(state, *lending.memories_of(tensors), timeout_seconds, write)

    def wait_returned(self, state: str, timeout_seconds: float = _CALL_SECONDS) -> None:
        """Waits until the worker has let go of what this trainer lent it of the state: when the
        generation is retired, unsealed or deleted. Then the memory may be written and freed.
        TimeoutError. A move that has nothing to move retires nothing: unseal() instead.
        """
        give_up = time.monotonic() + timeout_seconds
        loan = self._loans.get(state)
        while loan and loan.held(lambda: self._is_lent(state, loan.generation), give_up):
            if time.monotonic() > give_up:
                raise TimeoutError(
                    f"after {timeout_seconds:g} s the worker still has memory of {state} that it "
                    "was lent; call again, or unseal() the state"
                )
            time.sleep(_PAUSE_SECONDS)
        if loan:
            self._loans.pop(state, None)
            loan.close()
            loans.kept.discard(loan)

    def unseal(self, state: str, write: str = "") -> local_pb2.SealResponse:
        """Takes back this host's shards, or the lent memory, for writing, at any generation:
        allocate() then returns the shards writable, with what they hold, and seal() seals them for
        the next move. Refused while the state is MOVING.

        write: a name of at most 64 bytes that the job chooses for what it is about to write, the
        same on all hosts; the training step will do. Needed if other hosts have shards of the
        state, which is READY again once all hosts have sealed the same write. A trainer that dies
        half-way leaves the state BUILDING ("write 7 on host-0, 6 on host-1") until all hosts have
        sealed a later write or the state is deleted. The content of write 6 is gone."""
        request = local_pb2.UnsealRequest(state=state, write=write)
        response = self.local.Unseal(request, timeout=_CALL_SECONDS)
        self._writes[state] = write
        self.wait_returned(state)
        return response

    def _is_lent(self, state: str, generation: int) -> bool:
        try:
            self.local.GetShards(
                local_pb2.GetShardsRequest(state=state, generation=generation),
                timeout=_CALL_SECONDS,
            )
        except grpc.RpcError as error:
            info = errors.error_info(error)
            reason = info.reason if info else ""
            if reason in _NOT_HERE:
                return False
            # A worker that does not answer may still have the memory.
            if reason in ("SHARDS_LENT", "NOT_READABLE") or error.code() in (
                grpc.StatusCode.UNAVAILABLE,
                grpc.StatusCode.DEADLINE_EXCEEDED,
            ):
                return True
            raise
        return False

    def wait_ready(self, state: str, timeout_seconds: float) -> state_pb2.State:
        """Waits until every shard of every host is sealed, of one write, even across a restart of
        the server.

        A state that is LOST or DEGRADED (hosts are away, but others hold all of it) is waited for,
        too: it is READY when its hosts are back. A job that does not wait for them moves a DEGRADED
        state with lose_absent_hosts.
        """
        request = state_pb2.WatchStateRequest(name=state)
        seen = None

        def awaited():
            if seen is None:
                return f"{state} is READY"
            writes = [f"{one.write or 'no write'} on {one.host}" for one in seen.host_writes]
            hosts = [
                f"{what} {', '.join(names)}"
                for what, names in (
                    ("lost:", seen.lost_hosts),
                    ("not sealed on", seen.unsealed_hosts),
                    ("of different writes:", writes),
                )
                if names
            ]
            return (
                f"{state} is READY; it is "
                f"{'; '.join([state_pb2.State.Phase.Name(seen.phase), *hosts])}"
            )

        with _with_tls_hint(), _waiting_until(awaited, timeout_seconds):
            for seen in calls.watch(
                lambda: self.states.WatchState, request, timeout_seconds, self._server.channel
            ):
                if seen.phase == state_pb2.State.READY:
                    return seen

    def start_reshard(
        self,
        state: str,
        generation: int,
        targets: Optional[reshard_pb2.Targets] = None,
        options: Optional[plan_pb2.PlanOptions] = None,
        *,
        plan: str = "",
        request_id: Optional[str] = None,
        deadline_seconds: float = 0,
        lose_absent_hosts: bool = False,
    ) -> reshard_pb2.Execution:
        """Starts a move from `generation` to the layout of either `targets` or the plan named
        `plan` (plans/...). Returns as soon as the execution is on the server's disk. Its
        target_generation is the state's generation when it has succeeded: `generation`, if the
        state is there already; then nothing moves. Arrays that the targets do not name stay where
        they are.

        lose_absent_hosts: does without the hosts that the server calls lost (State.lost_hosts); for
        targets only.

        Retries for up to 30 s while the server cannot be reached; the request_id (random unless
        given) prevents that this starts two executions. deadline_seconds: of the execution; 0: the
        server's default.
        """
        if (targets is None) == (not plan):
            raise ValueError("start_reshard takes either targets or plan")
        request = reshard_pb2.StartExecutionRequest(
            state=state,
            expected_generation=generation,
            targets=targets,
            options=options,
            request_id=request_id or str(uuid.uuid4()),
            lose_absent_hosts=lose_absent_hosts,
        )
        if plan:
            request.plan = plan
        if deadline_seconds:
            request.deadline.FromTimedelta(datetime.timedelta(seconds=deadline_seconds))
        with _with_tls_hint():
            return calls.retry(
                lambda: self.reshards.StartExecution, request, _CALL_SECONDS, self._server.channel
            )

    def wait_execution(
        self,
        name: str,
        timeout_seconds: float = 300.0,
        on_change: Callable[[reshard_pb2.Execution], None] = lambda execution: None,
    ) -> reshard_pb2.Execution:
        """Waits for the end of an execution, even across a restart of the server. Raises
        ExecutionFailed unless it SUCCEEDED."""
        request = reshard_pb2.WatchExecutionRequest(name=name)
        with _with_tls_hint():
            for execution in calls.watch(
                lambda: self.reshards.WatchExecution, request, timeout_seconds, self._server.channel
            ):
                on_change(execution)
                if execution.phase == move.SUCCEEDED:
                    return execution
                if execution.phase in move.ENDED:
                    raise ExecutionFailed(execution)

    def read(
        self, state: str, generation: int, timeout_seconds: float = _CALL_SECONDS
    ) -> List[Shard]:
        """Returns this host's shards of a committed generation for reading. Waits until it is
        committed here. A retired generation is refused at once (NOT_FOUND, GENERATION_RETIRED:
        latest_generation in the error_info() is the one that is here).
        """
        request = local_pb2.GetShardsRequest(state=state, generation=generation, wait=True)
        with _waiting_until(
            f"generation {generation} of {state} is committed on this host", timeout_seconds
        ):
            for _ in range(2):
                try:
                    return self._map(
                        self.local.GetShards(request, timeout=timeout_seconds).shards, buffers.READ
                    )
                except (FileNotFoundError, ConnectionError):
                    pass  # retired between the answer and the mapping: the next answer says so
            return self._map(
                self.local.GetShards(request, timeout=timeout_seconds).shards, buffers.READ
            )

    def _map(self, shards, access: str) -> List[Shard]:
        """Maps each file or segment of device memory once; the arrays keep it mapped."""
        mapped = buffers.map_shards(shards, access, worker_socket=self._worker_socket)
        buffers.open_all(mapped)
        return mapped


@contextlib.contextmanager
def _with_tls_hint():
    """Adds the hint to errors that may come from a wrong choice between TLS and plain text."""
    try:
        yield
    except grpc.RpcError as error:
        errors.add_tls_hint(error)
        raise


@contextlib.contextmanager
def _waiting_until(what: Union[str, Callable[[], str]], seconds: float):
    """Adds to DEADLINE_EXCEEDED a note of what the call waited for (from Python 3.11 on); gRPC
    itself does not say it. A callable says it when the time is over."""
    try:
        yield
    except grpc.RpcError as error:
        if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED and hasattr(error, "add_note"):
            error.add_note(
                f"after {seconds:g} s of waiting until {what() if callable(what) else what}"
            )
        raise
