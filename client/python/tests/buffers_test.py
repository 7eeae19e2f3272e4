# SPDX-License-Identifier: Apache-2.0
"""Writing and mapping files that shards share."""

import gc
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import numpy as np

from remesh import buffers
from remesh.v1 import local_pb2, sharding_pb2


def shard(path, offset, count, element_type="u8", array="w"):
    return local_pb2.Shard(
        array=array,
        path=str(path),
        offset=offset,
        bytes=count,
        element_type=element_type,
        box=sharding_pb2.Box(lo=[0], hi=[count * (2 if element_type == "s4" else 1)]),
    )


class BuffersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "buffer"
        self.path.write_bytes(bytes(1000))

    def mapped(self, *infos, **arguments):
        return buffers.map_shards(infos, **arguments)

    def test_slices_by_several_threads(self):
        content = np.random.default_rng(0).integers(0, 256, 900, np.uint8)
        first, second = self.mapped(
            shard(self.path, 64, 800), shard(self.path, 900, 100), access=buffers.WRITE
        )
        self.assertEqual(
            buffers.write(
                [(first, content[:800]), (second, bytes(content[800:]))], threads=4, slice_bytes=7
            ),
            900,
        )
        self.assertEqual(
            self.path.read_bytes(),
            bytes(64) + content[:800].tobytes() + bytes(36) + content[800:].tobytes(),
        )

    def test_contents_of_any_form(self):
        (one,) = self.mapped(shard(self.path, 0, 24))
        for content in (
            np.arange(12, dtype=">u2").reshape(3, 4).T,
            np.arange(6, dtype=np.float32)[::-1],
            bytearray(range(24)),
            memoryview(bytes(24)),
        ):
            buffers.write([(one, content)])
            self.assertEqual(self.path.read_bytes()[:24], np.ascontiguousarray(content).tobytes())

    def test_a_wrong_size_is_named_before_anything_is_written(self):
        first, second = self.mapped(shard(self.path, 0, 8), shard(self.path, 64, 8, array="b"))
        with self.assertRaisesRegex(ValueError, "b: content of 7 bytes must be 8, those of Box"):
            buffers.write([(first, b"\1" * 8), (second, bytes(7))])
        self.assertEqual(self.path.read_bytes(), bytes(1000))

    def test_a_short_write_is_completed(self):
        (one,) = self.mapped(shard(self.path, 0, 100))
        whole = os.pwrite
        with mock.patch(
            "os.pwrite",
            side_effect=lambda descriptor, data, offset: whole(descriptor, data[:7], offset),
        ):
            buffers.write([(one, b"\2" * 100)])
        self.assertEqual(self.path.read_bytes()[:101], b"\2" * 100 + b"\0")

    def test_a_failed_write_is_raised_and_closes_what_it_opened(self):
        (one,) = self.mapped(shard(self.path, 0, 1000))
        opened = len(os.listdir("/proc/self/fd"))
        with mock.patch("os.pwrite", side_effect=OSError(28, "full")), self.assertRaisesRegex(
            OSError, "full"
        ):
            buffers.write([(one, bytes(1000))], threads=3, slice_bytes=10)
        self.assertEqual(len(os.listdir("/proc/self/fd")), opened)

    def test_a_file_is_mapped_once_and_not_before_it_is_looked_at(self):
        shards = self.mapped(*(shard(self.path, 8 * i, 8) for i in range(100)))
        with mock.patch("mmap.mmap", wraps=buffers.mmap.mmap) as mapping:
            for each in shards:
                self.assertEqual(each.bytes.size, 8)
            self.assertEqual(mapping.call_count, 1)

    def test_arrays_keep_the_memory(self):
        view = self.mapped(shard(self.path, 0, 8))[0].bytes
        gc.collect()
        self.path.unlink()
        self.assertEqual(bytes(view), bytes(8))

    def test_who_sees_what_is_stored(self):
        info = shard(self.path, 0, 8)
        with self.assertRaises(ValueError):
            self.mapped(info)[0].bytes[0] = 1
        private = self.mapped(info, private=True)[0]
        private.bytes[0] = 1
        self.assertEqual((private.bytes[0], self.path.read_bytes()[0]), (1, 0))
        self.mapped(info, access=buffers.WRITE)[0].bytes[0] = 2
        self.assertEqual(self.path.read_bytes()[0], 2)

    def test_a_shard_without_elements_needs_no_file(self):
        (empty,) = self.mapped(shard(self.path.with_name("none"), 0, 0))
        self.assertEqual(empty.values().shape, (0,))

    def test_packed_types_have_no_values(self):
        (packed,) = self.mapped(shard(self.path, 0, 4, "s4"))
        with self.assertRaisesRegex(TypeError, "w: s4 is packed below a byte"):
            packed.values()


if __name__ == "__main__":
    unittest.main()
