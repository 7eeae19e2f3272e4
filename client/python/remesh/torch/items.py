# SPDX-License-Identifier: Apache-2.0
"""Values that are no tensors, and the caller's extra, in one extra of a save (job/extras.py)."""

import json
import struct
import zlib
from typing import Any, Dict, Mapping, Tuple

_HEADER = struct.Struct("<4sII")  # magic, bytes of the names and of the caller's extra
_MAGIC = b"RMT1"
_NONE, _BYTES, _JSON = "none", "bytes", "json"


def pack(extra: Any, items: Mapping[str, bytes]) -> bytes:
    """TypeError for an extra that is neither bytes nor JSON. Items are pickles that resemble each
    other: compressed."""
    if extra is None:
        kind, content = _NONE, b""
    elif isinstance(extra, (bytes, bytearray, memoryview)):
        kind, content = _BYTES, bytes(extra)
    else:
        kind, content = _JSON, json.dumps(extra).encode()
    sizes = [[name, len(item)] for name, item in items.items()]
    names = zlib.compress(json.dumps([kind, sizes]).encode())
    body = zlib.compress(b"".join(items.values()))
    return _HEADER.pack(_MAGIC, len(names), len(content)) + names + content + body


def unpack(data: Any) -> Tuple[Any, Dict[str, bytes]]:
    """The extra and the items. An extra that pack() did not make has no items."""
    if not isinstance(data, bytes) or data[:4] != _MAGIC:
        return data, {}
    _, first, second = _HEADER.unpack_from(data)
    at = _HEADER.size
    kind, sizes = json.loads(zlib.decompress(data[at : at + first]))
    content = data[at + first : at + first + second]
    body = zlib.decompress(data[at + first + second :])
    items, begin = {}, 0
    for name, size in sizes:
        items[name] = body[begin : begin + size]
        begin += size
    if kind == _NONE:
        return None, items
    return (content if kind == _BYTES else json.loads(content)), items
