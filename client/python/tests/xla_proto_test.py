# SPDX-License-Identifier: Apache-2.0
"""remesh's subset of XLA's sharding messages lives beside another xla/xla_data.proto: TensorFlow
and others bring their own."""

import unittest

from google.protobuf import descriptor_pb2, descriptor_pool

from remesh.v1 import sharding_pb2
from remesh.xla import xla_data_pb2


def _another_xla_data():
    """xla/xla_data.proto as another package ships it: the same names, other content."""
    file = descriptor_pb2.FileDescriptorProto(
        name="xla/xla_data.proto", package="xla", syntax="proto3"
    )
    for name in ("OpSharding", "NamedShardingProto", "ShapeProto"):
        field = file.message_type.add(name=name).field.add(name="opaque", number=1)
        field.type = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES
        field.label = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
    return file


class XlaProtoTest(unittest.TestCase):
    def test_another_xla_data_proto_loads_into_the_same_process(self):
        pool = descriptor_pool.Default()
        pool.AddSerializedFile(_another_xla_data().SerializeToString())
        self.assertEqual(pool.FindFileByName("xla/xla_data.proto").package, "xla")
        theirs = pool.FindMessageTypeByName("xla.OpSharding")
        self.assertEqual([field.name for field in theirs.fields], ["opaque"])
        self.assertEqual(xla_data_pb2.OpSharding.DESCRIPTOR.full_name, "remesh.xla.OpSharding")

    def test_the_wire_is_xlas(self):
        # {devices=[2,3]<=[6]} as jaxlib's HloSharding.to_proto() writes it.
        written = bytes.fromhex("08031a0202034a0106520100")
        read = xla_data_pb2.OpSharding.FromString(written)
        self.assertEqual(list(read.tile_assignment_dimensions), [2, 3])
        self.assertEqual(list(read.iota_reshape_dims), [6])
        self.assertEqual(read.SerializeToString(), written)
        self.assertEqual(sharding_pb2.Sharding(op_sharding=written).op_sharding, written)


if __name__ == "__main__":
    unittest.main()
