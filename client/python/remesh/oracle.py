# SPDX-License-Identifier: Apache-2.0
"""The element oracle: the expected value of every element of a test array, which depends only on
the array and the global index.

All arithmetic is modulo 2^64.

    key(name)               = FNV-1a, 64 bits, over the name's UTF-8 bytes mix64(salt, key, index) =
    finalise(key + salt * 0xD1342543DE82EF95 + index * 0x9E3779B97F4A7C15), where finalise(z): z ^=
    z >> 30; z *= 0xBF58476D1CE4E5B9; z ^= z >> 27; z *= 0x94D049BB133111EB; z ^= z >> 31

`index` is the element's row-major index in the whole array. An element of b <= 64 bits holds the
low b bits of mix64(salt, key, index); an element of 128 bits holds mix64(salt, ...) in its low and
mix64(salt + 2^32, ...) in its high half. One salt cannot tell all elements of a type of b < 64 bits
apart: a test that must do so uses salt_count(type) salts, one array (or one run) each. splitmix64's
finaliser is a bijection, so at 64 bits two elements of one array never agree.

tests/testing/element_oracle.h is the same function in C++; tests/data/element_oracle.txt holds
vectors for both.
"""

import dataclasses
import math
from typing import Iterator, Optional, Sequence

import numpy as np

from remesh.elements import bit_width, byte_count

_MASK = (1 << 64) - 1
_INDEX_STEP = 0x9E3779B97F4A7C15
_SALT_STEP = 0xD1342543DE82EF95
_HIGH_HALF_SALT = 1 << 32
# Elements computed at a time: three scratch buffers of this many 64-bit words stay in a core's
# second-level cache.
_CHUNK = 1 << 16


@dataclasses.dataclass(frozen=True)
class Mismatch:
    """The first wrong element of a box: its global index per dimension, and its expected and actual
    bits."""

    index: tuple
    expected: int
    found: int
    count: int  # wrong elements in the whole box

    def __str__(self):
        return (
            f"element {list(self.index)} holds {self.found:#x}, not {self.expected:#x} "
            f"({self.count} wrong in this box)"
        )


def salt_count(element_type: str) -> int:
    """The number of salts with which two different elements agree in all values with probability
    2^-64: ceil(64 / bits)."""
    return math.ceil(64 / bit_width(element_type))


def array_key(name: str) -> int:
    """FNV-1a of the array's name."""
    key = 0xCBF29CE484222325
    for byte in name.encode():
        key = ((key ^ byte) * 0x100000001B3) & _MASK
    return key


def mix64(salt: int, key: int, index: int) -> int:
    """The value at one index, in plain Python."""
    z = (key + salt * _SALT_STEP + index * _INDEX_STEP) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def fill(
    buffer: np.ndarray,
    name: str,
    element_type: str,
    shape: Sequence[int],
    lo: Sequence[int],
    hi: Sequence[int],
    salt: int = 0,
) -> None:
    """Writes the box [lo, hi) of array `name` into `buffer`: uint8, dense row-major over the box,
    packed below a byte.

    The bits that pad the last byte of a packed box are zero.
    """
    for begin, end, content in _chunks(buffer, name, element_type, shape, lo, hi, salt):
        buffer[begin:end] = content.view(np.uint8)


def check(
    buffer: np.ndarray,
    name: str,
    element_type: str,
    shape: Sequence[int],
    lo: Sequence[int],
    hi: Sequence[int],
    salt: int = 0,
) -> Optional[Mismatch]:
    """The first wrong element of `buffer` (as in fill), or None. Ignores padding bits."""
    first, count = None, 0
    for begin, end, content in _chunks(buffer, name, element_type, shape, lo, hi, salt):
        found = buffer[begin:end].view(content.dtype)
        if np.array_equal(found, content):
            continue
        wrong = _wrong_elements(found, content, element_type, begin, lo, hi)
        if wrong is not None:
            first = first or wrong
            count += wrong.count
    return first and dataclasses.replace(first, count=count)


def _chunks(buffer, name, element_type, shape, lo, hi, salt) -> Iterator[tuple]:
    """Yields (first byte, one past the last byte, expected content) over the box, in order; the
    content is reused."""
    elements = math.prod(h - l for l, h in zip(lo, hi))
    if len(buffer) != byte_count(element_type, elements):
        raise ValueError(
            f"buffer: {len(buffer)} bytes, but the box has {byte_count(element_type, elements)}"
        )
    if elements == 0:
        return
    bits = bit_width(element_type)
    values = _Values(array_key(name), shape, lo, hi)
    out = np.empty(_CHUNK, np.uint64)
    for begin in range(0, elements, _CHUNK):
        end = min(begin + _CHUNK, elements)
        low = values.compute(begin, end, salt)
        first_byte, last_byte = begin * bits // 8, (end * bits + 7) // 8
        if bits == 64:
            yield first_byte, last_byte, low
        elif bits == 128:
            pair = np.empty((end - begin, 2), np.uint64)
            pair[:, 0] = low
            pair[:, 1] = values.compute(begin, end, salt + _HIGH_HALF_SALT)
            yield first_byte, last_byte, pair.reshape(-1)
        elif bits >= 8:
            narrow = out.view(f"<u{bits // 8}")[: end - begin]
            narrow[:] = low
            yield first_byte, last_byte, narrow
        else:
            yield first_byte, last_byte, _pack(low, bits)


