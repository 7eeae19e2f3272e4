# SPDX-License-Identifier: Apache-2.0
"""The planner's section: what planning costs and how good plans are, beside what peers reach
(peers.json)."""

import json
import pathlib
import re
import subprocess
import sys

from report import table

TITLE = "Planner"
TARGETS = ["planner-bench"]
REPETITIONS = 5
PASSES = 3  # over all cases: what else the machine does comes in bursts longer than one case
PEERS = pathlib.Path(__file__).with_name("peers.json")

STAGES = ["request_seconds", "canonical_seconds", "make_plan_seconds"]
PROGRAM_FIGURES = ["program_seconds", "expansion_seconds", "program_wire_bytes"]

LEGEND = """Planning is CPU time of one thread from a decoded `PlanSpec` to a plan ready to serve
(front ends, validation, canonical form, fingerprint, atoms, routing, striping, windows, memory),
nothing cached: the least of {repetitions} averages, each over many plans, in {passes} passes over
all cases (of {passes} plans, where one takes seconds); *first* is the very first plan of a fresh
process. LB is the least seconds that any plan can take, T0 the least without third hosts; *busiest*
the bytes through the busiest NIC in its busier direction, Q its seconds ÷ LB, *price* the
schedule's predicted seconds ÷ those of the busiest NIC. *Peak* is the most that one device holds.
Plan is the plan in memory, spec the request on the wire; a program is one host's part of the plan,
which its worker expands. Peers' figures were measured by their makers, or with their own code where
a note says so."""

MISSES = """What is missed, and why (profiles of 2026-11-29). The machine is shared, and swings by a
third from hour to hour. Planning 405B is schedule for 54 %: two numbers of rounds are tried, and
each places all moves (14 %), finds their earliest hops (12 %), counts messages (5 %) and costs them
(6 %); what memory is needed takes 12 %. Flat states over 131,072 devices take a quarter of their
time until the plan begins, to lay out and check ten layouts of 131,072 tiles; in random layouts no
function takes more than a tenth. The random layouts' memory is fullest while moves are made: 338 MB
of moves, 143 of atoms, 120 of routes, 101 of segments. Tried: atoms, segments and moves are freed
as they are packed (995 to 750 MB) and moves sorted in place by blocks; by cycles they were sorted
in 807 MB, but all-to-all took 1.1 s more. Keeping freed memory up to 64 MiB a block saves 131,072
devices a tenth of the time and costs 50 MB. Plans of one window are counted and costed by pairs
alone (131,072 devices: a tenth less; (8,8), which is at the edge: a fifth)."""


def run(binary, name, *options):
    """The results of one benchmark, in a process of its own."""
    exact = "^" + re.sub(r"([][().*+?^$|{}\\])", r"\\\1", name) + "$"
    command = [binary, f"--benchmark_filter={exact}", "--benchmark_format=json", *options]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    results = [r for r in json.loads(output)["benchmarks"] if r["run_type"] == "iteration"]
    for result in results:
        if result.get("error_occurred"):
            sys.exit(f"{name}: {result['error_message']}")
    return results


def measure_planning(binary, name):
    """Counters of the fastest of REPETITIONS averages, with planning_seconds."""
    repetitions = 1 if is_long(name) else REPETITIONS
    results = run(
        binary, name, "--benchmark_min_time=0.05", f"--benchmark_repetitions={repetitions}"
    )
    # Not the time of the iteration, in which the plan is counted and freed, too.
    for result in results:
        result["planning_seconds"] = sum(result[stage] for stage in STAGES)
    best = min(results, key=lambda result: result["planning_seconds"])
    return dict(best, first_seconds=results[0]["first_seconds"])


def is_long(name):
    """Whether planning takes seconds, so that one plan in each pass says enough."""
    return name.startswith("plan/greatest/") or "131072" in name


def case_names(binary):
    return subprocess.run(
        [binary, "--benchmark_list_tests"], check=True, capture_output=True, text=True
    ).stdout.splitlines()


def measure_all(binary):
    """{(suite, case): counters}, in the order of the binary, with planning and program seconds
    where measured."""
    names = [name for name in case_names(binary) if not name.startswith(("hosts/", "threads/"))]
    cases = {}
    for name in names:
        kind, suite, case = name.split("/", 2)
        case = case.removesuffix("/iterations:1")
        print(name, file=sys.stderr)
        if kind == "program":
            program = run(binary, name)[0]
            cases[suite, case].update({key: program[key] for key in PROGRAM_FIGURES})
            continue
        cases[suite, case] = measure_planning(binary, name)
    for name in [name for name in names if name.startswith("plan/")] * (PASSES - 1):
        print(name, file=sys.stderr)
        counters = cases[tuple(name.split("/", 2)[1:])]
        for key, value in measure_planning(binary, name).items():
            if key in ("planning_seconds", "first_seconds"):
                counters[key] = min(counters[key], value)
    return cases


