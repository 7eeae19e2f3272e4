#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""No class grows into one that sees everything: at most 25 methods and 12 fields, or a sentence in its comment that says why.

Usage: check_classes.py REPOSITORY_ROOT. Prints each breach and exits 1 if there is one.
"""
import pathlib
import re
import sys

FOLDERS = ("base", "client", "planner", "proto", "server", "service", "worker")
METHODS_MAX, FIELDS_MAX = 25, 12
CLASS = re.compile(r"^(?:class|struct) (\w+)(?: final)?(?: : [^{;]*)? *\{", re.M)
SENTENCE = {METHODS_MAX: "more than 25 methods", FIELDS_MAX: "more than 12 fields"}


def without_nested(text: str, begin: str, end: str) -> str:
    """`text` without what stands between `begin` and `end`, however deep."""
    kept, depth = [], 0
    for character in text:
        if character == end and depth > 0:
            depth -= 1
        if depth == 0:
            kept.append(character)
        if character == begin:
            depth += 1
    return "".join(kept)


def members(body: str) -> tuple[int, int]:
    """Numbers of methods and of fields that a class with this body declares."""
    body = re.sub(r"//[^\n]*", "", body)
    body = re.sub(r"\b(public|private|protected):", "", body)
    body = without_nested(body.replace("->", ""), "{", "}")
    body = without_nested(re.sub(r"operator(<=>|<|>|<<|>>|==)", "operator", body), "<", ">")
    body = re.sub(r"\{\}(?=\s*[A-Za-z~\[])", ";", body.replace("{};", ";"))  # bodies of functions end statements too
    methods = fields = 0
    for statement in body.split(";"):
        statement = statement.strip()
        if not statement or re.match(r"(using|friend|static_assert|enum|struct|class|typedef|template <>)\b", statement):
            continue
        if "= delete" in statement:
            continue
        if "(" in statement:
            methods += 1
        elif not statement.startswith("static constexpr"):
            fields += 1
    return methods, fields


def class_breaches(path: pathlib.Path, where: str):
    text = path.read_text()
    for found in CLASS.finditer(text):
        depth, end = 1, found.end()
        while depth > 0:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        comment = []
        for line in reversed(text[: found.start()].splitlines()):
            if not line.startswith("//"):
                break
            comment.append(line.removeprefix("//").strip())
        why = " ".join(reversed(comment))
        methods, fields = members(text[found.end() : end - 1])
        for number, most, what in ((methods, METHODS_MAX, "methods"), (fields, FIELDS_MAX, "fields")):
            if number > most and SENTENCE[most] not in why:
                yield f'{where}: {found.group(1)} has {number} {what}, at most {most} unless its comment says why it has "{SENTENCE[most]}"'


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    found = []
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.h")):
        if "testing" in path.parts or "test" in path.stem:
            continue
        found += class_breaches(path, str(path.relative_to(root)))
    print("\n".join(found) or "no class has too many members, or it says why")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
