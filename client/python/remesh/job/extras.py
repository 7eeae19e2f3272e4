# SPDX-License-Identifier: Apache-2.0
"""What each process saves beside the arrays: bytes, or a value that JSON can hold.

It is in an array u8 [P, C] of the state: row p is that of process p. A row begins with 4 bytes of
length and one of kind. C is a power of two, so that the layout changes seldom.
"""

import json
from typing import Any, List, Mapping, Optional, Sequence

import numpy as np

from remesh.job.errors import ExtraTooLarge

ARRAY = "remesh:extra"
MAX_BYTES = 1 << 20
MAX_TOTAL_BYTES = 64 << 20
_HEADER = 5
_LEAST_CAPACITY = 64
_NONE, _BYTES, _JSON = 0, 1, 2


def encode(extra: Any) -> bytes:
    """The used part of a row. ExtraTooLarge; TypeError for what is neither bytes nor JSON."""
    if extra is None:
        kind, content = _NONE, b""
    elif isinstance(extra, (bytes, bytearray, memoryview)):
        kind, content = _BYTES, bytes(extra)
    else:
        kind, content = _JSON, json.dumps(extra).encode()
    if len(content) > MAX_BYTES:
        raise ExtraTooLarge(
            f"extra: value of {len(content)} bytes must be at most {MAX_BYTES} a process: put it "
            "into the arrays"
        )
    return len(content).to_bytes(4, "little") + bytes([kind]) + content


def capacity(sizes: Sequence[int]) -> int:
    """C for rows of these sizes. ExtraTooLarge."""
    result = max(_LEAST_CAPACITY, 1 << (max(sizes) - 1).bit_length())
    if result * len(sizes) > MAX_TOTAL_BYTES:
        raise ExtraTooLarge(
            f"extra: {len(sizes)} processes with rows of {result} bytes must be at most "
            f"{MAX_TOTAL_BYTES} in all"
        )
    return result


def row(encoded: bytes, size: int) -> np.ndarray:
    """A whole row of `size` bytes."""
    return np.frombuffer(encoded.ljust(size, b"\0"), np.uint8)


def decode(content: np.ndarray) -> Any:
    """What encode() was given, from a row."""
    data = content.tobytes()
    length, kind = int.from_bytes(data[:4], "little"), data[4]
    body = data[_HEADER : _HEADER + length]
    if len(body) != length:
        raise ValueError(f"extra: length {length} is more than its row of {len(data)} bytes holds")
    return {_NONE: None, _BYTES: body}[kind] if kind != _JSON else json.loads(body)


def decode_all(rows: Mapping[int, np.ndarray], processes: int) -> List[Any]:
    """Of every process of the world that saved."""
    return [decode(rows[process]) for process in range(processes)]


def first_bytes(content: np.ndarray) -> Optional[bytes]:
    """The used part of a row."""
    length = int.from_bytes(content[:4].tobytes(), "little")
    return content[: _HEADER + length].tobytes()
