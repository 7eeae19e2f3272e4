# SPDX-License-Identifier: Apache-2.0
"""Who stores which box: laws on random layouts, and the layouts that people have."""

import itertools
import os
import random
import unittest

import numpy as np

from remesh import storage
from remesh.storage import form

_LAYOUTS = int(os.environ.get("REMESH_LAYOUTS", "2000"))  # scripts/nightly: 10,000


def _mesh_holders(shape, mesh, axes, process_of):
    """The boxes of a mesh, row-major over its devices; axes[d]: mesh axis that cuts dimension d, or
    None."""
    entries = []
    for device, position in enumerate(itertools.product(*map(range, mesh))):
        tiles = [(position[axis], mesh[axis]) if axis is not None else (0, 1) for axis in axes]
        lo = [extent * i // n for extent, (i, n) in zip(shape, tiles)]
        hi = [extent * (i + 1) // n for extent, (i, n) in zip(shape, tiles)]
        entries.append((process_of[device], lo, hi))
    return storage.Holders.of(shape, entries)


def _hosts(count, devices, has_gpus=False):
    return [
        storage.Host(f"host-{i}", tuple(range(i * devices, (i + 1) * devices)), has_gpus)
        for i in range(count)
    ]


def _stored_boxes(layout):
    """Of each array: (host, device, lo, hi) of every buffer."""
    result = {}
    for part in layout.parts:
        for array, boxes in zip(part.arrays, part.distinct):
            result[array.name] = [
                (
                    entry.host,
                    entry.device,
                    tuple(boxes.lo[entry.boxes].min(axis=0)),
                    tuple(boxes.hi[entry.boxes].max(axis=0)),
                )
                for entry in part.entries
            ]
    return result


def _inside(inner_lo, inner_hi, lo, hi):
    return all(a <= b for a, b in zip(lo, inner_lo)) and all(a <= b for a, b in zip(inner_hi, hi))


class _Random:
    """A random job: hosts, processes, and arrays over a mesh or in arbitrary boxes."""

    def __init__(self, seed):
        self._random = random.Random(seed)
        pick = self._random
        self.hosts = _hosts(pick.randint(1, 5), pick.choice([1, 1, 2, 3, 4]))
        self.host_of = [
            host for host in range(len(self.hosts)) for _ in range(pick.choice([1, 1, 2]))
        ]
        self.replicas = pick.choice([None, 1, 2, 3])
        devices_each = pick.choice([1, 2, 4])
        process_of = [p for p in range(len(self.host_of)) for _ in range(devices_each)]
        self.process_of = process_of
        holders = [self._holders() for _ in range(pick.randint(1, 4))]
        self.arrays = [
            storage.Array(f"a{i}", pick.choice(["f32", "bf16", "s8", "s4"]), pick.choice(holders))
            for i in range(pick.randint(1, 12))
        ]

    def _holders(self):
        pick, count = self._random, len(self.process_of)
        shape = tuple(pick.choice([1, 4, 6, 12, 24]) for _ in range(pick.randint(0, 3)))
        if pick.random() < 0.3:
            return self._chunks(shape)
        first = pick.choice([n for n in range(1, count + 1) if count % n == 0])
        mesh = (first, count // first)
        process_of = list(self.process_of)
        if pick.random() < 0.3:
            pick.shuffle(process_of)
        axes, free = [], [0, 1]
        for extent in shape:
            axis = pick.choice([None, *free])
            if axis is not None and extent % mesh[axis] == 0:
                free.remove(axis)
                axes.append(axis)
            else:
                axes.append(None)
        return _mesh_holders(shape, mesh, axes, process_of)

    # Uneven chunks of the first dimension, some held twice.
    def _chunks(self, shape):
        pick, processes = self._random, len(self.host_of)
        if not shape:
            return storage.Holders.everywhere(shape, processes)
        cuts = sorted({0, shape[0], *(pick.randrange(shape[0] + 1) for _ in range(3))})
        entries = []
        for lo, hi in zip(cuts, cuts[1:]):
            for process in pick.sample(range(processes), pick.randint(1, min(3, processes))):
                entries.append((process, (lo, *[0] * (len(shape) - 1)), (hi, *shape[1:])))
        return storage.Holders.of(shape, entries)


class StorageTest(unittest.TestCase):

    def check_laws(self, job, layout, replicas):
        boxes = _stored_boxes(layout)
        self.assertEqual(set(boxes), {array.name for array in job.arrays})
        for array in job.arrays:
            held, holders = set(), array.holders
            for process, lo, hi in zip(holders.processes, holders.lo, holders.hi):
                held.add((tuple(lo), tuple(hi), job.host_of[process]))
            for lo, hi in {(lo, hi) for lo, hi, _ in held}:
                on = [host for host, _, a, b in boxes[array.name] if _inside(lo, hi, a, b)]
                own = {host for a, b, host in held if (a, b) == (lo, hi)}
                self.assertEqual(len(on), len(set(on)), f"{array.name}: a box lies twice on a host")
                self.assertEqual(len(on), min(replicas, len(own)), f"{array.name} [{lo}, {hi})")
                self.assertLessEqual(set(on), own)
            self.check_nothing_more(array, held, boxes[array.name])

    # A buffer holds boxes that its host held, and no others.
    def check_nothing_more(self, array, held, buffers):
        for host, _, lo, hi in buffers:
            inside = {(a, b) for a, b, owner in held if owner == host and _inside(a, b, lo, hi)}
            volume = sum(int(np.prod(np.subtract(b, a))) for a, b in inside)
            self.assertEqual(volume, int(np.prod(np.subtract(hi, lo))), array.name)

    # No class can move to another holder and lower the larger load of the two
    # by more than its largest box.
    def check_balance(self, layout):
        for part in layout.parts:
            for unit in part.units:
                for busy, idle in itertools.product(
                    unit.hosts, np.setdiff1d(unit.holders, unit.hosts)
                ):
                    now = max(layout.loads[busy], layout.loads[idle])
                    then = max(layout.loads[busy] - unit.bytes, layout.loads[idle] + unit.bytes)
                    self.assertLessEqual(now - then, unit.largest)

    def check_form(self, layout):
        spec = storage.spec(layout)
        for array in spec.arrays:
            sharding = spec.shardings[array.sharding.ref]
            if sharding.WhichOneof("form") != "boxes":
                ids = spec.device_lists[sharding.devices.ref].ids
                self.assertEqual(len(ids), len(set(ids)))

    def test_laws_of_random_layouts(self):
        for seed in range(_LAYOUTS):
            with self.subTest(seed=seed):
                job = _Random(seed)
                layout = storage.stored(job.arrays, job.hosts, job.host_of, job.replicas)
                self.check_laws(job, layout, job.replicas or 2)
                self.check_balance(layout)
                self.check_form(layout)

    def test_a_restore_asks_for_each_box_of_a_host_once(self):
        for seed in range(500):
            with self.subTest(seed=seed):
                job = _Random(seed)
                layout = storage.wanted(job.arrays, job.hosts, job.host_of)
                self.check_laws(job, layout, len(job.hosts))

    def test_stored_is_wanted_where_no_two_hosts_hold_a_box(self):
        for devices in (1, 2, 8):
            holders = _mesh_holders((64, 6), (8,), (0, None), [device // 2 for device in range(8)])
            arrays = [storage.Array(f"w{i}", "f32", holders) for i in range(3)]
            stored = storage.stored(arrays, _hosts(4, devices), range(4))
            wanted = storage.wanted(arrays, _hosts(4, devices), range(4))
            spec, targets = storage.spec(stored), storage.targets(wanted)
            self.assertEqual(spec.shardings, targets.shardings)
            self.assertEqual(spec.device_lists, targets.device_lists)
            self.assertEqual(
                [array.sharding for array in spec.arrays],
                [array.sharding for array in targets.arrays],
            )
            self.assertTrue(
                spec.shardings["s0"].hlo_text.startswith("{devices="), "not in the compact form"
            )

    def test_a_replicated_array_lies_once_a_replica(self):
        processes = [device // 4 for device in range(8)]
        holders = _mesh_holders((1024, 1024), (8,), (None, None), processes)
        arrays = [storage.Array(f"w{i}", "f32", holders) for i in range(8)]
        for replicas in (1, 2):
            layout = storage.stored(arrays, _hosts(2, 4), range(2), replicas)
            self.assertEqual(layout.loads.sum(), replicas * 8 * (4 << 20))
            self.assertEqual(
                layout.loads[0], layout.loads[1], "one host stores more than the other"
            )

    def test_says_that_a_box_has_fewer_holders_than_replicas_were_asked(self):
        holders = _mesh_holders((8,), (2,), (0,), [0, 1])
        arrays = [storage.Array("w", "f32", holders)]
        self.assertEqual(storage.stored(arrays, _hosts(2, 1), range(2), 2).shortage(), "1 of 2")
        self.assertEqual(storage.stored(arrays, _hosts(2, 1), range(2), None).shortage(), "")
        with self.assertRaisesRegex(ValueError, "replicas: value 0"):
            storage.stored(arrays, _hosts(2, 1), range(2), 0)

    def test_keeps_saves_out_of_the_memory_of_gpus(self):
        arrays = [storage.Array("w", "f32", storage.Holders.everywhere((4,), 1))]
        layout = storage.stored(arrays, _hosts(1, 2, has_gpus=True), [0])
        self.assertEqual(storage.spec(layout).shardings["s0"].memory_kind, "unpinned_host")

    def test_refuses_a_layout_of_too_many_boxes_with_their_count(self):
        entries = [(i % 4, (i * 3 + i % 2,), ((i + 1) * 3 + (i + 1) % 2,)) for i in range(2000)]
        arrays = [
            storage.Array(f"w{n}", "f32", storage.Holders.of((6000 + n,), entries))
            for n in range(100)
        ]
        with self.assertRaisesRegex(storage.LayoutTooLarge, r"layout: \d+ boxes of \d+ arrays"):
            storage.spec(storage.stored(arrays, _hosts(4, 1), range(4)))

    def test_a_thousand_arrays_of_4096_devices_fit_into_a_spec(self):
        for devices in (8, 1):
            arrays, hosts, host_of = _large_job(devices)
            layout = storage.stored(arrays, hosts, host_of, 2)
            for message in (
                storage.spec(layout),
                storage.targets(storage.wanted(arrays, hosts, host_of)),
            ):
                self.assertLessEqual(message.ByteSize(), form.MAX_BYTES)
            self.assertLessEqual(layout.loads.max(), 1.5 * layout.loads.mean(), "unbalanced")


def _large_job(devices):
    """1,137 arrays, FSDP 512 x DP 8, of a process a host with 8 trainer devices."""
    processes = [device // 8 for device in range(4096)]
    shapes = [
        ((8192, 8192), (1, None)),
        ((8192, 1024), (1, None)),
        ((8192, 28672), (1, None)),
        ((28672, 8192), (None, 1)),
        ((8192,), (1,)),
        ((8192,), (None,)),
        ((), ()),
    ]
    holders = [_mesh_holders(shape, (8, 512), axes, processes) for shape, axes in shapes]
    arrays = [
        storage.Array(f"params.layers.{i}.attention.wq.kernel", "bf16", holders[i % len(holders)])
        for i in range(1137)
    ]
    return arrays, _hosts(512, devices), list(range(512))


if __name__ == "__main__":
    unittest.main()