def moved(r):
    return 1 - r["kept_bytes"] / r["total_bytes"]


def price(r):
    return r["predicted_seconds"] / r["bottleneck_seconds"] if r["bottleneck_seconds"] else 1.0


COLUMNS = [
    ("LB s", lambda r: f"{r['lower_bound_seconds']:.4g}"),
    ("T0 s", lambda r: f"{r['routing_bound_seconds']:.4g}"),
    ("busiest GB", lambda r: f"{r['bottleneck_bytes'] / 1e9:.3f}"),
    ("Q", lambda r: f"{r['quality']:.4f}"),
    ("price", lambda r: f"{price(r):.3f}"),
    ("moved", lambda r: f"{100 * moved(r):.1f} %"),
    ("planning ms", lambda r: f"{1e3 * r['planning_seconds']:.3g}"),
    ("first ms", lambda r: f"{1e3 * r['first_seconds']:.3g}"),
    ("windows", lambda r: f"{r['windows']:.0f}"),
    ("peak GB", lambda r: f"{r['peak_bytes'] / 1e9:.3f}"),
    ("plan KiB", lambda r: f"{r['plan_bytes'] / 1024:.1f}"),
    ("spec KiB", lambda r: f"{r['spec_bytes'] / 1024:.1f}"),
]

GREATEST = ("scale", "flat 131072 -> 131064 x4")
FREE = ("greatest", "flat 131072 -> 131064 x4, free")
RANDOM = ("greatest", "60 arrays of 2 replicas in random layouts (512)")
ALL_TO_ALL = ("greatest", "all-to-all (2048)")
FLAT = ("scale", "flat 16384 -> 12288 x4")
SHRINKS = ("elastic", "Llama-405B TP8 PP16 DP8 (1024) -> TP8 PP2 DP32 (512)")
DONATED = ("memory", "Llama-405B TP8 PP16 DP2 (256) -> TP8 PP8 DP4 (256), donated")
GROWS = ("elastic", "Llama-405B TP8 PP16 (128) -> TP8 PP2 DP32 (512)")

