#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds server/controller to its order of knowledge: a machine includes only what precedes it, and no class grows into one that sees everything.

Usage: check_controller.py REPOSITORY_ROOT. Prints each breach and exits 1 if there is one.
"""
import pathlib
import re
import sys

FOLDER = "server/controller"
# Each step may include itself and those before it. A new file needs a place here.
ORDER = [
    ("values", "action assignment_parts controller_options device_ledger digest enrolment event follow_up journal_past journal_position names"
     " outbox overloaded own_pause pagination placed proto_time records topology_rules uid"),
    ("journal queue", "journal_queue"),
    ("leadership", "leadership"),
    ("membership", "commands membership parked_streams worker_registry"),
    ("states", "state_registry states tombstones"),
    ("executions", "attempt_commands execution execution_hosts execution_spec executions"),
    ("starts", "starts"),
    ("reconcile", "held owed reconcile"),
    ("watches", "watches"),
    ("views", "answers controller_view removal"),
    ("dispatcher", "controller host_events machines settle"),
]
STEP_OF = {stem: number for number, (_, stems) in enumerate(ORDER) for stem in stems.split()}
DISPATCHER_LINES_MAX = 200
METHODS_MAX, FIELDS_MAX = 25, 12
INCLUDE = re.compile(r'^\s*#\s*include\s+"(server/[^"]+)"', re.M)
CLASS = re.compile(r"^(?:class|struct) (\w+)(?: final)?(?: : [^{;]*)? *\{", re.M)
SENTENCE = {METHODS_MAX: "more than 25 methods", FIELDS_MAX: "more than 12 fields"}


def is_test(path: pathlib.Path) -> bool:
    return path.stem.endswith("_test") or "test_" in path.stem


def include_breaches(path: pathlib.Path, where: str):
    if path.stem not in STEP_OF:
        yield f"{where}: has no place in ORDER of tests/layering/check_controller.py"
        return
    step = STEP_OF[path.stem]
    for include in INCLUDE.findall(path.read_text()):
        target = pathlib.PurePath(include)
        if str(target.parent) != FOLDER:
            yield f"{where}: the controller may not include {include}"
        elif STEP_OF.get(target.stem, len(ORDER)) > step:
            yield f"{where}: {ORDER[step][0]} may not include {include}"
    lines = len(path.read_text().splitlines())
    if ORDER[step][0] == "dispatcher" and lines > DISPATCHER_LINES_MAX:
        yield f"{where}: {lines} lines; a file of the dispatcher has at most {DISPATCHER_LINES_MAX}"


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
    for path in sorted((root / FOLDER).glob("*.*")):
        where = str(path.relative_to(root))
        if path.suffix not in (".h", ".cc") or is_test(path):
            continue
        found += include_breaches(path, where)
        if path.suffix == ".h":
            found += class_breaches(path, where)
    print("\n".join(found) or "the controller keeps its order of knowledge")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
