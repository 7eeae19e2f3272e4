# SPDX-License-Identifier: Apache-2.0
"""Law 2 over real processes: A -> B -> A is the identity for every pair of front ends, memory kinds
mixed in."""

import unittest

from remesh.v1 import reshard_pb2, sharding_pb2
from remesh.xla import xla_data_pb2

from harness import Array, ClusterTest, devices, salted, targets

_ALL = (0, 1, 2, 3, 4, 5)


def _op_sharding():
    """V1: a permuted 2x3 tile assignment."""
    message = xla_data_pb2.OpSharding(
        type=xla_data_pb2.OpSharding.OTHER,
        tile_assignment_dimensions=[2, 3],
        tile_assignment_devices=[4, 0, 3, 1, 5, 2],
    )
    return sharding_pb2.Sharding(op_sharding=message.SerializeToString(), devices=devices(*_ALL))


def _hlo_text():
    """Three tiles, each twice."""
    return sharding_pb2.Sharding(
        hlo_text="{devices=[3,1,2]<=[2,3]T(1,0) last_tile_dim_replicate}",
        devices=devices(*_ALL),
        memory_kind="pinned_host",
    )


def _named():
    """A 2x3 mesh whose minor axis cuts rows, and a part of whose devices stays out."""
    message = xla_data_pb2.NamedShardingProto(
        mesh=xla_data_pb2.MeshProto(axes=[{"name": "a", "size": 2}, {"name": "b", "size": 2}]),
        dim_shardings=[
            {"axes": [{"mesh_axis_index": 1}], "is_closed": True},
            {"axes": [{"mesh_axis_index": 0}], "is_closed": True},
        ],
    )
    return sharding_pb2.Sharding(named=message, devices=devices(5, 2, 1, 4), memory_kind="device")


def _dtensor():
    """torch's uneven chunks, one dimension cut twice."""
    message = sharding_pb2.DTensorSharding(
        mesh_shape=[2, 3], placements=[{"shard": {"dim": 0}}, {"shard": {"dim": 0}}]
    )
    return sharding_pb2.Sharding(dtensor=message, devices=devices(3, 1, 4, 0, 2, 5))


def _strided():
    """FSDP over tensor parallelism: _StridedShard."""
    message = sharding_pb2.DTensorSharding(
        mesh_shape=[3, 2],
        placements=[{"strided_shard": {"dim": 0, "split_factor": 2}}, {"shard": {"dim": 0}}],
    )
    return sharding_pb2.Sharding(
        dtensor=message, devices=devices(*_ALL), memory_kind="unpinned_host"
    )


def _boxes(rows, columns):
    """Spelled out: one device with two boxes, overlapping neighbours, one device with nothing."""

    def entry(device, *boxes):
        return sharding_pb2.DeviceBoxes(
            device=device,
            boxes=[
                sharding_pb2.Box(lo=[low[0], low[1]], hi=[high[0], high[1]]) for low, high in boxes
            ],
        )

    return sharding_pb2.Sharding(
        boxes=sharding_pb2.BoxSharding(
            devices=[
                entry(2, ((0, 0), (1, columns)), ((rows - 1, 0), (rows, columns))),
                entry(4, ((0, 0), (rows, 3))),
                entry(1, ((0, 1), (rows, columns))),
                entry(3),
            ]
        )
    )


def _sdy_text():
    """Shardy, four devices of two hosts."""
    return sharding_pb2.Sharding(
        sdy_text='#sdy.sharding<mesh<["x"=2, "y"=2]>, [{"y"}, {"x"}]>', devices=devices(2, 3, 4, 5)
    )


_SHAPE = (13, 10)
FORMS = {
    "op_sharding": _op_sharding(),
    "hlo_text": _hlo_text(),
    "named": _named(),
    "dtensor": _dtensor(),
    "strided": _strided(),
    "boxes": _boxes(*_SHAPE),
    "sdy_text": _sdy_text(),
}
ARRAYS = [
    *salted("s4", "s4", _SHAPE),
    *salted("bf16", "bf16", _SHAPE),
    Array("u1", "u1", _SHAPE),
    Array("f32", "f32", _SHAPE),
    Array("f8", "f8e4m3fn", _SHAPE),
    Array("pred", "pred", _SHAPE),
    Array("c128", "c128", _SHAPE),
]


