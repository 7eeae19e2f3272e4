# SPDX-License-Identifier: Apache-2.0
"""The parameters of Llama-3.2-1B, and the three layouts that the demo moves them through."""

import dataclasses
from typing import Dict, List, Tuple

from remesh.v1 import reshard_pb2, sharding_pb2, state_pb2, topology_pb2


@dataclasses.dataclass(frozen=True)
class LlamaConfig:
    """Sizes as in the model's config.json; the output projection is tied to the embedding."""

    vocabulary: int = 128256
    hidden: int = 2048
    key_value: int = 512  # 8 key-value heads of 64
    intermediate: int = 8192
    layers: int = 16


LLAMA_3_2_1B = LlamaConfig()
# The same names, the same unevenness, a hundredth of the bytes.
SMALL = LlamaConfig(vocabulary=16032, hidden=208, key_value=56, intermediate=832)

ELEMENT_TYPE = "bf16"
BYTES_PER_ELEMENT = 2


def parameters(config: LlamaConfig) -> Dict[str, Tuple[int, ...]]:
    """Name -> shape of every parameter, named and ordered as in the published checkpoint."""
    hidden, inner = config.hidden, config.intermediate
    shapes = {"model.embed_tokens.weight": (config.vocabulary, hidden)}
    for layer in range(config.layers):
        prefix = f"model.layers.{layer}."
        shapes |= {
            prefix + "self_attn.q_proj.weight": (hidden, hidden),
            prefix + "self_attn.k_proj.weight": (config.key_value, hidden),
            prefix + "self_attn.v_proj.weight": (config.key_value, hidden),
            prefix + "self_attn.o_proj.weight": (hidden, hidden),
            prefix + "mlp.gate_proj.weight": (inner, hidden),
            prefix + "mlp.up_proj.weight": (inner, hidden),
            prefix + "mlp.down_proj.weight": (hidden, inner),
            prefix + "input_layernorm.weight": (hidden,),
            prefix + "post_attention_layernorm.weight": (hidden,),
        }
    shapes["model.norm.weight"] = (hidden,)
    return shapes


def total_bytes(config: LlamaConfig) -> int:
    """Bytes of one copy of every parameter."""
    total = 0
    for shape in parameters(config).values():
        count = BYTES_PER_ELEMENT
        for extent in shape:
            count *= extent
        total += count
    return total


# Megatron's split: what one device computes alone is cut by columns, what is summed afterwards by
# rows.
_BY_INPUT = ("o_proj.weight", "down_proj.weight")
_NOT_CUT = ("layernorm.weight", "model.norm.weight")

FSDP_8 = "FSDP-8"
TP_3_TWICE = "2×TP-3"
FSDP_8_PERMUTED = "FSDP-8, devices permuted"
PERMUTED_DEVICES = (5, 2, 7, 0, 3, 6, 1, 4)


def _fsdp(devices) -> Dict[str, sharding_pb2.Sharding]:
    """torch's fully_shard: every parameter cut along its first dimension, over all devices."""
    return {
        "fsdp": sharding_pb2.Sharding(
            dtensor=sharding_pb2.DTensorSharding(
                mesh_shape=[len(devices)],
                placements=[sharding_pb2.Placement(shard=sharding_pb2.Placement.Shard(dim=0))],
            ),
            devices=sharding_pb2.DeviceList(ids=devices),
        )
    }


def _tensor_parallel() -> Dict[str, sharding_pb2.Sharding]:
    """XLA's text for a 2x3 mesh (replica, model) over devices 0..5, which cuts over 3 devices and
    repeats the cut twice."""
    devices = sharding_pb2.DeviceList(range=sharding_pb2.DeviceList.Range(start=0, count=6))
    texts = {
        "columns": "{devices=[3,1,2]<=[2,3]T(1,0) last_tile_dim_replicate}",
        "rows": "{devices=[1,3,2]<=[2,3]T(1,0) last_tile_dim_replicate}",
        "whole": "{replicated}",
    }
    return {
        key: sharding_pb2.Sharding(hlo_text=text, devices=devices) for key, text in texts.items()
    }


def _tensor_parallel_key(name: str) -> str:
    if name.endswith(_NOT_CUT):
        return "whole"
    return "rows" if name.endswith(_BY_INPUT) else "columns"


def _ref(key: str) -> sharding_pb2.Sharding:
    return sharding_pb2.Sharding(ref=key)


def state(
    name: str, config: LlamaConfig, hosts: Dict[str, List[int]], nic_bytes_per_second: float
) -> state_pb2.State:
    """The state in layout FSDP_8. hosts: name -> device ids."""
    topology = topology_pb2.Topology(
        hosts=[
            topology_pb2.Host(
                name=host,
                device_ids=ids,
                nics=1,
                nic_bytes_per_second=nic_bytes_per_second,
                fabric_bytes_per_second=10 * nic_bytes_per_second,
            )
            for host, ids in hosts.items()
        ]
    )
    arrays = [
        state_pb2.StateArray(
            name=array, shape=shape, element_type=ELEMENT_TYPE, sharding=_ref("fsdp")
        )
        for array, shape in parameters(config).items()
    ]
    return state_pb2.State(
        name=name,
        spec=state_pb2.StateSpec(topology=topology, shardings=_fsdp(range(8)), arrays=arrays),
    )


def targets(layout: str, config: LlamaConfig) -> reshard_pb2.Targets:
    """Where every parameter shall lie: TP_3_TWICE or FSDP_8_PERMUTED."""
    if layout == FSDP_8_PERMUTED:
        shardings, key_of = _fsdp(PERMUTED_DEVICES), lambda name: "fsdp"
    else:
        shardings, key_of = _tensor_parallel(), _tensor_parallel_key
    return reshard_pb2.Targets(
        shardings=shardings,
        arrays=[
            reshard_pb2.TargetArray(name=array, sharding=_ref(key_of(array)))
            for array in parameters(config)
        ],
    )
