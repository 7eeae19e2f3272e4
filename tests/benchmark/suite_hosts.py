# SPDX-License-Identifier: Apache-2.0
"""The planner's cases on hosts of 1 to 72 devices: how long schedules take beside what their
busiest link needs."""

import json
import math
import pathlib
import sys

from report import table
from suite_planner import TARGETS, case_names, run  # pylint: disable=unused-import

TITLE = "Planner on hosts of any size"
HOSTS_BEFORE = pathlib.Path(__file__).with_name("hosts_before.json")


def measure_hosts(binary):
    """{(case, hosts): counters} of the same cases on hosts of all sizes, with `threads`: the
    counters where each device has a thread that posts. Each is planned once: their plans are of
    interest."""
    cases = {}
    for name in case_names(binary):
        kind, hosts, case = name.removesuffix("/iterations:1").split("/", 2)
        if kind not in ("hosts", "threads"):
            continue
        print(name, file=sys.stderr)
        result = run(binary, name)[0]
        if kind == "hosts":
            cases[case, hosts] = result
        else:
            cases[case, hosts]["threads"] = result
    before = json.loads(HOSTS_BEFORE.read_text())["cases"]
    for (case, hosts), result in cases.items():
        result["before"] = before.get(f"{hosts}/{case}")
    return cases


HAND_OVER_SECONDS = 50e-6  # kHandOverSeconds of planner/schedule/cost_model.h


def needed(r):
    """B: what the busiest link of the plan takes, its fabric included."""
    return max(r["bottleneck_seconds"], r["fabric_seconds"])


def over_needed(seconds, r):
    return seconds / needed(r) if needed(r) else 1.0


def is_short(r):
    """Whether hand-overs count beside the bytes."""
    return needed(r) < 100 * r["hops"] * HAND_OVER_SECONDS


def schedule_limit(r):
    if not is_short(r):
        return 1.02 * needed(r)
    filling = (
        needed(r) + 2 * math.sqrt(r["hops"] * needed(r) * HAND_OVER_SECONDS) + 2 * HAND_OVER_SECONDS
    )
    return max(1.05 * needed(r), filling)


def is_in_time(r):
    """Where no byte leaves its device there is nothing to compare with."""
    return not needed(r) or r["schedule_seconds"] <= schedule_limit(r) * (1 + 1e-9)


PREDICTED_MAX = 1.10


def predicted_over_needed(r):
    return over_needed(r["predicted_seconds"], r)


def predicted_at_best(r):
    """With a posting thread a host, or where that is over the limit, one a device."""
    alone = predicted_over_needed(r)
    return alone if alone <= PREDICTED_MAX else predicted_over_needed(r["threads"])


def fabric_over_bound(r):
    bound = max(r["fabric_bound_seconds"], r["lower_bound_seconds"])
    return r["fabric_seconds"] / bound if bound else 1.0


def messages_limit(r):
    """1.1 times what the planner of hosts_before.json took, where its schedule was about as long as
    its busiest link; else one message a pair, or messages of 4 MiB, with a fifth more. None without
    messages, or where that planner was not asked.
    """
    if not r["before"] or not r["operations"]:
        return None
    if r["before"]["schedule"] <= 1.02:
        return 1.1 * r["before"]["messages"]
    return 1.2 * max(r["pairs"], r["message_bytes"] * r["operations"] / 2**22)


def over_messages_limit(r):
    limit = messages_limit(r)
    return r["operations"] / limit if limit else 0.0


HOSTS_LEGEND = """The cases of models and flat states on hosts of 1 to 72 devices, dealt to hosts in
order; the last host may be partial. One NIC of 50 GB/s a device, fabric 450 GB/s on hosts of up to
8 devices, 900 above. Meshes and Tenplex's cases are on the hosts that they have. B is what the
busiest link of the plan takes, fabric included; *schedule* the predicted seconds as if messages
cost only their bytes, *predicted* with the costs of messages and of posting them on one thread a
host, NCCL's as assumed; *a thread a device*: the same of the plan where each device has a thread
that posts. Short plans, for which hand-overs of 50 µs count (B < 100 hops), have a wider limit:
max(1.05 B, B + 2√(d·B·α) + 2α). The fabric bound is that of plans which, like these, send a host
nothing that it holds. Messages have as limit 1.1 times the median over 16 numberings of hosts at
commit 6489d01f (hosts_before.json) where the schedule of that commit was within 2 % of B; elsewhere
1.2 times the larger of the pairs of devices and bytes ÷ 4 MiB."""


