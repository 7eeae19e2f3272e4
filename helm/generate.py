#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the chart's values.schema.json and the table in its README.md.

Keys and types of values come from values.yaml, those of server.config and worker.config from the
binaries' option tables. `--check` writes nothing and fails if a file is not as it would be written.
"""

import json
import pathlib
import re
import sys

import yaml

from option_table import options_of

CHART = pathlib.Path(__file__).resolve().parent / "remesh"
# By the chart's tls values.
TLS_FILES = {"tls_certificate_file", "tls_key_file"}
# What the chart itself sets, or what only a person at a console should: refused in *.config.
CHART_SETS = {
    "server": {
        "listen_address",
        "metrics_address",
        "port_file",
        "journal_path",
        "plan_store_path",
        "join_token_file",
        *TLS_FILES,
        "tls_client_ca_file",
        "tls_trust_domain",
    },
    "worker": {
        "host",
        "server_address",
        "join_token_file",
        "devices",
        "device_ids",
        "buffer_directory",
        "memory_limit_bytes",
        "socket_path",
        "keeper_socket",
        "data_bind_address",
        "metrics_address",
        "port_file",
        *TLS_FILES,
        "tls_ca_file",
        "tls_server_name",
    },
}
# Maps and lists that are Kubernetes' own: any key.
OPEN = {"resources", "tolerations", "accessModes", "dashboards.labels"}
ENUMS = {
    "tls.mode": ["none", "existingSecret", "certManager", "files"],
    "image.pullPolicy": ["Always", "IfNotPresent", "Never"],
    "server.service.type": ["ClusterIP", "NodePort", "LoadBalancer"],
}
GO_DURATION = "^([0-9]+(h|m|s))+$"
PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
RANGES = {
    "tls.trustDomain": {"type": "string", "pattern": "^[a-z0-9._-]{1,255}$"},
    "tls.certManager.duration": {"type": "string", "pattern": GO_DURATION},
    "tls.certManager.renewBefore": {"type": "string", "pattern": GO_DURATION},
    "worker.nodes": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
    "worker.devices": {"type": "integer", "minimum": 1, "maximum": 1024},
    "worker.bufferGiB": {"type": "integer", "minimum": 1},
    "worker.overheadGiB": {"type": "integer", "minimum": 1},
    "worker.maxUnavailable": {"type": ["integer", "string"]},
    "worker.dataPort": {**PORT, "minimum": 0},
    "worker.metricsPort": PORT,
    "server.metricsPort": PORT,
    "server.service.port": PORT,
}
KINDS = {
    "String": {"type": "string"},
    "Address": {"type": "string"},
    "Strings": {"type": "array", "items": {"type": ["string", "integer"]}},
    "Bool": {"type": "boolean"},
    "Double": {"type": "number", "minimum": 0},
    "Object": {"type": "object"},
    "Duration": {
        "anyOf": [{"const": 0}, {"type": "string", "pattern": r"^(0|[0-9.]+ *(h|m|s|ms|us|ns))$"}]
    },
    "Bytes": {
        "anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "string", "pattern": r"^[0-9.]+ *((Ti|Gi|Mi|Ki)?B|TB|GB|MB|kB|KB)?$"},
        ]
    },
}


def option_schema(option) -> dict:
    schema = {"description": option.doc}
    if option.kind != "Int":
        return {**schema, **KINDS[option.kind]}
    bounds = option.bounds or (0,)
    return {**schema, "type": "integer", **dict(zip(("minimum", "maximum"), bounds))}


def config_schema(binary: str) -> dict:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            option.key: option_schema(option)
            for option in options_of(binary)
            if option.key not in CHART_SETS[binary]
        },
    }


def schema_of(value, path: str) -> dict:
    """What a value may be, from its default: a filled map has these keys and no other."""
    name = path.rsplit(".", 1)[-1]
    if path in ("server.config", "worker.config"):
        return config_schema(path.split(".", maxsplit=1)[0])
    if path in RANGES:
        return RANGES[path]
    if isinstance(value, dict):
        if not value or name in OPEN or path.split(".", 1)[-1] in OPEN:
            return {"type": "object"}
        children = {
            key: schema_of(child, f"{path}.{key}".lstrip(".")) for key, child in value.items()
        }
        return {"type": "object", "additionalProperties": False, "properties": children}
    kinds = {bool: "boolean", int: "integer", str: "string", list: "array"}
    schema = {"type": kinds[type(value)]}
    return {**schema, "enum": ENUMS[path]} if path in ENUMS else schema


def schema_text(values: dict) -> str:
    schema = schema_of(values, "")
    schema["properties"]["global"] = {
        "type": "object"
    }  # Helm's own, when this chart is part of another
    return (
        json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **schema}, indent=1)
        + "\n"
    )


def documented(text: str):
    """(path, default, words) of each value of values.yaml that a "--" comment stands above; maps
    are shown whole."""
    stack, words = [], []
    for line in text.splitlines():
        comment = re.fullmatch(r" *# (-- )?(.*)", line)
        key = re.match(r"( *)([\w.]+):", line)
        if comment:
            words = [comment[2]] if comment[1] else [*words, comment[2]] if words else []
        elif key:
            depth = len(key[1]) // 2
            stack = [*stack[:depth], key[2]]
            if words:
                yield ".".join(stack), " ".join(words)
            words = []


def without_words(values, words: set, path: str = ""):
    """Values of values.yaml that no line of the table covers, their own or that of a map around
    them."""
    if path in words:
        return
    if not isinstance(values, dict) or not values:
        yield path
        return
    for key, child in values.items():
        yield from without_words(child, words, f"{path}.{key}".lstrip("."))


def at(values: dict, path: str):
    for key in path.split("."):
        values = values[key]
    return values


def table(values: dict, text: str) -> str:
    rows = ["| value | default | |", "|---|---|---|"]
    for path, words in documented(text):
        default = json.dumps(at(values, path))
        rows.append(
            f"| `{path}` | {f'`{default}`' if len(default) <= 40 else 'see values.yaml'} | {words} "
            "|"
        )
    return "\n".join(rows)


def with_table(readme: str, rows: str) -> str:
    begin, end = "<!-- values: written by helm/generate.py -->\n", "\n<!-- end of values -->"
    head, rest = readme.split(begin)
    return head + begin + rows + end + rest.rsplit(end.lstrip(), 1)[1]


def main() -> int:
    text = (CHART / "values.yaml").read_text()
    values = yaml.safe_load(text)
    readme = CHART / "README.md"
    bare = list(without_words(values, {path for path, _ in documented(text)}))
    if bare:
        print(
            f"values.yaml says nothing of {', '.join(bare)}: write a comment that starts with "
            '"--" above each'
        )
        return 1
    wanted = {
        CHART / "values.schema.json": schema_text(values),
        readme: with_table(readme.read_text(), table(values, text)),
    }
    stale = [
        path for path, words in wanted.items() if not path.exists() or path.read_text() != words
    ]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(
                f"{path.relative_to(CHART.parents[1])} is not what helm/generate.py writes: run it"
            )
        return 1 if stale else 0
    for path in stale:
        path.write_text(wanted[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
