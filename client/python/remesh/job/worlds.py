# SPDX-License-Identifier: Apache-2.0
"""The worlds of a job, on the server: only process 0 uses this."""

import datetime
import logging
import os
import socket
import time
from typing import Dict, Iterator, List, Optional, Sequence, Set, Tuple

from remesh import errors, names
from remesh.client import Client
from remesh.job.errors import JobRunsTwice, Superseded
from remesh.state import State
from remesh.storage import Host
from remesh.v1 import reshard_pb2, sharding_pb2, state_pb2

_LOG = logging.getLogger("remesh")
_CANCEL_SECONDS = 30.0
_CLAIM_SECONDS = 10.0
_PAUSE_SECONDS = 0.1
# Phases of a save that can be restored.
WHOLE = ("READY", "DEGRADED")
# Labels of a save that the caller may not set: those that begin so, and the
# number of processes that saved.
OWN_LABELS, WORLD_SIZE = "remesh-", "world-size"
# Set by the update before process 0's seal: a save without it is not whole,
# whatever its phase.
WRITTEN = "remesh-written"
# Of a state that is to become the next save: its memory is reserved, and it has
# no content and no step. The update that sets WRITTEN takes it away.
RESERVED = "remesh-reserved"
_ENDED_BY = "remesh-ended-by"  # the world that deletes the save


