# SPDX-License-Identifier: Apache-2.0
"""remesh.oracle against the vectors that its C++ twin passes too. Run from the repository root."""

import math
import pathlib
import unittest

import numpy as np

from remesh import elements, oracle

_VECTORS = pathlib.Path(__file__).parents[3] / "tests/data/element_oracle.txt"


def _numbers(text):
    return [] if text == "-" else [int(item) for item in text.split(",")]


def read_vectors():
    """Lines "name type shape lo hi salt hex"; '-' stands for nothing, '#' starts a comment."""
    for line in _VECTORS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, element_type, shape, lo, hi, salt, content = line.split()
            yield (
                name,
                element_type,
                _numbers(shape),
                _numbers(lo),
                _numbers(hi),
                int(salt),
                b"" if content == "-" else bytes.fromhex(content),
            )


class OracleTest(unittest.TestCase):
    def test_agrees_with_the_vectors(self):
        vectors = list(read_vectors())
        self.assertGreaterEqual(len(vectors), 20)
        for name, element_type, shape, lo, hi, salt, content in vectors:
            buffer = np.full(len(content), 0xAA, np.uint8)
            oracle.fill(buffer, name, element_type, shape, lo, hi, salt)
            self.assertEqual(buffer.tobytes(), content, (name, element_type))
            self.assertIsNone(oracle.check(buffer, name, element_type, shape, lo, hi, salt))

    def test_chunks_join(self):
        """Boxes larger than a chunk, rows that straddle chunks, rows longer than a chunk."""
        for element_type, shape, lo, hi in (
            ("s4", (300, 777), (3, 5), (299, 776)),
            ("bf16", (3, 100_001), (1, 7), (3, 100_000)),
            ("u1", (70_001, 3), (1, 1), (70_001, 3)),
        ):
            elements_of_box = math.prod(h - l for l, h in zip(lo, hi))
            buffer = np.zeros(elements.byte_count(element_type, elements_of_box), np.uint8)
            oracle.fill(buffer, "w", element_type, shape, lo, hi, 9)
            bits = elements.bit_width(element_type)
            for position in range(0, elements_of_box, 997):
                row, column = divmod(position, hi[1] - lo[1])
                expected = oracle.mix64(
                    9, oracle.array_key("w"), (lo[0] + row) * shape[1] + lo[1] + column
                )
                bit = position * bits
                found = (
                    int.from_bytes(buffer[bit // 8 : bit // 8 + 8].tobytes(), "little") >> bit % 8
                )
                self.assertEqual(
                    (found ^ expected) & ((1 << bits) - 1), 0, (element_type, position)
                )

    def test_finds_wrong_elements(self):
        shape, lo, hi = (300, 777), (3, 5), (299, 776)
        for element_type in ("u1", "s4", "f8e5m2", "bf16", "f64", "c128"):
            buffer = np.zeros(elements.byte_count(element_type, 296 * 771), np.uint8)
            oracle.fill(buffer, "w", element_type, shape, lo, hi)
            position = 200 * 771 + 13
            buffer[position * elements.bit_width(element_type) // 8] ^= 1 << (
                position * elements.bit_width(element_type) % 8
            )
            wrong = oracle.check(buffer, "w", element_type, shape, lo, hi)
            self.assertEqual((wrong.index, wrong.count), ((203, 18), 1), element_type)
            self.assertEqual(wrong.found ^ wrong.expected, 1)

    def test_salts_make_up_for_narrow_types(self):
        self.assertEqual(
            [oracle.salt_count(t) for t in ("u1", "s4", "bf16", "f32", "c128")], [64, 16, 4, 2, 1]
        )


if __name__ == "__main__":
    unittest.main()
