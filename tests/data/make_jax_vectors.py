# SPDX-License-Identifier: Apache-2.0
"""Writes jax_vectors.jsonl and hlo_vectors.jsonl beside this file: shardings as the real JAX and
XLA see them.

Needs jax[cpu] (tested with 0.10.2); the tests need only its output. Named shardings that are
replicated or unreduced over the whole mesh have the text of 0.11.1, which leaves the mesh out;
0.10.2 and 0.12.0.1 print it.
  jax_vectors.jsonl, one NamedSharding a line: {"op_sharding": hex bytes, "text": XLA's text,
  "shape": extents, "devices": ids in the
    order of the sharding's device list, "boxes": per entry of that list the [lo, hi] of each
    dimension}.
  hlo_vectors.jsonl, one text a line: {"given": text, "text": XLA's canonical text, "op_sharding":
  hex bytes}, and of named shardings
    "v2": the text of the tiled form that XLA makes of it.
"""

import json
import os
import pathlib
import random

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=64"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402
from jaxlib.xla_client import HloSharding  # noqa: E402

HERE = pathlib.Path(__file__).parent


def prime_factors(n):
    factors, d = [], 2
    while n > 1:
        while n % d == 0:
            factors.append(d)
            n //= d
        d += 1
    return factors


def random_split(rng, n, parts):
    sizes = [1] * parts
    for factor in prime_factors(n):
        sizes[rng.randrange(parts)] *= factor
    return sizes


def box_of(index, shape):
    return [list(part.indices(extent)[:2]) for part, extent in zip(index, shape)]


def jax_case(rng):
    count = rng.choice([1, 2, 3, 4, 6, 8, 12, 16, 16, 24, 32, 48, 64])
    sizes = random_split(rng, count, rng.randint(1, 4))
    ids = rng.sample(range(64), count) if rng.random() < 0.6 else list(range(count))
    names = [f"x{i}" for i in range(len(sizes))]
    mesh = Mesh(np.array([jax.devices()[i] for i in ids]).reshape(sizes), names)
    rank = rng.randint(1, 4)
    dims = [[] for _ in range(rank)]
    for name in rng.sample(names, len(names)):
        if rng.random() < 0.75:
            dims[rng.randrange(rank)].append(name)
    size_of = dict(zip(names, sizes))
    shape = [
        int(np.prod([size_of[n] for n in dim], dtype=int)) * rng.choice([1, 2, 3]) for dim in dims
    ]
    sharding = NamedSharding(mesh, PartitionSpec(*[tuple(dim) or None for dim in dims]))
    hlo = sharding._to_xla_hlo_sharding(rank)
    index_of = {
        device.id: index for device, index in sharding.devices_indices_map(tuple(shape)).items()
    }
    devices = [device.id for device in sharding._device_assignment]
    return {
        "op_sharding": hlo.to_proto().SerializeToString().hex(),
        "text": str(hlo),
        "shape": shape,
        "devices": devices,
        "boxes": [box_of(index_of[d], shape) for d in devices],
    }


def random_text(rng):
    count = rng.choice([2, 4, 6, 8, 12, 16, 24, 36, 48])
    dims = random_split(rng, count, rng.randint(1, 5))
    tile = "[" + ",".join(map(str, dims)) + "]"
    if rng.random() < 0.25:
        text = "devices=" + tile + ",".join(map(str, rng.sample(range(count), count)))
    else:
        reshape = random_split(rng, count, rng.randint(1, 4))
        perm = rng.sample(range(len(reshape)), len(reshape))
        text = f"devices={tile}<=[{','.join(map(str, reshape))}]"
        if len(reshape) > 1:
            text += f"T({','.join(map(str, perm))})"
    kind = rng.random()
    if kind < 0.3:
        text += " last_tile_dim_replicate"
    elif kind < 0.7:
        types = ["manual", "replicated", "unreduced", "replicated", "maximal"]
        chosen = [rng.choice(types) for _ in range(rng.randint(1, min(3, len(dims))))]
        text += " last_tile_dims={" + ",".join(chosen) + "}"
    if rng.random() < 0.1:
        text += rng.choice([" shard_as 3", " shard_like 1", ' metadata={op_name="a/b"}'])
    return "{" + text + "}"