class _Values:
    """mix64 over ranges of the box's own row-major order, in scratch memory that is reused."""

    def __init__(self, key, shape, lo, hi):
        self._key = key
        extents = [h - l for l, h in zip(lo, hi)] or [1]
        strides = _row_major_strides(shape) or [1]
        self._columns = extents[-1]
        # Global index of the first element of each of the box's rows.
        rows = np.zeros((), np.uint64)
        for d in range(len(extents) - 1):
            along = np.arange(lo[d], hi[d], dtype=np.uint64) * np.uint64(strides[d])
            rows = np.add.outer(rows, along)
        first_column = lo[-1] if lo else 0
        self._row_starts = (rows.reshape(-1) + np.uint64(first_column)) * np.uint64(_INDEX_STEP)
        self._column_steps = np.arange(min(self._columns, _CHUNK), dtype=np.uint64) * np.uint64(
            _INDEX_STEP
        )
        self._z = np.empty(_CHUNK, np.uint64)
        self._shifted = np.empty(_CHUNK, np.uint64)

    def compute(self, begin: int, end: int, salt: int) -> np.ndarray:
        """Elements [begin, end) of the box; valid until the next call."""
        z, shifted = self._z[: end - begin], self._shifted[: end - begin]
        self._indices(begin, end, z)
        z += np.uint64((self._key + salt * _SALT_STEP) & _MASK)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            np.right_shift(z, np.uint64(shift), out=shifted)
            np.bitwise_xor(z, shifted, out=z)
            np.multiply(z, np.uint64(factor), out=z)
        np.right_shift(z, np.uint64(31), out=shifted)
        return np.bitwise_xor(z, shifted, out=z)

    def _indices(self, begin, end, out):
        """Writes index * _INDEX_STEP for elements [begin, end), run by run, or whole rows at
        once."""
        row, column = divmod(begin, self._columns)
        at = 0
        while at < end - begin:
            left = end - begin - at
            if column == 0 and left >= self._columns:
                rows = left // self._columns
                block = out[at : at + rows * self._columns].reshape(rows, self._columns)
                np.add(
                    self._row_starts[row : row + rows, None], self._column_steps[None, :], out=block
                )
                at, row = at + rows * self._columns, row + rows
                continue
            run = min(self._columns - column, left)
            start = np.uint64((int(self._row_starts[row]) + column * _INDEX_STEP) & _MASK)
            np.add(start, self._column_steps[:run], out=out[at : at + run])
            at, column = at + run, column + run
            if column == self._columns:
                row, column = row + 1, 0


def _row_major_strides(shape):
    strides = [1] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        strides[d] = strides[d + 1] * shape[d + 1]
    return strides


def _pack(values: np.ndarray, bits: int) -> np.ndarray:
    """Packs elements smaller than a byte, low bits of a byte first; pads the last byte with zero
    bits."""
    per_byte = 8 // bits
    padded = np.zeros(-(-len(values) // per_byte) * per_byte, np.uint8)
    padded[: len(values)] = values & np.uint64((1 << bits) - 1)
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(bits)
    return np.bitwise_or.reduce(padded.reshape(-1, per_byte) << shifts, axis=1).astype(np.uint8)


def _unpack(packed: np.ndarray, bits: int) -> np.ndarray:
    shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    return ((packed[:, None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(-1)


def _wrong_elements(found, content, element_type, first_byte, lo, hi) -> Optional[Mismatch]:
    bits = bit_width(element_type)
    extents = [h - l for l, h in zip(lo, hi)]
    first_element = first_byte * 8 // bits
    if bits < 8:
        left = math.prod(extents) - first_element
        found, content = _unpack(found, bits)[:left], _unpack(content, bits)[:left]
    elif bits == 128:
        found, content = (a.reshape(-1, 2) for a in (found, content))
    differs = (found != content).reshape(len(found), -1).any(axis=1)
    if not differs.any():
        return None
    at = int(np.argmax(differs))
    position = np.unravel_index(first_element + at, extents) if extents else ()
    index = tuple(int(p) + l for p, l in zip(position, lo))
    return Mismatch(index, _bits_of(content[at]), _bits_of(found[at]), int(differs.sum()))


def _bits_of(element) -> int:
    words = np.atleast_1d(element)
    return sum(int(word) << (64 * i) for i, word in enumerate(words))
