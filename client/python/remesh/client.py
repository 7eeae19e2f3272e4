# SPDX-License-Identifier: Apache-2.0
"""connect(): the way from a trainer or a controller to remesh.

    with remesh.connect() as client:               # $REMESH_SOCKET; the worker knows the rest
        rows = remesh.layout.hlo("{devices=[4,1]<=[4]}", range(4))
        state = client.create("jobs/a/states/w", {"w": remesh.Array((8, 6), "f32", rows)})
        remesh.buffers.write((shard, content(shard)) for shard in state.allocate())
        state.seal()
        moved = state.wait_ready().reshard({"w": remesh.layout.replicated([0, 5])}).wait()
        for shard in state.read(moved.generation): use(shard.values())

There is one Client a process; it may be used by all of its threads.
"""

import copy
import os
import uuid
from typing import Any, Dict, Iterator, Mapping, Optional

import grpc

from remesh import calls, connection, contexts, errors, layout
from remesh.host import Host
from remesh.layout import Array
from remesh.state import State
from remesh.v1 import (
    coordination_pb2,
    reshard_pb2_grpc,
    state_pb2,
    state_pb2_grpc,
    topology_pb2,
    worker_pb2,
    worker_pb2_grpc,
)
from remesh.worker import LocalState, Worker

_PAGE = 1000


def connect(
    socket: Optional[str] = None,
    server: Optional[str] = None,
    *,
    tls: Optional[connection.Tls] = None,
    timeout: float = 30.0,
) -> "Client":
    """Connects to the host's worker and, on first use, to its server.

    socket: the worker's; None: $REMESH_SOCKET. With neither, the client has no host and can do only
    what the server alone does.
    server: HOST:PORT; None: $REMESH_SERVER, else what the worker says, else the server of the
    current context (contexts.py).
    tls: for the server; None: from REMESH_TLS_CA, _CERT, _KEY and _SERVER_NAME, else from the
    context that named the server, else none.
    timeout: seconds to wait for the worker, which may not have been attached to its server yet.
    TimedOut, ServerAway; ValueError for settings that cannot be right. Any thread may call it, and
    use what it returns."""
    socket = socket or os.environ.get("REMESH_SOCKET", "")
    worker = Worker(socket, timeout) if socket else None
    try:
        return Client(worker, _server_of(worker, server, tls))
    except BaseException:
        if worker:
            worker.close()
        raise


def _server_of(
    worker: Optional[Worker], server: Optional[str], tls: Optional[connection.Tls]
) -> connection.ServerConnection:
    """Who the server is, by whoever says it first; see connect()."""
    host = worker.host if worker else None
    address = server or os.environ.get("REMESH_SERVER", "") or (host.server if host else "")
    context: Dict[str, str] = {}
    if not address:
        context = contexts.load()
        address = context.get("server", "")
    if not address:
        hint = "set REMESH_SOCKET or REMESH_SERVER, or pass socket= or server="
        raise ValueError(f"server: value '' must be HOST:PORT: {hint}")
    connection.check_address(address)
    if host and address == host.server and host.tls_server_name:
        context = {"tls_server_name": host.tls_server_name}
    return connection.ServerConnection(
        address, calls.CHANNEL_OPTIONS, tls or connection.Tls.of(context)
    )


