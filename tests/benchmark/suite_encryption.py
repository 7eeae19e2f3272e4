# SPDX-License-Identifier: Apache-2.0
"""What data_encryption costs: messages between two processes over the worker's TCP transport, in
the clear and under AES-256-GCM in turn."""

import re
import statistics
import subprocess
import sys

from report import table

TITLE = "Data encryption"
TARGETS = ["transport_benchmark"]
ROUNDS = 5
LINE = re.compile(r"^\s*(\d+) KiB\s+([\d.]+) GB/s, ([\d.]+) GB per processor second", re.M)

LEGEND = """Two processes of this machine, one connection, 2 GiB a round in messages of each size,
16 of them under way. *A processor second* is the receiver's. Medians of {rounds} rounds in which
the two take turns. The digests that workers make of what they move are not in it."""


def measure(build, arguments):
    if arguments:
        sys.exit("scripts/bench encryption takes no further arguments")
    measured = {}
    for _ in range(ROUNDS):
        for flag in ("", "--encrypt"):
            output = subprocess.run(
                [build / "benchmark" / "transport_benchmark", *flag.split()],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            for kib, rate, per_second in LINE.findall(output):
                measured.setdefault((int(kib), flag), []).append((float(rate), float(per_second)))
    rows = []
    for kib in sorted({kib for kib, _ in measured}):
        clear, sealed = (
            [statistics.median(column) for column in zip(*measured[kib, flag])]
            for flag in ("", "--encrypt")
        )
        rows.append(
            [
                f"{kib} KiB",
                f"{clear[0]:.2f}",
                f"{sealed[0]:.2f}",
                f"{clear[1]:.2f}",
                f"{sealed[1]:.2f}",
            ]
        )
    return [
        LEGEND.format(rounds=ROUNDS),
        "",
        *table(
            [
                "messages of",
                "GB/s in the clear",
                "encrypted",
                "GB a processor second in the clear",
                "encrypted",
            ],
            rows,
        ),
    ]