def random_named_text(rng):
    """A named sharding whose parts of axes are never neighbours in one list: XLA aborts on lists
    that could be shorter."""
    sizes = [rng.choice([2, 2, 3, 4, 6, 8]) for _ in range(rng.randint(1, 3))]
    refs = []
    for axis, size in enumerate(sizes):
        factors = prime_factors(size)
        if len(factors) > 1 and rng.random() < 0.5:
            cut = rng.randrange(1, len(factors))
            first = int(np.prod(factors[:cut]))
            refs += [
                (axis, 1, f"'x{axis}':(1){first}"),
                (axis, first, f"'x{axis}':({first}){size // first}"),
            ]
        else:
            refs.append((axis, 1, f"'x{axis}'"))
    rng.shuffle(refs)
    lists = [[] for _ in range(rng.randint(1, 3))] + [[], [], []]
    for ref in refs:
        lists[rng.randrange(len(lists))].append(ref)
    dims, others = lists[:-3], [sorted(refs) for refs in lists[-3:-1]]
    for refs in dims + others:
        if any(a[0] == b[0] for a, b in zip(refs, refs[1:])):
            return random_named_text(rng)
    text = "mesh[" + ",".join(f"'x{axis}'={size}" for axis, size in enumerate(sizes)) + "]"
    if rng.random() < 0.3:
        count = int(np.prod(sizes))
        ids = rng.sample(range(count), count)
        if ids != sorted(ids):
            text += ", device_ids=(" + ",".join(map(str, ids)) + ")"
    text += (
        ", [" + ", ".join("{" + ", ".join(name for _, _, name in refs) + "}" for refs in dims) + "]"
    )
    for word, refs in zip(["replicated", rng.choice(["unreduced", "manual"])], others):
        if refs:
            text += f", {word}=" + "{" + ", ".join(name for _, _, name in refs) + "}"
    return "{" + text + "}"


FIXED_TEXTS = [
    "{}",
    "{replicated}",
    "{ replicated }",
    "{manual}",
    "{unknown}",
    "{unreduced}",
    "{maximal device=3}",
    "{device=3 maximal}",
    "{devices=[4,1]0,1,2,3}",
    "{devices=[2, 2] <= [4]}",
    "{devices=[1,1]<=[1]}",
    "{shard_like 4 replicated}",
    "{{replicated}, {maximal device=1}, "
    "{devices=[2]<=[2]},{replicated},{manual},{replicated},{unknown}}",
    '{replicated metadata={{op_name="a"},{op_name="b"}}}',
    "{mesh['a'=2,'b'=4], [{'a'}, {'b'}]}",
    "{mesh['a'=2,'b'=4], [{'a'}, {}], replicated={'b'}}",
    "{mesh['a'=2,'b'=4], [{'a'}, {'b':(1)2}]}",
    "{mesh['a'=2,'b'=4], [{'a'}, {'b':(2)2}]}",
    "{mesh['a'=2,'b'=4], replicated}",
    "{mesh['a'=2,'b'=4], manual}",
    "{mesh['a'=2,'b'=4], unreduced}",
    "{mesh['a'=2,'b'=4], []}",
    "{mesh['a'=2,'b'=4], [], replicated={'a'}}",
    "{mesh['a'=2,'b'=4], [{'a'}, {}], unreduced={'b'}}",
    "{mesh['a'=2,'b'=4], [{}], manual={'b'}, unreduced={'a'}}",
    "{mesh['a'=2,'b'=4], [{'a','b', ?}]}",
    "{mesh['a'=2,'b'=4], [{?}, {}]}",
    "{maximal_mesh[device_id=3]}",
    "{mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)), [{'a'}, {}]}",
    "{mesh['a'=2,'b'=4], device_ids=(7,6,5,4,3,2,1,0), [{'a'}, {?}]}",
]


def hlo_case(text):
    hlo = HloSharding.from_string(text)
    line = {
        "given": text,
        "text": str(hlo),
        "op_sharding": hlo.to_proto().SerializeToString().hex(),
    }
    if "mesh[" in text:
        line["v2"] = str(HloSharding.v3_to_v2_sharding(hlo))
    return line


def write(name, lines):
    with (HERE / name).open("w") as out:
        for line in lines:
            out.write(json.dumps(line, separators=(",", ":")) + "\n")


def main():
    rng = random.Random(20261121)
    write("jax_vectors.jsonl", [jax_case(rng) for _ in range(300)])
    texts = FIXED_TEXTS + [random_text(rng) for _ in range(400)]
    texts += [random_named_text(rng) for _ in range(150)]
    write("hlo_vectors.jsonl", [hlo_case(text) for text in texts])


if __name__ == "__main__":
    main()
