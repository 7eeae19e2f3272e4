#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train.py of the examples beside it: the part of a training loop that talks to remesh. One such process on each node, or
several (torchrun), of which the first writes.

Needs the Python package (client/python, built by scripts/build), grpcio, protobuf and NumPy. From the pod: REMESH_SERVER, REMESH_SOCKET, with
TLS also REMESH_TLS_CA, REMESH_TLS_CERT and REMESH_TLS_KEY; DEVICES, of all nodes; and which of the processes this is.
"""
import os

from remesh.trainer import Trainer
from remesh.v1 import reshard_pb2, sharding_pb2, state_pb2

STATE = "jobs/llama/states/parameters"
DEVICES = int(os.environ.get("DEVICES", "16"))
# Set by an indexed Job, which JobSet makes, or by torchrun and PyTorchJob.
RANK = int(os.environ.get("JOB_COMPLETION_INDEX") or os.environ.get("RANK") or 0)
FIRST_HERE = os.environ.get("LOCAL_RANK", "0") == "0"  # of this node's processes
SECONDS = 600.0


def sharding(hlo_text: str) -> sharding_pb2.Sharding:
    """XLA's text; a NamedSharding of JAX gives it, a DTensor's placements are another form (sharding.proto)."""
    return sharding_pb2.Sharding(hlo_text=hlo_text, devices=sharding_pb2.DeviceList(ids=range(DEVICES)))


def main() -> None:
    rows, columns = sharding(f"{{devices=[{DEVICES},1]<=[{DEVICES}]}}"), sharding(f"{{devices=[1,{DEVICES}]<=[{DEVICES}]}}")
    trainer = Trainer(os.environ["REMESH_SERVER"], os.environ["REMESH_SOCKET"])
    # Every process makes the same calls. The request ids make one state of them, and one move.
    trainer.create_state(state_pb2.State(name=STATE, spec=state_pb2.StateSpec(arrays=[
        state_pb2.StateArray(name="weight", shape=[1024, 1024], element_type="f32", sharding=rows)])), request_id="create")

    # One process of each node fills its shards. They are files that are mapped: jax.device_put(values, device) or torch.from_numpy(values) takes them.
    if FIRST_HERE:
        for shard in trainer.allocate(STATE, SECONDS):
            first_row = shard.info.box.lo[0]
            shard.values()[:] = first_row
        trainer.seal(STATE)
    generation = 1  # what is sealed everywhere
    trainer.wait_ready(STATE, SECONDS)

    # The job changes its layout; the move says which generation holds it.
    targets = reshard_pb2.Targets(arrays=[reshard_pb2.TargetArray(name="weight", sharding=columns)])
    move = trainer.start_reshard(STATE, generation, targets, request_id="to columns")
    generation = trainer.wait_execution(move.name, SECONDS).target_generation
    step = 1024 // DEVICES
    for shard in trainer.read(STATE, generation, SECONDS):
        values = shard.values()
        assert values.shape == (1024, step) and all((values[row] == row // step * step).all() for row in range(1024))
    print(f"process {RANK}: generation {generation} is here", flush=True)
    trainer.close()


if __name__ == "__main__":
    main()
