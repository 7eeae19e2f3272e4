# SPDX-License-Identifier: Apache-2.0
"""The settings of a binary, read from its option table (server/options.cc, worker/options.cc) and
its example file."""

import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROW = re.compile(r'settings\.Add(\w+)\(\s*"(\w+)",(.*?)\);', re.S)
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


@dataclasses.dataclass(frozen=True)
class Option:
    """A row: `kind` is what comes after Add, such as Int; `bounds` the least and most of an Int."""

    key: str
    kind: str
    doc: str
    bounds: tuple


def number(text: str) -> int:
    """A C++ integer: 64, 1 << 20, kName is not one."""
    terms = [int(term.replace("'", "")) for term in text.split("<<")]
    return terms[0] << terms[1] if len(terms) == 2 else terms[0]


def options_of(binary: str) -> list:
    """`binary` is server or worker. Order: the table's."""
    rows = []
    for kind, key, rest in ROW.findall((ROOT / binary / "options.cc").read_text()):
        if kind == "Retired":
            continue
        doc = "".join(part[1:-1] for part in STRING.findall(rest)).replace('\\"', '"')
        after = [part.strip() for part in STRING.sub("", rest).split(",")][1:]
        bounds = tuple(number(part) for part in after if part) if kind == "Int" else ()
        rows.append(Option(key, kind, doc, bounds))
    return rows


def example_keys(binary: str) -> list:
    """Keys of the example file, which the binary's own test holds to its table."""
    return re.findall(
        r"^# (\w+): .*\n(?:\n|\Z)", (ROOT / binary / "config.example.yaml").read_text(), re.M
    )