HOSTS_COLUMNS = [
    ("B s", lambda r: f"{needed(r):.4g}"),
    (
        "schedule ÷ B",
        lambda r: f"{over_needed(r['schedule_seconds'], r):.3f}"
        + ("" if is_in_time(r) else " **miss**"),
    ),
    ("predicted ÷ B", lambda r: f"{predicted_over_needed(r):.3f}"),
    ("a thread a device", lambda r: f"{predicted_over_needed(r['threads']):.3f}"),
    ("fabric ÷ bound", lambda r: f"{fabric_over_bound(r):.3f}"),
    ("windows", lambda r: f"{r['windows']:.0f}"),
    ("messages", lambda r: f"{r['operations']:.0f}"),
    ("÷ their limit", lambda r: f"{over_messages_limit(r):.3f}" if messages_limit(r) else "–"),
    ("mean message MB", lambda r: f"{r['message_bytes'] / 1e6:.3g}"),
    ("planning ms", lambda r: f"{1e3 * r['first_seconds']:.3g}"),
    ("process MiB", lambda r: f"{r['process_peak_bytes'] / 2**20:.0f}"),
]


HOSTS_MISSES = """Predictions are over the limit, even with a thread for each device, where relays
need many parts to keep their filling within 2 % and some device has a message of each of many pairs
in every part. *One message a pair* is what the busiest NIC would take with one
message for each of its pairs in the whole plan: where that is within the limit, the pairs alone do
not force the prediction over it."""


def misses_lines(long, cases):
    """What is over a limit, case by case."""
    rows = [
        [
            case.replace("->", "→"),
            hosts,
            f"{predicted_at_best(r):.3f}",
            f"{over_needed(r['threads']['schedule_seconds'], r['threads']):.3f}",
            f"{over_needed(r['threads']['pair_seconds'], r['threads']):.3f}",
        ]
        for (case, hosts), r in cases.items()
        if any(r is one for one in long) and predicted_at_best(r) > PREDICTED_MAX
    ]
    lines = (
        [
            HOSTS_MISSES,
            "",
            *table(
                ["case", "hosts", "predicted ÷ B", "schedule ÷ B", "one message a pair ÷ B"], rows
            ),
        ]
        if rows
        else []
    )
    more = [
        [
            case.replace("->", "→"),
            hosts,
            f"{r['operations']:.0f}",
            f"{messages_limit(r):.0f}",
            f"{r['message_bytes'] / 1e6:.3g}",
        ]
        for (case, hosts), r in cases.items()
        if over_messages_limit(r) > 1
    ]
    if more:
        lines += [
            "",
            MESSAGES_MISSES,
            "",
            *table(["case", "hosts", "messages", "limit", "mean message MB"], more),
        ]
    return lines


MESSAGES_MISSES = """Messages are over their limit in these cases."""


def hosts_lines(cases):
    long = [r for r in cases.values() if not is_short(r)]
    short = [r for r in cases.values() if is_short(r)]
    figures = [
        (
            "schedule ÷ B, long plans: largest",
            1.02,
            max(over_needed(r["schedule_seconds"], r) for r in long),
        ),
        (
            "schedule ÷ its limit, short plans: largest",
            1.0,
            max((r["schedule_seconds"] / schedule_limit(r) for r in short if needed(r)), default=0),
        ),
        (
            "predicted ÷ B, long plans, one posting thread a device unless it holds with one a "
            "host: largest",
            PREDICTED_MAX,
            max(map(predicted_at_best, long)),
        ),
        (
            "fabric ÷ max(fabric bound, LB): largest",
            1.06,
            max(fabric_over_bound(r) for r in cases.values()),
        ),
        ("messages ÷ their limit: largest", 1.0, max(map(over_messages_limit, cases.values()))),
    ]
    rows = [
        [name, f"≤ {limit}", f"{value:.4g}", "yes" if value <= limit else "**no**"]
        for name, limit, value in figures
    ]
    lines = [
        HOSTS_LEGEND,
        "",
        *table(["figure", "limit", "measured", "holds"], rows),
        "",
        *misses_lines(long, cases),
        "",
    ]
    for hosts in dict.fromkeys(hosts for _, hosts in cases):
        rows = [
            [case.replace("->", "→"), *(cell(r) for _, cell in HOSTS_COLUMNS)]
            for (case, h), r in cases.items()
            if h == hosts
        ]
        lines += [
            f"### {hosts.capitalize()}",
            "",
            *table(["case", *(name for name, _ in HOSTS_COLUMNS)], rows),
            "",
        ]
    return lines


def measure(build, arguments):
    if arguments:
        sys.exit("scripts/bench hosts takes no further arguments")
    return hosts_lines(measure_hosts(build / "bin" / "planner-bench"))[:-1]