# What, of which cases (a suite or one case), how much, the limit, unit.
ACCEPTANCE = [
    ("Alpa's nine: largest Q", "alpa", lambda r: r["quality"], 1.001, ""),
    ("numbers that do not divide: largest Q", "uneven", lambda r: r["quality"], 1.001, ""),
    (
        "405B 128 → 512: busiest NIC",
        GROWS,
        lambda r: r["bottleneck_bytes"] / 1e9,
        1.001 * 50.73,
        "GB",
    ),
    ("405B 128 → 512: predicted ÷ busiest NIC", GROWS, price, 1.05, ""),
    (
        "Qwen3-32B 32 → 32: busiest NIC",
        ("m2n", "Qwen3-32B TP4 PP4 DP2 (32) -> TP4 DP8 (32)"),
        lambda r: r["bottleneck_bytes"] / 1e9,
        1.001 * 8.19,
        "GB",
    ),
    (
        "(8,8) → (8,8), one array: planning",
        ("scaling", "(8,8) RS01R -> (8,8) S01RR"),
        lambda r: 1e3 * r["planning_seconds"],
        1,
        "ms",
    ),
    (
        "405B 1024 → 512, all arrays: planning",
        SHRINKS,
        lambda r: 1e3 * r["planning_seconds"],
        5,
        "ms",
    ),
    (
        "… longest program of a host on the wire",
        SHRINKS,
        lambda r: r["program_wire_bytes"] / 1024,
        256,
        "KiB",
    ),
    (
        "DeepSeek-V3, each expert an array: planning",
        ("elastic", "DeepSeek-V3 FP8, each expert an array (2048) -> (1536)"),
        lambda r: 1e3 * r["planning_seconds"],
        100,
        "ms",
    ),
    (
        "flat 16,384 → 12,288, all states: planning",
        FLAT,
        lambda r: 1e3 * r["planning_seconds"],
        80,
        "ms",
    ),
    (
        "flat 131,072 → 131,064, all states: planning",
        GREATEST,
        lambda r: 1e3 * r["planning_seconds"],
        1200,
        "ms",
    ),
    ("… peak memory of the process", GREATEST, lambda r: r["process_peak_bytes"] / 1e6, 400, "MB"),
    ("… free target order: planning", FREE, lambda r: 1e3 * r["planning_seconds"], 2500, "ms"),
    ("… peak memory of the process", FREE, lambda r: r["process_peak_bytes"] / 1e6, 900, "MB"),
    (
        "60 arrays × 512 devices, random layouts: planning",
        RANDOM,
        lambda r: 1e3 * r["planning_seconds"],
        3000,
        "ms",
    ),
    ("… peak memory of the process", RANDOM, lambda r: r["process_peak_bytes"] / 1e6, 700, "MB"),
    (
        "all-to-all of 2,048 devices: planning",
        ALL_TO_ALL,
        lambda r: 1e3 * r["planning_seconds"],
        3000,
        "ms",
    ),
    (
        "… peak memory of the process",
        ALL_TO_ALL,
        lambda r: r["process_peak_bytes"] / 1e6,
        700,
        "MB",
    ),
    (
        "flat 16,384 → 12,288, all states: peak memory of the process",
        FLAT,
        lambda r: r["process_peak_bytes"] / 2**20,
        256,
        "MiB",
    ),
    (
        "… program of the slowest host, expanded",
        FLAT,
        lambda r: 1e3 * r["expansion_seconds"],
        20,
        "ms",
    ),
    ("… and ready for the wire", FLAT, lambda r: 1e3 * r["program_seconds"], 20, "ms"),
    (
        "… longest program of a host on the wire",
        FLAT,
        lambda r: r["program_wire_bytes"] / 1024,
        256,
        "KiB",
    ),
    ("… plan in memory", FLAT, lambda r: r["plan_bytes"] / 2**20, 8, "MiB"),
    (
        "1,137 arrays over 16,384 devices: spec on the wire",
        ("scale", "flat 16384 -> 12288"),
        lambda r: r["spec_bytes"] / 1024,
        256,
        "KiB",
    ),
    (
        "flat 1024 → 1016, free target order: moved",
        ("target order", "flat 1024 -> 1016, free"),
        lambda r: 100 * moved(r),
        26.05,
        "%",
    ),
    (
        "405B donated: peak ÷ larger side",
        DONATED,
        lambda r: r["peak_bytes"] / r["larger_side_bytes"],
        1.10,
        "",
    ),
]


def acceptance_rows(cases):
    for label, where, value_of, limit, unit in ACCEPTANCE:
        chosen = [r for key, r in cases.items() if key == where or key[0] == where]
        value = max(value_of(r) for r in chosen)
        suffix = f" {unit}" if unit else ""
        yield [
            label,
            f"≤ {limit:.5g}{suffix}",
            f"{value:.5g}{suffix}",
            "yes" if value <= limit else "**no**",
        ]


def suite_lines(suite, cases, peers):
    has_peers = any(f"{suite}/{case}" in peers["cases"] for case in cases)
    header = ["case", *(name for name, _ in COLUMNS), *(["peers"] if has_peers else [])]
    rows = [
        [
            case.replace("->", "→"),
            *(cell(r) for _, cell in COLUMNS),
            *([peers["cases"].get(f"{suite}/{case}", "")] if has_peers else []),
        ]
        for case, r in cases.items()
    ]
    return [
        f"#### {suite[0].upper()}{suite[1:]}",
        "",
        peers["notes"][suite],
        "",
        *table(header, rows),
        "",
    ]


def measure(build, arguments):
    if arguments:
        sys.exit("scripts/bench planner takes no further arguments")
    peers = json.loads(PEERS.read_text())
    cases = measure_all(build / "bin" / "planner-bench")
    lines = [
        LEGEND.format(repetitions=PASSES * REPETITIONS, passes=PASSES),
        "",
        "### What must hold",
        "",
    ]
    lines += table(["figure", "limit", "measured", "holds"], acceptance_rows(cases))
    lines += [
        "",
        MISSES,
        "",
        "Random requests (validity, bounds, certificates) are a test: `ctest -R planner_law_test`.",
        "",
        "### Cases",
        "",
    ]
    for suite in dict.fromkeys(suite for suite, _ in cases):
        lines += suite_lines(
            suite, {case: r for (s, case), r in cases.items() if s == suite}, peers
        )
    return lines[:-1]
