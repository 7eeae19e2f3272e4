#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds server/controller to its order of knowledge: a machine includes only what precedes it.

Usage: check_controller.py REPOSITORY_ROOT. Prints each breach and exits 1 if there is one.
"""
import pathlib
import re
import sys

FOLDER = "server/controller"
# Each step may include itself and those before it. A new file needs a place here.
ORDER = [
    ("values", "action assignment_parts controller_options device_ids device_ledger digest enrolment event follow_up journal_past journal_position names"
     " outbox overloaded own_pause pagination placed records topology_rules uid"),
    ("journal queue", "journal_queue"),
    ("leadership", "leadership"),
    ("membership", "commands data_addresses membership new_streams parked_streams worker_registry"),
    ("states", "host_writes not_ready replicas state_registry states tombstones wanted"),
    ("executions", "attempt_commands attempt_peers communicators execution execution_hosts execution_spec executions remembered_executions stalled_links"),
    ("starts", "starts"),
    ("reconcile", "held last_copy owed reconcile"),
    ("watches", "watches"),
    ("views", "answers controller_view removal"),
    ("dispatcher", "controller host_events machines operator_events settle worker_changes"),
]
STEP_OF = {stem: number for number, (_, stems) in enumerate(ORDER) for stem in stems.split()}
DISPATCHER_LINES_MAX = 200
INCLUDE = re.compile(r'^\s*#\s*include\s+"(server/[^"]+)"', re.M)


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


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    found = []
    for path in sorted((root / FOLDER).glob("*.*")):
        where = str(path.relative_to(root))
        if path.suffix not in (".h", ".cc") or is_test(path):
            continue
        found += include_breaches(path, where)
    print("\n".join(found) or "the controller keeps its order of knowledge")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
