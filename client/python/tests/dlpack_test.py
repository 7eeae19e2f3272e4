# SPDX-License-Identifier: Apache-2.0
import gc
import unittest

import numpy as np
from remesh import dlpack


class Bytes:
    """Memory of this host, as CudaBytes is of a GPU."""

    def __init__(self, count):
        self.array = np.arange(count, dtype=np.uint8)

    def __dlpack__(self, stream=None):
        return dlpack.capsule(self.array.ctypes.data, self.array.size, dlpack.CPU, 0, self)

    def __dlpack_device__(self):
        return dlpack.CPU, 0


class DlpackTest(unittest.TestCase):
    def test_a_consumer_shares_the_memory_and_keeps_it(self):
        memory = Bytes(100)
        shared = np.from_dlpack(memory)
        self.assertEqual(shared.dtype, np.uint8)
        memory.array[7] = 200
        self.assertEqual(shared[7], 200)
        del memory
        gc.collect()
        self.assertEqual(len(dlpack._in_use), 1)
        self.assertEqual(shared[99], 99)
        del shared
        gc.collect()
        self.assertEqual(dlpack._in_use, {})

    def test_a_capsule_that_is_not_taken_keeps_nothing(self):
        capsule = Bytes(10).__dlpack__()
        self.assertEqual(len(dlpack._in_use), 1)
        del capsule
        gc.collect()
        self.assertEqual(dlpack._in_use, {})


if __name__ == "__main__":
    unittest.main()
