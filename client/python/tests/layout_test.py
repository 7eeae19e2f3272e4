# SPDX-License-Identifier: Apache-2.0
"""Layouts as values and as messages."""

import unittest

from remesh import layout
from remesh.layout import Array, Box
from remesh.v1 import sharding_pb2, state_pb2


class LayoutTest(unittest.TestCase):
    def test_equal_layouts_are_equal_values(self):
        self.assertEqual(layout.replicated(range(4)), layout.hlo("{replicated}", [0, 1, 2, 3]))
        one = layout.boxes({1: [Box((0,), (2,))], 0: [Box((2,), (4,))]})
        two = layout.boxes({0: [Box((2,), (4,))], 1: [Box((0,), (2,))]})
        self.assertEqual((one, hash(one), one.devices), (two, hash(two), (0, 1)))
        self.assertNotEqual(layout.replicated([0]), layout.replicated([0], "unpinned_host"))

    def test_named(self):
        message = layout.named(
            {"data": 2, "model": 3}, (None, ("model", "data")), range(6), "pinned_host"
        ).proto(rank=3)
        dims = message.named.dim_shardings
        self.assertEqual(
            [[axis.mesh_axis_index for axis in each.axes] for each in dims], [[], [1, 0], []]
        )
        self.assertEqual(
            [(axis.name, axis.size) for axis in message.named.mesh.axes],
            [("data", 2), ("model", 3)],
        )
        self.assertEqual((message.memory_kind, message.devices.range.count), ("pinned_host", 6))

    def test_dtensor(self):
        placements = (layout.replicate(), layout.shard(1), layout.strided_shard(0, 2))
        message = layout.dtensor((2, 1, 1), placements, [3, 9]).proto()
        self.assertEqual(
            [each.WhichOneof("kind") for each in message.dtensor.placements],
            ["replicate", "shard", "strided_shard"],
        )
        self.assertEqual(
            (message.dtensor.placements[2].strided_shard.split_factor, list(message.devices.ids)),
            (2, [3, 9]),
        )

    def test_values_that_cannot_be_written_are_named(self):
        for make, text in (
            (
                lambda: layout.named({"x": 2}, ("y",), [0, 1]),
                "spec: value 'y' must be an axis of the mesh: x",
            ),
            (
                lambda: layout.named({"x": 2}, ("x", "x"), [0, 1]),
                "spec: value 'x' must not cut twice",
            ),
            (lambda: layout.named({"x": 2}, ("x",), [0]), "devices: 1 ids must be 2"),
            (lambda: layout.dtensor((2,), (), [0, 1]), "placements: 0 must be 1"),
            (lambda: layout.dtensor((2,), (layout.shard(0),), [0]), "devices: 1 ids must be 2"),
            (lambda: layout.replicated([]), "devices: value \\(\\) must name at least one device"),
            (lambda: layout.replicated([1, 1]), "must not name a device twice"),
            (lambda: layout.replicated([1], "hbm"), "memory_kind: value 'hbm' must be one of"),
        ):
            with self.assertRaisesRegex(ValueError, text):
                make()

    def test_boxes(self):
        box = Box((1, 2), (3, 7))
        self.assertEqual(
            (box.shape, box.elements, box.slices), ((2, 5), 10, (slice(1, 3), slice(2, 7)))
        )
        self.assertEqual((Box.of(box.proto()), Box.whole((4, 5))), (box, Box((0, 0), (4, 5))))
        self.assertEqual((Box.whole(()).elements, Box.whole(()).shape), (1, ()))

    def test_a_spec_writes_once_what_is_used_twice(self):
        ids = [7, 3, 5, 1, 9, 11, 13, 15, 17]
        rows = layout.hlo("{devices=[9,1]<=[9]}", ids)
        arrays = {f"w{i}": Array((9, 2), "f32", rows) for i in range(3)} | {
            "b": Array((9,), "bf16", layout.hlo("{replicated}", ids))
        }
        spec = layout.spec_of(arrays)
        self.assertEqual((list(spec.shardings), list(spec.device_lists)), (["s0"], ["d0"]))
        self.assertEqual([each.sharding.ref for each in spec.arrays], ["s0", "s0", "s0", ""])
        self.assertEqual(list(spec.device_lists["d0"].ids), ids)
        self.assertEqual((arrays["w0"].bytes, arrays["b"].bytes), (72, 18))

    def test_a_spec_reads_back(self):
        ids = list(range(0, 40, 2))
        given = {
            name: Array((20, 2), "f32", layout.hlo("{devices=[20,1]<=[20]}", ids))
            for name in ("a", "b")
        }
        found = layout.arrays_of(layout.spec_of(given))
        self.assertEqual(list(found), ["a", "b"])
        self.assertEqual(
            found["b"].layout.proto(),
            sharding_pb2.Sharding(
                hlo_text="{devices=[20,1]<=[20]}", devices=sharding_pb2.DeviceList(ids=ids)
            ),
        )
        self.assertEqual(layout.spec_of(found).arrays[0].sharding.ref, "s0")

    def test_named_layouts_of_different_ranks_are_written_apart(self):
        by_rows = layout.named({"x": 2}, ("x",), [0, 1])
        targets = layout.targets_of(
            {"m": by_rows, "v": by_rows, "w": by_rows}, {"m": 2, "v": 1, "w": 2}
        )
        self.assertEqual([bool(each.sharding.ref) for each in targets.arrays], [True, False, True])
        self.assertEqual(len(targets.shardings["s0"].named.dim_shardings), 2)
        self.assertEqual(len(targets.arrays[1].sharding.named.dim_shardings), 1)

    def test_ten_thousand_arrays_of_one_layout_are_quick_and_small(self):
        rows = layout.hlo("{devices=[4096,1]<=[4096]}", [2 * each for each in range(4096)])
        spec = layout.spec_of({f"w{i}": Array((4096, 8), "f32", rows) for i in range(10_000)})
        self.assertLess(spec.ByteSize(), 1 << 20)
        self.assertIsInstance(spec, state_pb2.StateSpec)


if __name__ == "__main__":
    unittest.main()
