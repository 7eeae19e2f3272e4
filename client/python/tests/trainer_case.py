# SPDX-License-Identifier: Apache-2.0
"""A planner and a worker that only pretend, in this process, and a Trainer of them."""

import concurrent.futures
import contextlib
import itertools
import pathlib
import shutil
import socket
import tempfile
import threading
import time
import unittest

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from remesh.trainer import Trainer
from remesh.v1 import (
    local_pb2,
    local_pb2_grpc,
    reshard_pb2,
    reshard_pb2_grpc,
    sharding_pb2,
    state_pb2,
    state_pb2_grpc,
)

STATE = "jobs/a/states/b"
_INFO = error_details_pb2.ErrorInfo(
    reason="WORKER_LOST", domain="remesh", metadata={"host": "host-1"}
)


def _details(info=_INFO, code=14):
    packed = any_pb2.Any()
    packed.Pack(info)
    return status_pb2.Status(code=code, message="host-1 is lost", details=[packed])


def _abort(context, code, reason):
    details = _details(error_details_pb2.ErrorInfo(reason=reason, domain="remesh"), code.value[0])
    context.set_trailing_metadata((("grpc-status-details-bin", details.SerializeToString()),))
    context.abort(code, "host-1 is lost")


class FakeWorker(local_pb2_grpc.LocalServiceServicer):
    """Two shards of one file: bf16 [2, 3] and s4 of three elements."""

    def __init__(self, folder):
        self.path = folder / "buffer"
        self.path.write_bytes(bytes(128))
        self.retires = self.retired = self.hangs = self.refuses_loans = False
        self.on_lend = lambda: None
        self.writes = []
        self.refusals = iter([])  # of GetShards: codes and reasons

    def Allocate(self, request, context):
        if self.hangs:
            context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
        common = {"path": str(self.path), "device": 4}
        return local_pb2.ShardsResponse(
            generation=1,
            shards=[
                local_pb2.Shard(
                    array="w",
                    box=sharding_pb2.Box(lo=[2, 0], hi=[4, 3]),
                    element_type="bf16",
                    offset=0,
                    bytes=12,
                    shape=[4, 3],
                    **common,
                ),
                local_pb2.Shard(
                    array="q",
                    box=sharding_pb2.Box(lo=[0], hi=[3]),
                    element_type="s4",
                    offset=64,
                    bytes=2,
                    shape=[3],
                    **common,
                ),
            ],
        )

    def GetShards(self, request, context):
        """A generation may be retired between the answer and the mapping."""
        for code, reason in self.refusals:
            _abort(context, code, reason)
        if self.retired:
            context.abort(grpc.StatusCode.NOT_FOUND, "retired")
        if self.retires:
            self.path.unlink()
            self.retired = True
        return self.Allocate(request, context)

    def Seal(self, request, context):
        self.writes.append(("Seal", request.write))
        return local_pb2.SealResponse(sealed_shards=2, total_shards=2)

    def Unseal(self, request, context):
        self.writes.append(("Unseal", request.write))
        return local_pb2.SealResponse(total_shards=2)

    def Lend(self, request, context):
        self.on_lend()
        self.writes.append(("Lend", request.write))
        if self.refuses_loans:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no")
        return local_pb2.SealResponse(sealed_shards=1, total_shards=1, generation=1)


class FakeHandles:
    """The worker's socket of handles. `has` says whether the worker has memory of the lease open,
    each time that it is asked; None: it gives no answer. leases: how many stand."""

    def __init__(self, path):
        self.has, self.asked, self.leases = itertools.repeat(False), 0, 0
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._server.bind(path)
        self._server.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(
                    target=self._answer, args=(self._server.accept()[0],), daemon=True
                ).start()

    def _answer(self, end):
        lease = 0
        with end:
            while question := end.recv(100):
                if question == b"lease":
                    lease = 1
                    self.leases += 1
                    end.send(b"ok 0123")
                else:
                    self.asked += 1
                    has = next(self.has)
                    if has is not None:
                        end.send(b"yes" if has else b"no")
        self.leases -= lease


class FakePlanner(reshard_pb2_grpc.ReshardServiceServicer, state_pb2_grpc.StateServiceServicer):
    def __init__(self, last_phase):
        self.last_phase, self.watches, self.starts, self.stays = last_phase, 0, [], None

    def StartExecution(self, request, context):
        """Takes the first request and goes down before it can answer."""
        self.starts.append(request)
        if len(self.starts) == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "going down")
        return reshard_pb2.Execution(name="jobs/a/executions/1")

    def WatchExecution(self, request, context):
        """Breaks off once, as a restarting server does."""
        self.watches += 1
        yield reshard_pb2.Execution(name=request.name, phase=reshard_pb2.Execution.TRANSFERRING)
        if self.watches == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "going down")
        yield reshard_pb2.Execution(name=request.name, phase=self.last_phase, error=_details())

    def WatchState(self, request, context):
        """Breaks off once, ends without a reason once."""
        self.watches += 1
        if self.stays is not None:
            yield self.stays
            while context.is_active():
                time.sleep(0.01)
            return
        yield state_pb2.State(name=request.name, phase=state_pb2.State.BUILDING)
        if self.watches == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "going down")
        if self.watches > 2:
            yield state_pb2.State(name=request.name, phase=state_pb2.State.READY)

    def GetState(self, request, context):
        context.set_trailing_metadata(
            (("grpc-status-details-bin", _details().SerializeToString()),)
        )
        context.abort(grpc.StatusCode.UNAVAILABLE, "host-1 is lost")


class TrainerCase(unittest.TestCase):
    def start(self, last_phase=reshard_pb2.Execution.SUCCEEDED):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="trainer-test-"))
        self.addCleanup(shutil.rmtree, folder)
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        self.addCleanup(lambda: server.stop(None).wait())
        planner, self.worker = FakePlanner(last_phase), FakeWorker(folder)
        local_pb2_grpc.add_LocalServiceServicer_to_server(self.worker, server)
        reshard_pb2_grpc.add_ReshardServiceServicer_to_server(planner, server)
        state_pb2_grpc.add_StateServiceServicer_to_server(planner, server)
        socket_path = str(folder / "worker.sock")
        server.add_insecure_port(f"unix:{socket_path}")
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.another_trainer = lambda: Trainer(f"127.0.0.1:{port}", socket_path)
        trainer = self.another_trainer()
        self.planner, self.handles = planner, FakeHandles(socket_path + ".handles")
        self.addCleanup(self.handles.close)
        self.addCleanup(trainer.close)
        return trainer