class Client:
    """A connection to the server and, if this machine has one, to its worker. Thread-safe. After a
    fork() every call in the child raises ForkedError; after close(), Closed. Calls wait out a
    restart of the server or worker for as long as they may take."""

    def __init__(self, worker: Optional[Worker], server: connection.ServerConnection):
        self._worker, self._server = worker, server
        self.calls = calls.Caller("the client", server.channel)
        self.fence: Optional[coordination_pb2.Fence] = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connections. Mapped shards stay mapped. May be called twice, and in a forked
        child."""
        if self.calls.close():
            self._server.close()
        if self._worker:
            self._worker.close()

    def fenced(self, fence: Optional[coordination_pb2.Fence]) -> "Client":
        """The same connection for a member of a world (ServerGroup.fence): what it and its State
        objects ask to create, update, move and delete the server refuses (StaleEpoch) once the next
        world has formed. close() of either closes both."""
        other = copy.copy(self)
        other.fence = fence
        return other

    @property
    def worker(self) -> Worker:
        """The connection to the host's worker. BadArgument if the client has none."""
        if self._worker is None:
            hint = "set REMESH_SOCKET or pass socket="
            raise errors.BadArgument(f"socket: value '' must be the worker's socket: {hint}")
        return self._worker

    @property
    def host(self) -> Host:
        """This machine: its name and devices."""
        return self.worker.host

    def create(
        self,
        name: str,
        arrays: Mapping[str, Array],
        *,
        step: int = 0,
        labels: Optional[Mapping[str, str]] = None,
        topology: Optional[topology_pb2.Topology] = None,
    ) -> State:
        """Declares a state that is written once: each host's trainer then allocates, writes and
        seals its shards, and the state is READY when all have. name: jobs/{job}/states/{state}.
        topology: None: the workers' own device ids. AlreadyExists, HostAway, HostDrained,
        WorkerTooOld, ServerTooOld, BadArgument."""
        return self.create_from(
            state_pb2.State(
                name=name,
                spec=layout.spec_of(arrays, topology),
                step=step,
                labels=labels,
            )
        )

    def create_from(self, declared: state_pb2.State) -> State:
        """create() of a message."""
        request = state_pb2.CreateStateRequest(
            state=declared, request_id=str(uuid.uuid4()), fence=self.fence
        )
        request.state.write_once = True
        created = State(self, self.calls.call(lambda: self.state_stub().CreateState, request))
        if not created.proto.write_once:  # a server that ignores what it does not know
            created.delete()
            raise errors.ServerTooOld(
                f"{created.name}: the server does not know states that are written once: replace "
                "it by a newer version",
                metadata={"state": created.name},
            )
        return created

    def state(self, name: str) -> State:
        """The state of that name. NotFound."""
        return State(
            self,
            self.calls.call(
                lambda: self.state_stub().GetState, state_pb2.GetStateRequest(name=name)
            ),
        )

    def local(self, name: str, uid: str = "") -> LocalState:
        """A state's shards on this host, without a call to the server. uid: State.uid; "": that of
        the state that the worker knows or comes to know."""
        return LocalState(self.worker, name, uid)

    def states(self, parent: str = "") -> Iterator[State]:
        """All states of a job (jobs/{job}), or of all jobs, by name; without their arrays."""
        request = state_pb2.ListStatesRequest(
            parent=parent, page_size=_PAGE, view=state_pb2.ListStatesRequest.BASIC
        )
        while True:
            page = self.calls.call(lambda: self.state_stub().ListStates, request)
            for proto in page.states:
                yield State(self, proto)
            request.page_token = page.next_page_token
            if not page.next_page_token:
                return

    def workers(self) -> Iterator[worker_pb2.Worker]:
        """All workers that the server knows, by name."""
        request = worker_pb2.ListWorkersRequest(page_size=_PAGE)
        while True:
            page = self.calls.call(
                lambda: worker_pb2_grpc.WorkerServiceStub(self.channel()).ListWorkers, request
            )
            yield from page.workers
            request.page_token = page.next_page_token
            if not page.next_page_token:
                return

    def channel(self) -> grpc.Channel:
        """The gRPC channel to the server as it is now, for calls that have no method here. It may
        be another after a change of certificates."""
        self.calls.check()
        return self._server.channel()

    def state_stub(self) -> state_pb2_grpc.StateServiceStub:
        """A stub on channel()."""
        return state_pb2_grpc.StateServiceStub(self.channel())

    def reshard_stub(self) -> reshard_pb2_grpc.ReshardServiceStub:
        """A stub on channel()."""
        return reshard_pb2_grpc.ReshardServiceStub(self.channel())