class RoundTripTest(ClusterTest):
    def test_every_pair_of_front_ends(self):
        name, generation = "jobs/test/states/round-trip", 1
        forms = list(FORMS)
        self.create_and_write(name, ARRAYS, FORMS[forms[0]])
        home = self.check_everywhere(name, 1, ARRAYS)
        for at, first in enumerate(forms[:-1]):
            if at > 0:
                self.move(name, generation, targets(ARRAYS, FORMS[first]))
                generation += 1
                home = self.check_everywhere(name, generation, ARRAYS)
            for second in forms[at + 1 :]:
                with self.subTest(f"{first} -> {second} -> {first}"):
                    self.move(name, generation, targets(ARRAYS, FORMS[second]))
                    away = self.check_everywhere(name, generation + 1, ARRAYS)
                    self.assertNotEqual(away, home)
                    self.move(name, generation + 1, targets(ARRAYS, FORMS[first]))
                    self.assertEqual(self.check_everywhere(name, generation + 2, ARRAYS), home)
                generation += 2

    def test_memory_kinds_of_one_layout(self):
        """The same boxes in another memory kind are a move too."""
        name, arrays = "jobs/test/states/kinds", [Array("w", "f32", (12, 5))]

        def rows(kind):
            return sharding_pb2.Sharding(
                hlo_text="{devices=[6,1]<=[6]}", devices=devices(*_ALL), memory_kind=kind
            )

        self.create_and_write(name, arrays, rows(""))
        home = self.check_everywhere(name, 1, arrays)
        kinds = ("pinned_host", "unpinned_host", "device")
        for generation, kind in enumerate(kinds, start=1):
            self.move(name, generation, targets(arrays, rows(kind)))
            self.assertEqual(self.check_everywhere(name, generation + 1, arrays), home)
            shards = [
                s for trainer in self.trainers.values() for s in trainer.read(name, generation + 1)
            ]
            expected = {"", "device"} if kind == "device" else {kind}
            self.assertLessEqual({shard.info.memory_kind for shard in shards}, expected)

    def test_a_state_in_memory_of_all_kinds(self):
        """Arrays of one state in the memory of GPUs and of hosts, which change kinds and layouts in
        one move."""
        name, kinds = "jobs/test/states/all-kinds", ("device", "pinned_host", "unpinned_host")
        arrays = [Array(f"{kind}-{i}", "bf16", (36, 11), i) for i, kind in enumerate(kinds)]

        def sharding(text, kind):
            return sharding_pb2.Sharding(hlo_text=text, devices=devices(*_ALL), memory_kind=kind)

        state = self.state_of(name, arrays, sharding("{devices=[6,1]<=[6]}", ""))
        for array, kind in zip(state.spec.arrays, kinds):
            array.sharding.CopyFrom(sharding("{devices=[6,1]<=[6]}", kind))
        state.spec.shardings.clear()
        self.controller.create_state(state)
        self.write_everywhere(name, arrays)
        self.controller.wait_ready(name, 20)
        for generation, text in enumerate(
            ("{devices=[1,6]<=[6]}", "{devices=[2,3]<=[6]}", "{devices=[6,1]<=[6]}"), start=1
        ):
            now = {array.name: kinds[(i + generation) % 3] for i, array in enumerate(arrays)}
            self.move(
                name,
                generation,
                reshard_pb2.Targets(
                    arrays=[
                        reshard_pb2.TargetArray(name=array, sharding=sharding(text, kind))
                        for array, kind in now.items()
                    ]
                ),
            )
            self.check_everywhere(name, generation + 1, arrays)
            for trainer in self.trainers.values():
                for shard in trainer.read(name, generation + 1):
                    self.assertEqual(shard.info.memory_kind or "device", now[shard.info.array])


if __name__ == "__main__":
    unittest.main()
