# SPDX-License-Identifier: Apache-2.0
"""Writes dtensor_vectors.jsonl beside this file: what each rank holds of a DTensor, by torch's own
split functions.

Needs torch (tested with 2.15); the tests need only its output. A line is
  {"mesh": sizes, "placements": [["S", dim] | ["SS", dim, split_factor] | ["R"] | ["P", op]],
  "shape": extents,
   "indices": per rank and tensor dimension the [lo, hi) intervals held, or null where the rank
   holds nothing}.
"""

import json
import pathlib
import random

import torch
from torch.distributed.tensor.placement_types import Shard, _StridedShard


def split(indices, placement, chunks, coordinate):
    """The part of a local tensor's indices (along the sharded dimension) that a coordinate
    keeps."""
    shards, _ = placement._split_tensor(indices, chunks, with_padding=False)
    return shards[coordinate]


def intervals(indices):
    out = []
    for i in indices.tolist():
        if out and out[-1][1] == i:
            out[-1][1] = i + 1
        else:
            out.append([i, i + 1])
    return out


def coordinates(rank, mesh):
    out = []
    for size in reversed(mesh):
        out.append(rank % size)
        rank //= size
    return out[::-1]


def held(mesh, placements, shape, rank):
    local = [torch.arange(extent) for extent in shape]
    for size, placement, coordinate in zip(mesh, placements, coordinates(rank, mesh)):
        if placement[0] == "S":
            local[placement[1]] = split(local[placement[1]], Shard(0), size, coordinate)
        elif placement[0] == "SS":
            strided = _StridedShard(0, split_factor=placement[2])
            local[placement[1]] = split(local[placement[1]], strided, size, coordinate)
    if any(part.numel() == 0 for part in local):
        return None
    return [intervals(part) for part in local]


def random_case(rng):
    mesh = [rng.choice([1, 2, 2, 3, 4, 5]) for _ in range(rng.randint(1, 3))]
    shape = [rng.choice([0, 1, 2, 3, 5, 7, 8, 12, 13, 16, 24]) for _ in range(rng.randint(1, 4))]
    placements = []
    for _ in mesh:
        dim = rng.randrange(len(shape))
        kind = rng.random()
        if kind < 0.4:
            placements.append(["S", dim])
        elif kind < 0.75:
            placements.append(["SS", dim, rng.choice([1, 2, 2, 3, 4, 6])])
        elif kind < 0.95:
            placements.append(["R"])
        else:
            placements.append(["P", rng.choice(["sum", "avg", "max"])])
    return mesh, placements, shape


FIXED = [
    ([2, 2], [["S", 0], ["S", 0]], [5]),
    ([2, 2], [["SS", 0, 2], ["S", 0]], [8, 8]),
    ([4], [["SS", 0, 2]], [9]),
    ([2, 2, 2], [["SS", 0, 4], ["SS", 0, 2], ["S", 0]], [17]),
    ([2, 3], [["SS", 1, 3], ["S", 1]], [4, 10]),
    ([3], [["S", 0]], [0, 4]),
    ([6], [["S", 0]], [11, 20]),
]


def main():
    rng = random.Random(20261121)
    cases = FIXED + [random_case(rng) for _ in range(200)]
    path = pathlib.Path(__file__).with_name("dtensor_vectors.jsonl")
    with path.open("w") as out:
        for mesh, placements, shape in cases:
            ranks = 1
            for size in mesh:
                ranks *= size
            line = {
                "mesh": mesh,
                "placements": placements,
                "shape": shape,
                "indices": [held(mesh, placements, shape, rank) for rank in range(ranks)],
            }
            out.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
