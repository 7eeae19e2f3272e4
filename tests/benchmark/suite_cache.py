# SPDX-License-Identifier: Apache-2.0
"""The plan cache's section: how fast a real server on loopback answers what it knows, and what that
takes."""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time
import urllib.request

from report import table

TITLE = "Plan cache"
TARGETS = ["remesh-server", "cache-bench", "python_proto"]
ROUNDS = 5
LIMIT_MIB = 64
DISTINCT = 10_000
# What a server under a full cache may take beyond the limit: binary, gRPC, planning threads, what
# the allocator keeps.
CONSTANT_MIB = 96

LEGEND = """A real `remesh-server` and a C++ client on loopback of the same machine, which share its
cores. *By name* is `GetPlan` in its default view, everything but transfers; *by content* is
`CreatePlan` with the whole request: Llama-3.1-405B from 1,024 to 512 GPUs, {arrays} arrays, {kib}
KiB on the wire. A question in words that were used before is known by their digest; *reworded*, it
goes through front ends, canonical form and fingerprint. Each figure is the median of {rounds}
rounds (the best round in parentheses); load average before: {load}."""


def measure(build, arguments):
    if arguments:
        sys.exit("scripts/bench cache takes no further arguments")
    sys.path.insert(0, str(build / "python"))
    load = " ".join(f"{x:.1f}" for x in os.getloadavg())
    warm, first = measure_answers(build)
    memory = measure_memory(build)
    legend = LEGEND.format(
        arrays="1,137", kib=round(first["miss"]["request_bytes"] / 1024), rounds=ROUNDS, load=load
    )
    lines = [
        legend,
        "",
        *table(["figure", "limit", "measured", "holds"], acceptance_rows(warm, first, memory)),
    ]
    lines += ["", "With 64 clients at once, each with a connection and one call at a time:", ""]
    lines += table(
        ["", "calls a second", "p50 ms", "p99 ms"],
        [
            [
                name,
                f"{middle(warm[key], 'calls_per_second'):.0f}",
                f"{1e3 * middle(warm[key], 'p50_seconds'):.2f}",
                f"{1e3 * middle(warm[key], 'p99_seconds'):.2f}",
            ]
            for name, key in [("by name", "name-load"), ("by content", "content-load")]
        ],
    )
    lines += [
        "",
        "The first answer of a server (one call, with its connection made): planned in "
        f"{1e3 * first['miss']['seconds']:.1f} ms; after a restart from disk in "
        f"{1e3 * first['disk']['seconds']:.1f} ms.",
    ]
    lines += [
        "",
        f"Memory, with `plan_cache_bytes: {LIMIT_MIB}MiB` and {DISTINCT:,} distinct plans of "
        f"Llama-3.1-8B asked for once each in {memory['seconds']:.0f} s: resident "
        f"{memory['before_mib']:.0f} MiB before, {memory['after_mib']:.0f} MiB after, at most "
        f"{memory['peak_mib']:.0f} MiB; the cache then holds {memory['entries']:,} plans and "
        f"counts {memory['bytes_mib']:.1f} MiB for them.",
    ]
    return lines


def measure_answers(build):
    """(rounds of each way to ask, what first calls took)."""
    with server(build) as cluster:
        first = {"miss": bench(build, cluster, "first")}
        warm = {
            "name": bench(build, cluster, "name-latency", "--calls=2000"),
            "content": bench(build, cluster, "content-latency", "--calls=200"),
            "reworded": bench(build, cluster, "reworded-latency", "--calls=100"),
            "name-load": bench(build, cluster, "name-load", "--seconds=4"),
            "content-load": bench(build, cluster, "content-load", "--seconds=4"),
        }
        cluster.stop_server()
        cluster.start_server()
        first["disk"] = bench(build, cluster, "first")
    with server(build) as cluster:
        first["cold"] = bench(build, cluster, "cold", "--count=1000")
    expected = {"miss": "MISS", "disk": "DISK"}
    for key, way in expected.items():
        if first[key]["cache"] != way:
            sys.exit(f"the first answer was {first[key]['cache']}, not {way}")
    return warm, first


def measure_memory(build):
    with server(build, f"plan_cache_bytes: {LIMIT_MIB}MiB", "plan_store_bytes: 0") as cluster:
        before = status_kib(cluster, "VmRSS")
        result = bench(build, cluster, "distinct", f"--count={DISTINCT}", timeout_seconds=1800)
        time.sleep(1)  # the server counts a few times a second
        series = scrape(cluster)
        return {
            "seconds": result["seconds"],
            "before_mib": before / 1024,
            "after_mib": status_kib(cluster, "VmRSS") / 1024,
            "peak_mib": status_kib(cluster, "VmHWM") / 1024,
            "entries": int(series['remesh_plan_cache_entries{tier="memory"}']),
            "bytes_mib": series['remesh_plan_cache_bytes{tier="memory"}'] / 2**20,
        }


def server(build, *config):
    from remesh.testing import LocalCluster  # built by TARGETS

    return LocalCluster(build / "bin", 0, server_config=["log_level: warning", *config])


def bench(build, cluster, what, *options, timeout_seconds=600):
    print(what, file=sys.stderr)
    command = [
        build / "bin" / "cache-bench",
        f"--server={cluster.server_address}",
        f"--rounds={ROUNDS}",
        *options,
        what,
    ]
    return json.loads(
        subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, timeout=timeout_seconds
        ).stdout
    )


def status_kib(cluster, key):
    status = pathlib.Path(f"/proc/{cluster.server.popen.pid}/status").read_text()
    return int(re.search(rf"^{key}:\s*(\d+)", status, re.M)[1])


def scrape(cluster):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    text = opener.open(cluster.server_metrics_url, timeout=30).read().decode()
    return {name: float(value) for name, value in re.findall(r"^([^#\s]\S*) (\S+)$", text, re.M)}


def middle(rounds, key):
    return statistics.median(r[key] for r in rounds)


def best(rounds, key):
    return min(r[key] for r in rounds)


def acceptance_rows(warm, first, memory):
    for label, rounds, key, limit in [
        ("by name, p50", warm["name"], "p50_seconds", 0.2),
        ("by name, p99", warm["name"], "p99_seconds", 1),
        ("by content, p50", warm["content"], "p50_seconds", 5),
    ]:
        value = 1e3 * middle(rounds, key)
        yield [
            label,
            f"≤ {limit} ms",
            f"{value:.3f} ms ({1e3 * best(rounds, key):.3f})",
            holds(value <= limit),
        ]
    for label, rounds, key in [
        ("by content, p99", warm["content"], "p99_seconds"),
        ("reworded, p50", warm["reworded"], "p50_seconds"),
        ("reworded, p99", warm["reworded"], "p99_seconds"),
    ]:
        yield [
            label,
            "–",
            f"{1e3 * middle(rounds, key):.3f} ms ({1e3 * best(rounds, key):.3f})",
            "",
        ]
    cold = first["cold"]
    yield [
        f"{cold['calls']:,} equal cold requests at once: planned",
        "1",
        str(cold["planned"]),
        holds(cold["planned"] == 1),
    ]
    limit = LIMIT_MIB + CONSTANT_MIB
    yield [
        f"{DISTINCT:,} plans through {LIMIT_MIB} MiB of cache: most resident",
        f"≤ {LIMIT_MIB} + {CONSTANT_MIB} MiB",
        f"{memory['peak_mib']:.0f} MiB",
        holds(memory["peak_mib"] <= limit),
    ]


def holds(does):
    return "yes" if does else "**no**"
