# SPDX-License-Identifier: Apache-2.0
"""Element types and their NumPy types. NumPy has no bf16, fp8 or int4, so their bits are unsigned
integers."""

import numpy as np

# XLA's lower-case name -> bits that one element takes in memory. The 6-bit floats take a whole
# byte, as XLA stores them.
BIT_WIDTHS = {
    "pred": 8,
    "s1": 1,
    "s2": 2,
    "s4": 4,
    "s8": 8,
    "s16": 16,
    "s32": 32,
    "s64": 64,
    "u1": 1,
    "u2": 2,
    "u4": 4,
    "u8": 8,
    "u16": 16,
    "u32": 32,
    "u64": 64,
    "f4e2m1fn": 4,
    "f6e2m3fn": 8,
    "f6e3m2fn": 8,
    "f8e3m4": 8,
    "f8e4m3": 8,
    "f8e4m3b11fnuz": 8,
    "f8e4m3fn": 8,
    "f8e4m3fnuz": 8,
    "f8e5m2": 8,
    "f8e5m2fnuz": 8,
    "f8e8m0fnu": 8,
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "f64": 64,
    "c64": 64,
    "c128": 128,
}

_NATIVE = {
    "pred": "|b1",
    "s8": "|i1",
    "s16": "<i2",
    "s32": "<i4",
    "s64": "<i8",
    "u8": "|u1",
    "u16": "<u2",
    "u32": "<u4",
    "u64": "<u8",
    "f16": "<f2",
    "f32": "<f4",
    "f64": "<f8",
    "c64": "<c8",
    "c128": "<c16",
}


def bit_width(element_type: str) -> int:
    """Bits of one element in memory."""
    if element_type not in BIT_WIDTHS:
        raise ValueError(
            f"element_type: value {element_type!r} must be an XLA element type such as bf16, f32 "
            "or s4"
        )
    return BIT_WIDTHS[element_type]


def byte_count(element_type: str, elements: int) -> int:
    """Bytes of a dense buffer of `elements` elements. Elements smaller than a byte are packed, so
    the last byte may be partly filled."""
    return (elements * bit_width(element_type) + 7) // 8


def numpy_dtype(element_type: str) -> np.dtype:
    """NumPy's own type if it has one, else the unsigned integer of the same width; u8 (packed) for
    types smaller than a byte."""
    if element_type in _NATIVE:
        return np.dtype(_NATIVE[element_type])
    return np.dtype(f"<u{max(bit_width(element_type), 8) // 8}")
