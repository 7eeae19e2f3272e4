# SPDX-License-Identifier: Apache-2.0
"""A server and a worker in this process that only pretend, and keep every request."""

import concurrent.futures
import contextlib
import pathlib
import tempfile
from typing import Iterator, List

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from remesh.v1 import (
    local_pb2,
    local_pb2_grpc,
    reshard_pb2,
    reshard_pb2_grpc,
    sharding_pb2,
    state_pb2,
    state_pb2_grpc,
    worker_pb2,
    worker_pb2_grpc,
)

STATE = "jobs/a/states/b"


def abort(context, code: grpc.StatusCode, message: str, reason: str, **metadata: str):
    """Refuses a call as handlers of remesh do."""
    packed = any_pb2.Any()
    packed.Pack(error_details_pb2.ErrorInfo(reason=reason, domain="remesh", metadata=metadata))
    details = status_pb2.Status(code=code.value[0], message=message, details=[packed])
    context.set_trailing_metadata((("grpc-status-details-bin", details.SerializeToString()),))
    context.abort(code, message)


class Scripted:
    """Answers each call of a method by the next of its script, and the last one from then on: a
    message, or a function of the context that aborts."""

    def __init__(self):
        self.requests, self.scripts = [], {}

    def answer(self, method: str, request, context, default):
        self.requests.append(request)
        script: List = self.scripts.get(method, [])
        chosen = script.pop(0) if len(script) > 1 else script[0] if script else default
        return chosen(context) if callable(chosen) else chosen

    def of(self, kind) -> List:
        """The requests of a type."""
        return [request for request in self.requests if isinstance(request, kind)]


class FakeWorker(Scripted, local_pb2_grpc.LocalServiceServicer):
    """host-0, with devices 4 and 5 and one shard: bf16 [2, 3]."""

    def __init__(self, folder: pathlib.Path, server: str):
        super().__init__()
        self.path, self._server = folder / "buffer", server
        self.path.write_bytes(bytes(128))
        self.shard = local_pb2.Shard(
            array="w",
            device=4,
            box=sharding_pb2.Box(lo=[2, 0], hi=[4, 3]),
            element_type="bf16",
            offset=64,
            bytes=12,
            shape=[4, 3],
            path=str(self.path),
        )

    def GetHost(self, request, context):
        devices = [
            local_pb2.HostDevice(id=4 + index, index=index, kind="host", memory_bytes=1 << 30)
            for index in range(2)
        ]
        default = local_pb2.GetHostResponse(
            host="host-0",
            cluster_uid="c",
            devices=devices,
            server_address=self._server,
            attached=True,
        )
        return self.answer("GetHost", request, context, default)

    def Allocate(self, request, context):
        return self.answer(
            "Allocate",
            request,
            context,
            local_pb2.ShardsResponse(shards=[self.shard], generation=1, state_uid="u"),
        )

    def GetShards(self, request, context):
        return self.answer(
            "GetShards",
            request,
            context,
            local_pb2.ShardsResponse(shards=[self.shard], generation=1, state_uid="u"),
        )

    def Seal(self, request, context):
        return self.answer(
            "Seal",
            request,
            context,
            local_pb2.SealResponse(sealed_shards=1, total_shards=1, state_uid="u"),
        )


class FakeServer(
    Scripted,
    state_pb2_grpc.StateServiceServicer,
    reshard_pb2_grpc.ReshardServiceServicer,
    worker_pb2_grpc.WorkerServiceServicer,
):
    """One state, whose uid is "u"."""

    def __init__(self):
        super().__init__()
        spec = state_pb2.StateSpec(
            arrays=[
                state_pb2.StateArray(
                    name="w",
                    shape=[4, 3],
                    element_type="bf16",
                    sharding=sharding_pb2.Sharding(
                        hlo_text="{replicated}", devices=sharding_pb2.DeviceList(ids=[4])
                    ),
                )
            ]
        )
        self.state = state_pb2.State(
            name=STATE,
            uid="u",
            generation=1,
            phase=state_pb2.State.READY,
            step=3,
            spec=spec,
            write_once=True,
        )

    def GetState(self, request, context):
        return self.answer("GetState", request, context, self.state)

    def CreateState(self, request, context):
        return self.answer("CreateState", request, context, self.state)

    def ListStates(self, request, context):
        return self.answer(
            "ListStates", request, context, state_pb2.ListStatesResponse(states=[self.state])
        )

    def UpdateState(self, request, context):
        return self.answer(
            "UpdateState", request, context, state_pb2.UpdateStateResponse(state=self.state)
        )

    def DeleteState(self, request, context):
        return self.answer(
            "DeleteState", request, context, state_pb2.DeleteStateResponse(absent_hosts=["host-1"])
        )

    def WatchState(self, request, context):
        yield self.answer("WatchState", request, context, self.state)

    def StartExecution(self, request, context):
        return self.answer(
            "StartExecution",
            request,
            context,
            reshard_pb2.Execution(name="jobs/a/executions/1", target_generation=2),
        )

    def WatchExecution(self, request, context):
        yield self.answer(
            "WatchExecution",
            request,
            context,
            reshard_pb2.Execution(
                name=request.name, phase=reshard_pb2.Execution.SUCCEEDED, target_generation=2
            ),
        )

    def ListWorkers(self, request, context):
        return self.answer("ListWorkers", request, context, worker_pb2.ListWorkersResponse())


class Fakes:
    """Both, and where they listen."""

    def __init__(self, folder: pathlib.Path):
        self.server = FakeServer()
        self._planner = _grpc_server()
        self.address = f"127.0.0.1:{self._planner.add_insecure_port('127.0.0.1:0')}"
        state_pb2_grpc.add_StateServiceServicer_to_server(self.server, self._planner)
        reshard_pb2_grpc.add_ReshardServiceServicer_to_server(self.server, self._planner)
        worker_pb2_grpc.add_WorkerServiceServicer_to_server(self.server, self._planner)
        self.worker = FakeWorker(folder, self.address)
        self.socket = str(folder / "socket")
        self._agent = _grpc_server()
        local_pb2_grpc.add_LocalServiceServicer_to_server(self.worker, self._agent)
        self._agent.add_insecure_port(f"unix:{self.socket}")
        self._planner.start()
        self._agent.start()

    def stop(self) -> None:
        self._planner.stop(None).wait()
        self._agent.stop(None).wait()


@contextlib.contextmanager
def fakes() -> Iterator[Fakes]:
    """Both, until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        made = Fakes(pathlib.Path(folder))
        try:
            yield made
        finally:
            made.stop()


def _grpc_server() -> grpc.Server:
    return grpc.server(concurrent.futures.ThreadPoolExecutor(8))
