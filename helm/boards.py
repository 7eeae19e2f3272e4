#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the Grafana boards, helm/remesh/files/dashboards/*.json; `--check` fails if one is not as
it would be written.

Boards ask Prometheus for the jobs that the chart's PodMonitor makes; every series in them is one of
docs/metrics.md. The panels of each board are in panels/, their JSON is made in grafana/.
"""

import json
import pathlib
import sys

from grafana.board_json import board_json
from panels import control, moves, overview, planner

FOLDER = pathlib.Path(__file__).resolve().parent / "remesh" / "files" / "dashboards"
BOARDS = {
    "overview": overview.PANELS,
    "moves": moves.PANELS,
    "planner": planner.PANELS,
    "control": control.PANELS,
}


def main() -> int:
    wanted = {
        FOLDER / f"remesh-{name}.json": json.dumps(board_json(name, panels), indent=1) + "\n"
        for name, panels in BOARDS.items()
    }
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.name} is not what helm/boards.py writes: run it")
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in stale:
        path.write_text(wanted[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
