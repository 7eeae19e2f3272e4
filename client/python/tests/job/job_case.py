# SPDX-License-Identifier: Apache-2.0
"""Worlds of a NumPy job over real workers, as threads."""

import os
import unittest

import numpy as np

import remesh
from remesh import job, local_group, names, storage
from remesh.job import pieces
from remesh.testing import LocalCluster

_BIN = os.environ.get("REMESH_BIN_DIR", "build/release/bin")


def rows_of(shape, processes):
    """Holders of an array that is cut into rows, one range a process."""
    cuts = [shape[0] * i // processes for i in range(processes + 1)]
    entries = [
        (p, (cuts[p], *[0] * (len(shape) - 1)), (cuts[p + 1], *shape[1:])) for p in range(processes)
    ]
    return storage.Holders.of(shape, entries)


class World:
    """What one process of a NumPy job holds: arrays cut into rows, or whole on every process."""

    def __init__(self, rank, size, arrays, whole=()):
        self.rank, self.size, self.whole = rank, size, set(whole)
        self.shapes = {name: (value.shape, value.dtype) for name, value in arrays.items()}
        self.values = arrays

    def arrays(self):
        kinds = {"float32": "f32", "uint8": "u8", "int64": "s64"}
        holders = {}
        result = []
        for name, (shape, dtype) in self.shapes.items():
            key = (shape, name in self.whole)
            if key not in holders:
                everywhere = name in self.whole or not shape
                holders[key] = (
                    storage.Holders.everywhere(shape, self.size)
                    if everywhere
                    else rows_of(shape, self.size)
                )
            result.append(storage.Array(name, kinds[str(dtype)], holders[key]))
        return result

    def box(self, array):
        mine = array.holders.processes == self.rank
        return tuple(map(int, array.holders.lo[mine][0])), tuple(
            map(int, array.holders.hi[mine][0])
        )

    def pieces(self):
        def content(name):
            return lambda box: self.values[name][tuple(slice(*each) for each in zip(*box))]

        return [job.Piece(array, [self.box(array)], content(array.name)) for array in self.arrays()]

    def restored(self, found):
        """name -> the elements of this process's box."""
        result = {}
        for array in self.arrays():
            box = self.box(array)
            shard = found.shards.with_box(array.name, box)[0]
            content = pieces.read(shard, box)
            result[array.name] = content.view(self.shapes[array.name][1]).reshape(
                [b - a for a, b in zip(*box)]
            )
        return result


def values(seed):
    """Arrays of several shapes and types."""
    random = np.random.default_rng(seed)
    return {
        "w": random.standard_normal((24, 6)).astype(np.float32),
        "b": random.integers(0, 255, (48,), np.uint8),
        "s": random.standard_normal((5, 3)).astype(np.float32),
        "step": np.array(seed, np.int64),
    }


class JobCase(unittest.TestCase):
    """Worlds of threads over a cluster."""

    HOSTS = 4
    WORKER_CONFIG = ()

    @classmethod
    def setUpClass(cls):
        cls.cluster = LocalCluster(_BIN, cls.HOSTS, 2, worker_config=cls.WORKER_CONFIG).__enter__()
        cls.addClassCleanup(cls.cluster.close)

    def world(self, name, size, function, hosts=None, **settings):
        """Runs function(job, World-maker) on `size` processes, as threads."""
        hosts = hosts or self.cluster.host_names

        def run(member):
            client = remesh.connect(self.cluster.worker_socket(hosts[member.rank % len(hosts)]))
            with client, job.Core(name, client=client, job_group=member, **settings) as core:
                return function(core)

        return local_group.run_together(local_group.LocalGroup.make(size, 60.0), run)

    def save(self, name, size, seed, **settings):
        def function(core):
            world = World(core.rank, core.size, values(seed), whole=("s",))
            return core.save_pieces(
                world.pieces(), seed, extra={"rank": core.rank}, block=True
            ).name

        return self.world(name, size, function, **settings)[0]

    def check_restored(self, name, size, seed, saved_size, **settings):
        def function(core):
            world = World(core.rank, core.size, values(seed), whole=("s",))
            found = core.restore_arrays(world.arrays())
            self.assertEqual(found.step, seed)
            self.assertEqual(found.extras, [{"rank": rank} for rank in range(saved_size)])
            for array in world.arrays():
                box = world.box(array)
                want = values(seed)[array.name][tuple(slice(*each) for each in zip(*box))]
                np.testing.assert_array_equal(world.restored(found)[array.name], want, array.name)
            return found.save

        return self.world(name, size, function, **settings)[0]

    def states(self, name):
        with remesh.connect(server=self.cluster.server_address) as client:
            return [names.parse(state.name) for state in client.states(f"jobs/{name}")]

    # The worker dies with its shards, and comes back.
    def wipe(self, host):
        self.cluster.lose_shards(host)
        self.cluster.start_worker(host)