class Worlds:
    """A job's states by what their names say. May be used by the caller's thread and the one that
    commits."""

    def __init__(self, client: Client, job: str, hosts: Sequence[Host], patience: float):
        """hosts: of the world. patience: seconds to wait for them after a restart of the server."""
        self._client, self.job, self.patience = client, job, patience
        self._hosts = {host.name for host in hosts}
        self.world = 0
        self._claimed: Optional[State] = None

    def create(
        self, state_id: names.StateId, spec: state_pb2.StateSpec, labels: Dict[str, str]
    ) -> State:
        """Creates a state that is written once. AlreadyExists, HostAway, ServerTooOld."""
        declared = state_pb2.State(name=self.name(state_id), spec=spec, labels=labels)
        try:
            return self._client.create_from(declared)
        except (
            errors.HostAway,
            errors.BadArgument,
        ):  # a server that has just started knows no devices yet
            self._await_hosts()
        return self._client.create_from(declared)

    # Until all hosts of the world are attached, or `patience` is over.
    def _await_hosts(self) -> None:
        give_up = time.monotonic() + self.patience
        while not self.attached().issuperset(self._hosts) and time.monotonic() < give_up:
            time.sleep(_PAUSE_SECONDS)

    def attached(self) -> Set[str]:
        """Hosts whose worker is attached to the server."""
        return {worker.registration.host for worker in self._client.workers() if worker.alive}

    def name(self, state_id: names.StateId) -> str:
        """The full name."""
        return names.state_name(self.job, state_id)

    def states(self) -> Iterator[Tuple[names.StateId, State]]:
        """The job's saves, claims and temporary states, without their arrays."""
        for state in self._client.states(names.job_name(self.job)):
            state_id = names.parse(state.name)
            if state_id:
                yield state_id, state

    def find(self, name: str) -> Optional[State]:
        """One of them, without its arrays."""
        return next((state for _, state in self.states() if state.name == name), None)

    def saves(self) -> List[Tuple[names.SaveId, State]]:
        """The saves, newest first."""
        found = [
            (state_id, state)
            for state_id, state in self.states()
            if isinstance(state_id, names.SaveId)
        ]
        return sorted(found, key=lambda each: each[0], reverse=True)

    def claim(self, host: Host) -> int:
        """Makes this process the owner of the next world, and ends what lower worlds left
        unfinished. JobRunsTwice."""
        world = 1 + max((state_id.world for state_id, _ in self.states()), default=0)
        claim = names.WorldId(world)
        try:
            self._claimed = self.create(claim, _one_byte(host), _identity(host))
        except errors.AlreadyExists:
            raise self._runs_twice(claim) from None
        self.world = world
        self._end_lower_worlds()
        return world

    def check_current(self) -> Dict[str, State]:
        """The job's states by name, without their arrays. Superseded if a later world has begun."""
        states = list(self.states())
        later = max((state_id.world for state_id, _ in states), default=0)
        if later > self.world:
            raise Superseded(
                f"world {later} of job {self.job} has begun; this process belongs to world "
                f"{self.world}",
                metadata={"job": self.job, "world": str(later)},
            )
        return {state.name: state for _, state in states}

    def tell(self, labels: Dict[str, str]) -> None:
        """Leaves word for the world's other processes: on process 0."""
        assert self._claimed is not None
        self._claimed.update(labels={**self._claimed.labels, **labels})

    def told(self) -> Dict[str, str]:
        """What tell() left. NotFound if a later world has begun."""
        return self._client.state(self.name(names.WorldId(self.world))).labels

    def later_world(self) -> Optional[int]:
        """A world after this one."""
        worlds = [state_id.world for state_id, _ in self.states() if state_id.world > self.world]
        return max(worlds, default=None)

    def _runs_twice(self, claim: names.WorldId) -> JobRunsTwice:
        other = self._labels_of(claim)
        who = ", ".join(f"{key} {other[key]}" for key in ("host", "pid", "time") if key in other)
        return JobRunsTwice(
            f"job {self.job}: another process claimed world {claim.world} at this moment ({who}): "
            "one of the two must end",
            metadata={"job": self.job, **other},
        )

    # Of a claim whose name is taken; until it is on the server's disk, no call
    # but CreateState knows it.
    def _labels_of(self, claim: names.WorldId) -> Dict[str, str]:
        give_up = time.monotonic() + _CLAIM_SECONDS
        while True:
            try:
                return self._client.state(self.name(claim)).labels
            except errors.NotFound:
                if time.monotonic() > give_up:
                    return {}
            time.sleep(_PAUSE_SECONDS)

    # Deletes saves that lower worlds left unfinished, their claims and
    # temporary states, and ends their moves.
    def _end_lower_worlds(self) -> None:
        for state_id, state in list(self.states()):
            if state_id.world >= self.world:
                continue
            try:
                self._end_move(state)
                if not isinstance(state_id, names.SaveId) or self.unfinished(state):
                    state.delete()
            except errors.RemeshError as error:
                _LOG.warning("%s of an earlier world stays: %s", state.name, error)

    def unfinished(self, save: State) -> bool:
        """Whether the save is not committed; then it is to be deleted. Of one whose hosts are away
        only the server knows: it refuses to update what is committed. The update takes WRITTEN
        away, so that no restore takes the save if it commits now."""
        if save.phase != "LOST":
            return save.phase == "BUILDING"
        labels = {key: value for key, value in save.labels.items() if key != WRITTEN}
        try:
            save.update(labels={**labels, _ENDED_BY: str(self.world)})
        except errors.StateCommitted:
            return False
        return True

    # Cancels the state's move and waits until none runs.
    def _end_move(self, state: State) -> None:
        if state.phase != "MOVING":
            return
        request = reshard_pb2.CancelExecutionRequest(name=state.proto.execution)
        try:
            self._client.calls.call(lambda: self._client.reshard_stub().CancelExecution, request)
        except errors.RemeshError as error:
            _LOG.info(
                "%s is not cancelled: %s", state.proto.execution, error
            )  # it commits, or has ended
        give_up = time.monotonic() + _CANCEL_SECONDS
        while self._client.state(state.name).phase == "MOVING" and time.monotonic() < give_up:
            time.sleep(_PAUSE_SECONDS)


def _one_byte(host: Host) -> state_pb2.StateSpec:
    sharding = sharding_pb2.Sharding(
        hlo_text="{replicated}",
        devices=sharding_pb2.DeviceList(ids=[host.devices[0]]),
        memory_kind="unpinned_host" if host.has_gpus else "",
    )
    return state_pb2.StateSpec(
        arrays=[state_pb2.StateArray(name="claim", shape=[1], element_type="u8", sharding=sharding)]
    )


# Who claims: the values of labels.
def _identity(host: Host) -> Dict[str, str]:
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return {"host": host.name, "node": socket.gethostname(), "pid": str(os.getpid()), "time": now}
