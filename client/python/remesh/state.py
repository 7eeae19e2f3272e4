# SPDX-License-Identifier: Apache-2.0
"""A state, as the server described it: its layout, and what can be done with it."""

import contextlib
import datetime
import uuid
from typing import TYPE_CHECKING, Dict, Iterable, List, Mapping, Optional, Union

from remesh import calls, errors, layout
from remesh.buffers import Shard
from remesh.layout import Array, Layout
from remesh.move import Move
from remesh.v1 import local_pb2, plan_pb2, reshard_pb2, state_pb2
from remesh.worker import LocalState

if TYPE_CHECKING:
    from remesh.client import Client

Targets = Union[reshard_pb2.Targets, Mapping[str, Layout]]


class State:
    """What the server said of a state at one moment: refresh() asks again. Calls name the state by
    its uid, so that none reaches a later state of the same name (StateReplaced). Thread-safe; after
    a fork() every call raises ForkedError, after Client.close() Closed.

    Every call waits out a restart of the server or worker for as long as it may take, and raises
    ServerAway after that."""

    def __init__(self, client: "Client", proto: state_pb2.State):
        self._client, self.proto = client, proto
        self._local: Optional[LocalState] = None

    def __repr__(self) -> str:
        return f"<State {self.name} {self.phase} generation {self.generation} step {self.step}>"

    @property
    def name(self) -> str:
        """jobs/{job}/states/{state}."""
        return self.proto.name

    @property
    def uid(self) -> str:
        """Unique to this state."""
        return self.proto.uid

    @property
    def generation(self) -> int:
        """1 at first; a move that succeeds raises it (Moved.generation)."""
        return self.proto.generation

    @property
    def phase(self) -> str:
        """One of BUILDING, READY, MOVING, LOST and DEGRADED."""
        return state_pb2.State.Phase.Name(self.proto.phase)

    @property
    def step(self) -> int:
        """The training step."""
        return self.proto.step

    @property
    def labels(self) -> Dict[str, str]:
        """The job's own labels."""
        return dict(self.proto.labels)

    @property
    def arrays(self) -> Dict[str, Array]:
        """The arrays by name, as they lie at `generation`. Empty for states of Client.states(),
        which leave it out."""
        return layout.arrays_of(self.proto.spec)

    @property
    def bytes(self) -> int:
        """Of all shards."""
        return self.proto.total_bytes

    @property
    def lost_hosts(self) -> List[str]:
        """Hosts that should hold shards and are away, or back without them."""
        return list(self.proto.lost_hosts)

    @property
    def unsealed_hosts(self) -> List[str]:
        """Hosts that are there and have not sealed all of their shards yet."""
        return list(self.proto.unsealed_hosts)

    @property
    def local(self) -> LocalState:
        """The same state's shards on this host."""
        if self._local is None:
            self._local = self._client.local(self.name, self.uid)
        return self._local

    def refresh(self) -> "State":
        """The state as it is now. StateReplaced, NotFound."""
        return self._checked(self._client.state(self.name))

    def allocate(
        self, devices: Optional[Iterable[int]] = None, wait: float = calls.CALL_SECONDS
    ) -> List[Shard]:
        """LocalState.allocate(): this host's shards, to be written."""
        return self.local.allocate(devices, wait)

    def seal(self, devices: Optional[Iterable[int]] = None) -> local_pb2.SealResponse:
        """LocalState.seal(): this host's shards are written."""
        return self.local.seal(devices)

    def read(
        self,
        generation: Optional[int] = None,
        devices: Optional[Iterable[int]] = None,
        wait: float = calls.CALL_SECONDS,
        *,
        private: bool = False,
    ) -> List[Shard]:
        """LocalState.read(): this host's shards of a generation; None: that of this object."""
        return self.local.read(
            self.generation if generation is None else generation, devices, wait, private=private
        )

    def update(
        self, *, step: Optional[int] = None, labels: Optional[Mapping[str, str]] = None
    ) -> "State":
        """Replaces step, labels (all of them) or both, while the state is BUILDING: durable when it
        returns, so a writer calls it before its own seal(). StateCommitted, StateReplaced."""
        request = state_pb2.UpdateStateRequest(
            name=self.name,
            uid=self.uid,
            request_id=str(uuid.uuid4()),
            step=self.step if step is None else step,
            labels=self.labels if labels is None else labels,
            fence=self._client.fence,
        )
        answer = self._client.calls.call(lambda: self._client.state_stub().UpdateState, request)
        return State(self._client, answer.state)

    def wait_ready(self, timeout: float = 60.0) -> "State":
        """Waits until every shard of every host is sealed. A state whose hosts are away is waited
        for, too. TimedOut says which hosts are missing; StateReplaced, NotFound if it is
        deleted."""
        seen = self

        def awaited() -> str:
            return f"{self.name} is READY; it is {_standing(seen.proto)}"

        request = state_pb2.WatchStateRequest(name=self.name)
        with contextlib.closing(
            self._client.calls.watch(
                lambda: self._client.state_stub().WatchState, request, timeout, awaited
            )
        ) as stream:
            for message in stream:
                seen = self._checked(State(self._client, message))
                if message.phase == state_pb2.State.READY:
                    return seen
        raise AssertionError("a watch ends by an error only")

    def reshard(
        self,
        targets: Targets,
        *,
        lost: Iterable[int] = (),
        lose_absent_hosts: bool = False,
        options: Optional[plan_pb2.PlanOptions] = None,
        request_id: Optional[str] = None,
        deadline: Optional[float] = None,
        timeout: float = calls.CALL_SECONDS,
    ) -> Move:
        """Starts a move from `generation` to the layouts of `targets`; arrays that it does not name
        stay. Returns as soon as the move is on the server's disk: Move.wait() waits for it. Just
        after a start of the server its hosts are away (NotReady): wait_ready() waits for them.

        lost: devices of which nothing is asked. lose_absent_hosts: the same for all devices of the
        hosts that the server calls lost.
        request_id: repeating it returns the move that it started (random unless given). deadline:
        seconds that the move may take; None: the server's default. StateMoving, GenerationMismatch,
        NotReady, DataLoss, HostDrained, BadArgument."""
        request = self._start_request(targets, lost, lose_absent_hosts, options)
        request.request_id = request_id or str(uuid.uuid4())
        if deadline:
            request.deadline.FromTimedelta(datetime.timedelta(seconds=deadline))
        started = self._client.calls.call(
            lambda: self._client.reshard_stub().StartExecution, request, timeout
        )
        return Move(self._client.calls, self._client.reshard_stub, started)

    def plan(
        self,
        targets: Targets,
        *,
        lost: Iterable[int] = (),
        lose_absent_hosts: bool = False,
        options: Optional[plan_pb2.PlanOptions] = None,
        timeout: float = calls.CALL_SECONDS,
    ) -> plan_pb2.PlanSummary:
        """What the move would cost; checks all that reshard() would, and moves nothing. Errors as
        there."""
        request = self._start_request(targets, lost, lose_absent_hosts, options)
        request.validate_only = True
        return self._client.calls.call(
            lambda: self._client.reshard_stub().StartExecution, request, timeout
        ).summary

    def delete(self, wait: float = 0.0) -> List[str]:
        """Deletes the state and frees its memory. wait: seconds to wait until every attached host
        has freed it. Returns the hosts that were away and free it later. A state that is gone
        already is OK; one of another uid is not touched (StateReplaced). StateMoving."""
        try:
            self.refresh()
            request = state_pb2.DeleteStateRequest(
                name=self.name, uid=self.uid, wait=wait > 0, fence=self._client.fence
            )
            answer = self._client.calls.call(
                lambda: self._client.state_stub().DeleteState,
                request,
                wait or calls.CALL_SECONDS,
                f"every host has freed {self.name}",
            )
        except errors.NotFound:
            return []
        return list(getattr(answer, "absent_hosts", ()))

    def _start_request(
        self,
        targets: Targets,
        lost: Iterable[int],
        lose_absent_hosts: bool,
        options: Optional[plan_pb2.PlanOptions],
    ) -> reshard_pb2.StartExecutionRequest:
        """What reshard() and plan() have in common."""
        request = reshard_pb2.StartExecutionRequest(
            state=self.name,
            expected_generation=self.generation,
            options=options,
            lose_absent_hosts=lose_absent_hosts,
            fence=self._client.fence,
        )
        request.targets.CopyFrom(
            targets if isinstance(targets, reshard_pb2.Targets) else self._targets(targets)
        )
        request.options.lost_device_ids.extend(lost)
        return request

    def _targets(self, layouts: Mapping[str, Layout]) -> reshard_pb2.Targets:
        """BadArgument names an array that the state does not have."""
        ranks = {one.name: len(one.shape) for one in self._with_spec().proto.spec.arrays}
        unknown = [name for name in layouts if name not in ranks]
        if unknown:
            raise errors.BadArgument(
                f"targets: value {unknown[0]!r} must be an array of {self.name}"
            )
        return layout.targets_of(layouts, ranks)

    def _with_spec(self) -> "State":
        return self if self.proto.spec.arrays else self.refresh()

    def _checked(self, other: "State") -> "State":
        """`other`, if it is the same state."""
        if self.uid and other.uid and self.uid != other.uid:
            raise errors.StateReplaced(
                f"{self.name} has uid {other.uid} now, not {self.uid}",
                metadata={"state": self.name, "uid": other.uid},
            )
        return other


def _standing(proto: state_pb2.State) -> str:
    """The phase and what keeps the state from being READY."""
    writes = [f"{one.write or 'no write'} on {one.host}" for one in proto.host_writes]
    parts = [
        ("lost:", proto.lost_hosts),
        ("not sealed on", proto.unsealed_hosts),
        ("of different writes:", writes),
    ]
    return "; ".join(
        [
            state_pb2.State.Phase.Name(proto.phase),
            *(f"{what} {', '.join(names)}" for what, names in parts if names),
        ]
    )
