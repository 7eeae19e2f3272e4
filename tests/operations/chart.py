# SPDX-License-Identifier: Apache-2.0
"""The chart, rendered: what the tests of its parts share."""

import functools
import json

import jsonschema
import yaml

import support
from support import CHART, TOOLS, run

CASES = {
    "defaults": None,
    **{path.stem.removesuffix("-values"): path for path in sorted((CHART / "ci").glob("*.yaml"))},
}
VERSIONS = ["1.27", "1.34", "1.37"]
NODES = ("--set", "worker.nodes.a=0", "--set", "worker.nodes.b=8")


def template(*arguments, version: str = "1.34"):
    return run(
        TOOLS / "helm",
        "template",
        "release",
        CHART,
        "--namespace",
        "space",
        "--kube-version",
        f"{version}.0",
        *arguments,
    )


@functools.lru_cache(maxsize=None)
def rendered(case: str, version: str = "1.34", *arguments) -> list:
    values = ["--values", CASES[case]] if CASES[case] else []
    result = template(*values, *arguments, version=version)
    assert result.returncode == 0, result.stderr
    return [document for document in yaml.safe_load_all(result.stdout) if document]


def of_kind(documents: list, kind: str, name: str = "") -> list:
    return [
        document
        for document in documents
        if document["kind"] == kind and document["metadata"]["name"].endswith(name)
    ]


def only(documents: list, kind: str, name: str = ""):
    (found,) = of_kind(documents, kind, name)
    return found


def pods(documents: list) -> list:
    """(name, labels, spec) of every pod that the objects make."""
    result = []
    for document in documents:
        if document["kind"] == "Pod":
            result.append(
                (document["metadata"]["name"], document["metadata"]["labels"], document["spec"])
            )
        elif document["kind"] in ("StatefulSet", "DaemonSet"):
            template_of = document["spec"]["template"]
            result.append(
                (
                    document["metadata"]["name"],
                    template_of["metadata"]["labels"],
                    template_of["spec"],
                )
            )
    return result


def containers(spec: dict) -> list:
    return [*spec.get("initContainers", []), *spec["containers"]]


@functools.lru_cache(maxsize=None)
def schemas(version: str) -> dict:
    return json.loads((TOOLS / f"kubernetes-{version}.json").read_text())["$defs"]


def kubernetes_faults(document: dict, version: str) -> list:
    """What Kubernetes' own schema, without unknown fields, has against an object."""
    group, _, api = document["apiVersion"].rpartition("/")
    (name,) = [
        name
        for name in schemas(version)
        if name.endswith(f".{group.split('.')[0] or 'core'}.{api}.{document['kind']}")
    ]
    checker = jsonschema.Draft202012Validator(
        {"$defs": schemas(version), "$ref": f"#/$defs/{name}"}
    )
    return [
        f"{'/'.join(map(str, error.absolute_path))}: {error.message}"
        for error in checker.iter_errors(document)
    ]


def main() -> None:
    support.main(needs=["helm", *(f"kubernetes-{version}.json" for version in VERSIONS)])
