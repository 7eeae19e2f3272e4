# SPDX-License-Identifier: Apache-2.0
"""The host's worker, and a state's shards on this host. Nothing here talks to the server."""

from typing import Any, Dict, Iterable, List, Optional

import grpc

from remesh import buffers, calls, errors
from remesh.buffers import Shard
from remesh.host import Host
from remesh.v1 import local_pb2, local_pb2_grpc

_TRIES = 3


class Worker:
    """A connection to the host's worker by its socket. Thread-safe; of no use after a fork()."""

    def __init__(self, socket: str, timeout: float = calls.CALL_SECONDS):
        """Waits until the worker has been attached to its server once. TimedOut, ServerAway."""
        self.socket = socket
        self._channel = grpc.insecure_channel(f"unix:{socket}", options=calls.CHANNEL_OPTIONS)
        self.stub = local_pb2_grpc.LocalServiceStub(self._channel)
        self.calls = self._caller({})
        try:
            self.host = self._get_host(timeout)
        except BaseException:
            self._channel.close()
            raise
        if self.host.name:
            self.calls = self._caller({"host": self.host.name})

    def _caller(self, metadata: Dict[str, str]) -> calls.Caller:
        return calls.Caller(f"the connection to {self.socket}", lambda: self._channel, metadata)

    def _get_host(self, timeout: float) -> Host:
        """An older worker does not say: then the host has no name and no devices."""
        request = local_pb2.GetHostRequest(wait=True)
        try:
            answer = self.calls.call(
                lambda: self.stub.GetHost,
                request,
                timeout,
                f"the worker of {self.socket} is attached to its server",
            )
        except errors.WorkerTooOld:
            answer = local_pb2.GetHostResponse()
        return Host.of(answer)

    def close(self) -> None:
        """Later calls raise Closed. May be called twice."""
        if self.calls.close():
            self._channel.close()


class LocalState:
    """A state's shards on this host. `uid` is "" until the first answer tells it, unless the caller
    knew it; every later call sends it, so that none reaches another state of the same name.
    Thread-safe."""

    def __init__(self, worker: Worker, name: str, uid: str = ""):
        self._worker, self.name, self.uid = worker, name, uid

    def allocate(
        self, devices: Optional[Iterable[int]] = None, wait: float = calls.CALL_SECONDS
    ) -> List[Shard]:
        """Reserves memory for this host's shards, or those of some devices, and returns them to be
        written (buffers.write() is the fastest way). Waits up to `wait` seconds until the state
        exists. NoRoom, StateCommitted, StateReplaced, TimedOut."""
        request = local_pb2.AllocateRequest(
            state=self.name, wait=True, state_uid=self.uid, shards=_selectors(devices)
        )
        answer = self._call("Allocate", request, wait, f"{self.name} is on this host")
        return buffers.map_shards(answer.shards, buffers.WRITE, worker_socket=self._worker.socket)

    def seal(
        self, devices: Optional[Iterable[int]] = None, wait: float = calls.CALL_SECONDS
    ) -> local_pb2.SealResponse:
        """Declares this host's shards, or those of some devices, written: nothing may be stored
        into them from now on. Repeating it is OK. wait: seconds that the worker may be away.
        StateReplaced, NotFound."""
        request = local_pb2.SealRequest(
            state=self.name, state_uid=self.uid, shards=_selectors(devices)
        )
        return self._call("Seal", request, wait)

    def read(
        self,
        generation: int = 1,
        devices: Optional[Iterable[int]] = None,
        wait: float = calls.CALL_SECONDS,
        *,
        private: bool = False,
    ) -> List[Shard]:
        """This host's shards of a committed generation, read-only; with private=True, writable by
        this process alone. Waits up to `wait` seconds until the generation is committed here.
        GenerationRetired, StateReplaced, TimedOut."""
        request = local_pb2.GetShardsRequest(
            state=self.name,
            generation=generation,
            wait=True,
            state_uid=self.uid,
            shards=_selectors(devices),
        )
        awaited = f"generation {generation} of {self.name} is committed on this host"
        for _ in range(_TRIES):
            answer = self._call("GetShards", request, wait, awaited)
            shards = buffers.map_shards(
                answer.shards, worker_socket=self._worker.socket, private=private
            )
            try:
                buffers.open_all(shards)
                return shards
            except (FileNotFoundError, ConnectionError):
                pass  # it was retired between the answer and the mapping: the next answer says so
        raise errors.GenerationRetired(
            f"generation {generation} of {self.name} went away while it was opened"
        )

    def _call(self, method: str, request: Any, timeout: float, awaited: str = "") -> Any:
        """Notes the uid that the answer tells, if none was known."""
        answer = self._worker.calls.call(
            lambda: getattr(self._worker.stub, method), request, timeout, awaited
        )
        self.uid = self.uid or answer.state_uid
        return answer


def _selectors(devices: Optional[Iterable[int]]) -> List[local_pb2.ShardSelector]:
    return [] if devices is None else [local_pb2.ShardSelector(devices=list(devices))]
