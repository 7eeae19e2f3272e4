# SPDX-License-Identifier: Apache-2.0
"""What a job asks of the server in scripts/bench fleet: a state, plans and moves of it."""

import sys

from fleet.processes import DEVICES, MOVE_SECONDS

ARRAYS = 20
STATE = "jobs/bench/states/s"


class Client:
    """A controller of one state. source, target: its shardings, by numbers of devices."""

    def __init__(self, server, source=None, target=None, shape=None, arrays=ARRAYS, state=STATE):
        self._state, self._server = state, server
        import grpc
        from remesh.testing import CHANNEL_OPTIONS
        from remesh.v1 import reshard_pb2_grpc, state_pb2_grpc

        channel = grpc.insecure_channel(
            server.address, [*CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", 1)]
        )
        self._states = state_pb2_grpc.StateServiceStub(channel)
        self._reshards = reshard_pb2_grpc.ReshardServiceStub(channel)
        self._source, self._target, self._shape, self._arrays = (
            source or flat,
            target or flat,
            shape,
            arrays,
        )

    def create_state(self, hosts):
        from remesh.v1 import state_pb2

        self._arrays = min(
            self._arrays, 2_000_000 // (hosts * DEVICES)
        )  # a state may have as many shards
        spec = state_pb2.StateSpec(shardings={"all": self._source(hosts * DEVICES)})
        for i in range(self._arrays):
            array = spec.arrays.add(
                name=f"a{i}", shape=self._shape or [(1 << 26) + 4096 * i], element_type="bf16"
            )
            array.sharding.ref = "all"
        self._states.CreateState(
            state_pb2.CreateStateRequest(state=state_pb2.State(name=self._state, spec=spec)),
            timeout=MOVE_SECONDS,
        )

    def phase(self):
        from remesh.v1 import state_pb2

        state = self._states.GetState(
            state_pb2.GetStateRequest(name=self._state), timeout=60, wait_for_ready=True
        )
        return state_pb2.State.Phase.Name(state.phase)

    def plan(self, generation, devices):
        self._start(generation, devices, validate_only=True)

    def start(self, generation, devices):
        self._server.client = self
        self._execution = self._start(generation, devices).name

    def wait_succeeded(self, fleet):
        fleet.wait_until(
            "the execution ends", lambda: self._execution_phase() in ("SUCCEEDED", "FAILED")
        )
        if self._execution_phase() == "FAILED":
            sys.exit(f"the execution failed: {self.error()}")

    def error(self):
        return self._get_execution().error.message

    def _execution_phase(self):
        from remesh.v1 import reshard_pb2

        return reshard_pb2.Execution.Phase.Name(self._get_execution().phase)

    def _get_execution(self):
        from remesh.v1 import reshard_pb2

        return self._reshards.GetExecution(
            reshard_pb2.GetExecutionRequest(name=self._execution), timeout=60
        )

    def _start(self, generation, devices, **more):
        from remesh.v1 import reshard_pb2, sharding_pb2

        targets = reshard_pb2.Targets(
            shardings={"all": self._target(devices)},
            arrays=[
                reshard_pb2.TargetArray(name=f"a{i}", sharding=sharding_pb2.Sharding(ref="all"))
                for i in range(self._arrays)
            ],
        )
        return self._reshards.StartExecution(
            reshard_pb2.StartExecutionRequest(
                state=self._state, expected_generation=generation, targets=targets, **more
            ),
            timeout=MOVE_SECONDS,
        )


def flat(devices):
    from remesh.v1 import sharding_pb2

    return sharding_pb2.Sharding(
        hlo_text=f"{{devices=[{devices}]<=[{devices}]}}",
        devices=sharding_pb2.DeviceList(
            range=sharding_pb2.DeviceList.Range(start=0, count=devices)
        ),
    )


def rows(devices):
    return on_first_devices(
        f"{{devices=[{devices // DEVICES},1]<=[{devices // DEVICES}]}}", devices
    )


def columns(devices):
    return on_first_devices(
        f"{{devices=[1,{devices // DEVICES}]<=[{devices // DEVICES}]}}", devices
    )


def on_first_devices(hlo_text, devices):
    """On the first device of each host."""
    from remesh.v1 import sharding_pb2

    return sharding_pb2.Sharding(
        hlo_text=hlo_text, devices=sharding_pb2.DeviceList(ids=range(0, devices, DEVICES))
    )
