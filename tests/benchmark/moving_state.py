# SPDX-License-Identifier: Apache-2.0
"""A state that moves to and fro between two layouts, for suites that time moves."""

import dataclasses
import time
from typing import List, Sequence, Tuple


@dataclasses.dataclass(frozen=True)
class MovingState:
    """arrays: (name, shape, element type). Odd generations are in layout 0, even ones in layout 1:
    `shardings` has HLO's text of each, `devices` its devices."""

    name: str
    arrays: List[Tuple[str, Sequence[int], str]]
    shardings: Sequence[str]
    devices: Sequence[Sequence[int]]

    def create(self, trainers, cluster, nic_bytes_per_second: float, seconds: float) -> None:
        """Creates it in layout 0 and writes it; `seconds`: the longest wait for READY."""
        from remesh.v1 import state_pb2, topology_pb2

        hosts = [
            topology_pb2.Host(
                name=host,
                device_ids=cluster.device_ids(host),
                nics=1,
                nic_bytes_per_second=nic_bytes_per_second,
                fabric_bytes_per_second=1e11,
            )
            for host in cluster.host_names
        ]
        spec = state_pb2.StateSpec(
            topology=topology_pb2.Topology(hosts=hosts), shardings={"all": self._layout(0)}
        )
        for name, shape, element_type in self.arrays:
            spec.arrays.add(name=name, shape=shape, element_type=element_type).sharding.ref = "all"
        trainers[0].create_state(state_pb2.State(name=self.name, spec=spec))
        for trainer in trainers:
            for shard in trainer.allocate(self.name):
                shard.bytes[:] = 7
            trainer.seal(self.name)
        trainers[0].wait_ready(self.name, seconds)

    def move(self, trainer, generation: int):
        """(execution, seconds, seconds of the transfer) of the move from this generation."""
        from remesh.v1 import reshard_pb2, sharding_pb2

        targets = reshard_pb2.Targets(
            shardings={"all": self._layout(generation % 2)},
            arrays=[
                reshard_pb2.TargetArray(name=name, sharding=sharding_pb2.Sharding(ref="all"))
                for name, _, _ in self.arrays
            ],
        )
        started = time.monotonic()
        ended = trainer.wait_execution(trainer.start_reshard(self.name, generation, targets).name)
        seconds = time.monotonic() - started
        begin, end = ended.transfer_start_time, ended.transfer_end_time
        return ended, seconds, (end.ToNanoseconds() - begin.ToNanoseconds()) / 1e9

    def _layout(self, way: int):
        from remesh.v1 import sharding_pb2

        return sharding_pb2.Sharding(
            hlo_text=self.shardings[way], devices=sharding_pb2.DeviceList(ids=self.devices[way])
        )
